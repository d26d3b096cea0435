package gateway

// This file tests the health service and reflection.

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
)

func TestHealthAndReflection(t *testing.T) {
	r := newRoom(t)
	var leads atomic.Bool
	leads.Store(true)
	leader := func() Leader { return Leader{Here: leads.Load()} }
	d := r.door(r.system("scheduler"), Options{Leader: leader})
	ctx := timely(t)
	h := grpc_health_v1.NewHealthClient(d.conn)
	is := func(service string, want grpc_health_v1.HealthCheckResponse_ServingStatus) bool {
		t.Helper()
		got, err := h.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: service})
		return err == nil && got.Status == want
	}
	if !is("", grpc_health_v1.HealthCheckResponse_NOT_SERVING) {
		t.Error("serves without a Scheduler")
	}
	led := newRoom(t)
	s, _ := led.lead()
	h = grpc_health_v1.NewHealthClient(led.door(s, Options{Leader: leader, Clock: quick{}}).conn)
	for _, service := range []string{"", "synapse.v1.Synapse", "v1.Scheduler"} {
		eventually(t, service+" serves", func() bool { return is(service, grpc_health_v1.HealthCheckResponse_SERVING) })
	}
	if _, err := h.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: "other"}); err == nil {
		t.Error("an unknown service has a health")
	}
	if all, err := h.List(ctx, &grpc_health_v1.HealthListRequest{}); err != nil || len(all.Statuses) != 3 {
		t.Errorf("list: %v, %v", all, err)
	}
	w, err := h.Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if first, err := w.Recv(); err != nil || first.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("watch: %v, %v", first, err)
	}
	leads.Store(false)
	if !is("", grpc_health_v1.HealthCheckResponse_NOT_SERVING) {
		t.Error("serves though it does not lead")
	}
	if next, err := w.Recv(); err != nil || next.Status != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("watch: %v, %v", next, err)
	}
	mirrored, err := grpc_reflection_v1.NewServerReflectionClient(d.conn).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := mirrored.Send(&grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{},
	}); err != nil {
		t.Fatal(err)
	}
	services, err := mirrored.Recv()
	if err != nil || !strings.Contains(fmt.Sprint(services), "synapse.v1.Synapse") {
		t.Errorf("reflection: %v, %v", services, err)
	}
	if err := mirrored.CloseSend(); err != nil {
		t.Error(err)
	}
}
