package gateway

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file implements the health service: this process serves if its Scheduler answers and accepts jobs. A standby
// does not serve.

const (
	healthTimeout = time.Second     // a slower Scheduler is unhealthy
	healthPause   = 2 * time.Second // interval of the checks of a watch
)

type health struct {
	grpc_health_v1.UnimplementedHealthServer
	g *Gateway
}

func known(service string) bool {
	return service == "" || service == api.Synapse_ServiceDesc.ServiceName ||
		service == api.Scheduler_ServiceDesc.ServiceName
}

// Check returns the current status.
func (h health) Check(
	ctx context.Context, q *grpc_health_v1.HealthCheckRequest,
) (*grpc_health_v1.HealthCheckResponse, error) {
	if !known(q.GetService()) {
		return nil, status.Error(codes.NotFound, "unknown service")
	}
	return &grpc_health_v1.HealthCheckResponse{Status: h.g.serving(ctx)}, nil
}

// Watch sends the current status and every change.
func (h health) Watch(
	q *grpc_health_v1.HealthCheckRequest, stream grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse],
) error {
	if err := h.g.enter(); err != nil {
		return err
	}
	defer h.g.leave()
	last := grpc_health_v1.HealthCheckResponse_UNKNOWN
	for {
		now := grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN
		if known(q.GetService()) {
			now = h.g.serving(stream.Context())
		}
		if now != last {
			last = now
			if err := stream.Send(&grpc_health_v1.HealthCheckResponse{Status: now}); err != nil {
				return err
			}
		}
		select {
		case <-h.g.o.Clock.After(healthPause):
		case <-stream.Context().Done():
			return lapsed(stream.Context().Err())
		case <-h.g.closed:
			return api.StatusOf(closing())
		}
	}
}

// List returns the status of all services.
func (h health) List(
	ctx context.Context, _ *grpc_health_v1.HealthListRequest,
) (*grpc_health_v1.HealthListResponse, error) {
	now := &grpc_health_v1.HealthCheckResponse{Status: h.g.serving(ctx)}
	return &grpc_health_v1.HealthListResponse{Statuses: map[string]*grpc_health_v1.HealthCheckResponse{
		"": now, api.Synapse_ServiceDesc.ServiceName: now, api.Scheduler_ServiceDesc.ServiceName: now,
	}}, nil
}

// serving reports whether jobs are accepted. It submits an empty job. A Scheduler that accepts jobs refuses it as
// invalid; any other Scheduler refuses it as not ready.
func (g *Gateway) serving(ctx context.Context) grpc_health_v1.HealthCheckResponse_ServingStatus {
	if !g.o.Leader().Here {
		return grpc_health_v1.HealthCheckResponse_NOT_SERVING
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	got, err := g.ask(ctx, g.scheduler, &messages.Submit{Principal: g.o.Principal(ctx)})
	a, ok := got.(*messages.SubmitReply)
	if err == nil && ok && a.GetOutcome().GetCode() == messages.Code_CODE_INVALID {
		return grpc_health_v1.HealthCheckResponse_SERVING
	}
	return grpc_health_v1.HealthCheckResponse_NOT_SERVING
}

// Ready reports whether this process leads and accepts jobs now.
func (g *Gateway) Ready(ctx context.Context) bool {
	return g.serving(ctx) == grpc_health_v1.HealthCheckResponse_SERVING
}

// Census returns counts of everything that the Mirror shows, or nil if this process does not lead. Each call makes
// the Mirror walk over all of its data.
func (g *Gateway) Census(ctx context.Context) (*mirror.Census, error) {
	if !g.o.Leader().Here {
		return nil, nil
	}
	got, err := g.ask(ctx, g.mirror, mirror.CountAll{})
	if err != nil {
		return nil, err
	}
	c, ok := got.(*mirror.Census)
	if !ok {
		return nil, status.Error(codes.Internal, "answer does not match the request")
	}
	return c, nil
}
