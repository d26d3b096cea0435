package bench

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/test/pgtest"
)

// This file measures acknowledged submits through the gateway of a real scheduler, which answers when the job is on
// disk. For comparison it measures an empty call over the same connections.

const (
	submitters  = 64 // concurrent callers
	connections = 8  // shared by the callers
)

// durable returns the total number of submits.
func durable() int { return size(30_000, 500) }

func benchDurable(b *testing.B) {
	// targets: ≥ 10,000 a second, p50 ≤ 2 ms alone
	b.Run("sqlite", func(b *testing.B) { benchSubmits(newCluster(b)) })
	b.Run("postgres", func(b *testing.B) { // target: ≥ 5,000 a second
		benchSubmits(newCluster(b, "--store", pgtest.Start(b).Database(b)))
	})
}

func benchSubmits(c *cluster) {
	var clients []api.SynapseClient
	var probes []grpc_health_v1.HealthClient
	for range connections {
		conn, err := grpc.NewClient(c.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			c.b.Fatal(err)
		}
		c.b.Cleanup(func() { conn.Close() })
		clients = append(clients, api.NewSynapseClient(conn))
		probes = append(probes, grpc_health_v1.NewHealthClient(conn))
	}
	spec := gang(1, "/bin/true")
	var requests atomic.Int64
	submit := func(caller int) error {
		_, err := clients[caller%connections].Submit(c.ctx(), &messages.Submit{
			RequestId: fmt.Sprintf("durable-%d", requests.Add(1)), Spec: spec, AllowInfeasible: true,
		})
		return err
	}
	c.eventually("the scheduler leads", func() bool { return submit(0) == nil })
	c.b.Run("alone", func(b *testing.B) {
		once(b, func() {
			var took []time.Duration
			for range size(1000, 50) {
				began := time.Now()
				if err := submit(0); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
			}
			report(b, took)
			b.ReportMetric(float64(took[len(took)*99/100])/1e6, "p99-ms")
		})
	})
	c.b.Run("submits", func(b *testing.B) {
		once(b, func() { c.costs(b, durable(), func() { b.ReportMetric(rate(b, submit), "submits/s") }) })
	})
	c.b.Run("echo", func(b *testing.B) {
		once(b, func() {
			b.ReportMetric(rate(b, func(caller int) error {
				_, err := probes[caller%connections].Check(c.ctx(), &grpc_health_v1.HealthCheckRequest{})
				return err
			}), "calls/s")
		})
	})
}

// rate makes calls from all submitters at once, and returns how many there were per second.
func rate(b *testing.B, call func(caller int) error) float64 {
	var next atomic.Int64
	var all sync.WaitGroup
	calls, began := durable(), time.Now()
	for caller := range submitters {
		all.Go(func() {
			for next.Add(1) <= int64(calls) {
				if err := call(caller); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	return float64(calls) / time.Since(began).Seconds()
}
