package gateway

import (
	"context"
	"runtime/debug"

	"google.golang.org/grpc"
)

// This file owns the handling of a panic in a call: it costs only that call. The client learns that the fault is in the
// scheduler, and nothing of its insides; the log has the stack.

// GuardCall turns a panic of a call into its answer.
func (g *Gateway) GuardCall(
	ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
) (reply any, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			reply, err = nil, g.panicked(info.FullMethod, reason)
		}
	}()
	return handle(ctx, request)
}

// GuardStream is the same for streams.
func (g *Gateway) GuardStream(
	server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler,
) error {
	return g.guarded(info.FullMethod, func() error { return handle(server, stream) })
}

// guarded does a part of a call. What a call does beside itself is guarded on its own: a panic is recovered only by who
// runs into it.
func (g *Gateway) guarded(method string, do func() error) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = g.panicked(method, reason)
		}
	}()
	return do()
}

func (g *Gateway) panicked(method string, reason any) error {
	g.o.Count("gateway.panics", 1)
	g.o.Log.Info("%s panicked: %v\n%s", method, reason, debug.Stack())
	return errInternal
}
