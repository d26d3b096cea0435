package gateway

// This file benchmarks a submit through the gateway, and a call that does nothing.

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// from64 makes the calls of a benchmark from 64 clients at once.
func from64(b *testing.B, call func(client, i int) error) {
	b.ReportAllocs()
	b.ResetTimer()
	var clients sync.WaitGroup
	var next atomic.Int64
	for c := range 64 {
		clients.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				if err := call(c, int(i)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	clients.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}

// BenchmarkSubmit64 submits from 64 clients over one connection, with the real actors and the memory store. All
// jobs wait, because there are no nodes.
func BenchmarkSubmit64(b *testing.B) {
	r := newRoom(b)
	s, _ := r.lead(func(p *leader.Ports) { p.Log, p.Calls = actors.NoLog{}, actors.NoLog{} })
	d := r.door(s, Options{})
	from64(b, func(c, i int) error {
		_, err := d.SynapseClient.Submit(context.Background(), &messages.Submit{
			RequestId: fmt.Sprintf("r-%d", i), Spec: gpuJob("bench", 1, 8), AllowInfeasible: true,
		})
		return err
	})
}

// BenchmarkGetJob64 reads jobs in the same way.
func BenchmarkGetJob64(b *testing.B) {
	r := newRoom(b)
	s, _ := r.lead()
	d := r.door(s, Options{})
	submitted, err := d.SynapseClient.Submit(context.Background(),
		&messages.Submit{Spec: gpuJob("bench", 1, 8), AllowInfeasible: true})
	if err != nil {
		b.Fatal(err)
	}
	from64(b, func(int, int) error {
		_, err := d.SynapseClient.GetJob(context.Background(), &messages.GetJob{Job: submitted.Job})
		return err
	})
}

// BenchmarkEcho64 measures gRPC alone, with a call that is answered at once.
func BenchmarkEcho64(b *testing.B) {
	r := newRoom(b)
	d := r.door(r.system("scheduler"), Options{})
	from64(b, func(int, int) error {
		_, err := d.SynapseClient.Cluster(context.Background(), &api.Cluster{})
		return err
	})
}
