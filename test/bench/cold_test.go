package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file measures the cold start. A scheduler's process dies in a large and busy cluster, and a new one on the same
// records starts the next gang.

// coldMachines returns the number of nodes. coldTasks is the number of tasks of each gang, which fill two nodes.
func coldMachines() int { return size(5_000, 100) }

const coldTasks = 56

// BenchmarkCold uses 5,000 nodes in one process next to the scheduler's, with 140,000 tasks. The measurement begins
// with the new process.
func BenchmarkCold(b *testing.B) {
	c := newCluster(b)
	c.crowdOf(coldMachines())
	began := time.Now()
	spec := gang(coldTasks, "/bin/true")
	spec.Each = &messages.Resources{MilliCpu: 2200, MemoryBytes: 1 << 30}
	changes := c.watch()
	gangs, batch := coldMachines()/2, size(250, 25)
	for range gangs / batch {
		c.reach(changes, c.submitAll(batch, 16, spec), "running")
	}
	b.Logf("%d gangs of %d tasks run on %d nodes after %s",
		gangs, coldTasks, coldMachines(), time.Since(began).Round(time.Second))
	var took []time.Duration
	for range size(5, 1) {
		took = append(took, c.cold(b))
	}
	report(b, took)
	b.ReportMetric(0, "ns/op")
}

// cold kills the scheduler, starts another one, and returns how long it took until its first gang ran, on two whole
// nodes.
func (c *cluster) cold(b *testing.B) time.Duration {
	b.Helper()
	before := load(b)
	if err := c.scheduler.Process.Kill(); err != nil {
		b.Fatal(err)
	}
	_ = c.scheduler.Wait()
	began := time.Now()
	c.scheduler = c.start("scheduler", "synapse-scheduler", "--listen", c.address, "--data-dir",
		filepath.Join(c.dir, "scheduler"), "--levels", "zone,rack")
	often := grpc.ConnectParams{
		Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1, MaxDelay: 20 * time.Millisecond},
	}
	conn, err := grpc.NewClient(c.address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(often))
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	c.client = api.NewSynapseClient(conn)
	c.requests++
	request := &messages.Submit{RequestId: fmt.Sprintf("cold-%d", c.requests), Spec: gang(2, "/bin/true")}
	var reply *messages.SubmitReply
	c.eventually("the new scheduler takes a gang", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		reply, err = c.client.Submit(ctx, request)
		return err == nil
	})
	taken := time.Since(began)
	c.eventually("it runs", func() bool {
		s, err := c.client.GetJob(c.ctx(), &messages.GetJob{Job: reply.Job})
		return err == nil && s.Job.Phase == "running"
	})
	ran, used := time.Since(began), computed(b, c.scheduler.Process.Pid)
	c.up(coldMachines())
	b.Logf("cold start: a gang was accepted after %s and ran after %s and %s of the scheduler's CPU time, all nodes "+
		"were heard after %s (load %.1f before, %.0f MB resident)",
		taken.Round(time.Millisecond), ran.Round(time.Millisecond), used, time.Since(began).Round(time.Millisecond), before,
		memory(b, c.scheduler.Process.Pid, "VmRSS"))
	c.cancel(reply.Job)
	time.Sleep(5 * time.Second) // the last heartbeats of the return
	return ran
}

// up waits until this many nodes are up. It polls rarely, because a page of a thousand nodes costs the measured
// scheduler.
func (c *cluster) up(many int) {
	c.b.Helper()
	for limit := pace.Until(2 * time.Minute); ; time.Sleep(500 * time.Millisecond) {
		up := 0
		for after := ""; ; {
			reply, err := c.client.ListNodes(c.ctx(), &messages.ListNodes{After: after, Limit: 1000})
			if err != nil {
				break
			}
			for _, n := range reply.Nodes {
				if n.Phase == "up" {
					up++
				}
			}
			if after = reply.Next; after == "" {
				break
			}
		}
		if up == many {
			return
		}
		if time.Now().After(limit) {
			c.b.Fatalf("%d of %d nodes are up", up, many)
		}
	}
}
