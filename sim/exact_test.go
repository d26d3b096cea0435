package sim

import (
	"flag"
	"fmt"
	"math/rand"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// This file tests that start guarantees are exact if nothing fails. L9 allows deviations by faults and clocks. Here
// there are none.

var exactly = flag.Int("exact", 6, "worlds that TestExactBounds draws")

// exactBounds compares each COMMIT with the bound that was stored when the job got its start guarantee. The COMMIT must
// not be later.
type exactBounds struct {
	rule
	first map[string]instant
	met   int
	gangs int // number of gangs with more than one node
}

func (c *exactBounds) Step(w *World, e *Event) {
	s := e.Stored
	if s.job == nil {
		return
	}
	id := s.job.Id
	if first, firm := c.first[id]; firm && len(s.committed()) > 0 {
		if c.met++; s.job.Spec.Gang.ReplicasMin > 1 {
			c.gangs++
		}
		if delete(c.first, id); s.decided > first {
			c.violate(w, "job %s has a guaranteed start by %s and is committed only at %s", id, clockFace(first),
				clockFace(s.decided))
		}
		return
	}
	if _, known := c.first[id]; known || s.job.Promise == nil {
		return
	}
	if c.first[id] = s.decided.plus(time.Duration(s.job.Promise.LeftMs) * time.Millisecond); s.job.Promise.LeftMs == 0 {
		c.violate(w, "job %s has a start guarantee without a bound, although all jobs have time limits", id)
	}
}

// TestExactBounds runs jobs of one priority until their limits end them, without faults. Each job with a start
// guarantee must be committed no later than first published. The test covers a queue in expected order and a queue in
// order of arrival.
func TestExactBounds(t *testing.T) {
	for _, order := range []messages.QueueOrder{
		messages.QueueOrder_QUEUE_ORDER_EXPECTED, messages.QueueOrder_QUEUE_ORDER_FIFO,
	} {
		t.Run(order.String(), func(t *testing.T) {
			t.Parallel()
			exactIn(t, order)
		})
	}
}

func exactIn(t *testing.T, order messages.QueueOrder) {
	met, gangs := 0, 0
	for seed := range uint64(*exactly) {
		r := rand.New(rand.NewSource(int64(seed)))
		settings := policy.DefaultSettings()
		settings.GuardPercent = []int64{5, 20, 50}[r.Intn(3)]
		settings.PromisesOnes, settings.PromisesGangs = r.Intn(3), r.Intn(4)
		machines := 4 + r.Intn(5)
		w, err := NewWorld(Options{
			World: "small", Plain: true, Machines: machines, PerRack: 2 + r.Intn(3), Seed: seed, Settings: &settings,
			Limits: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		c := &exactBounds{rule: rule{"exact-bounds", on{Stored}}, first: map[string]instant{}}
		w.byKind[Stored] = append(w.byKind[Stored], c)
		w.applyQueues(&messages.Queues{
			Default: "default", Queues: []*messages.QueueSpec{{Name: "default", Order: order}},
		})
		w.RunFor(10 * time.Second)
		for at := time.Duration(0); at < 20*time.Minute; at += time.Duration(r.Int63n(int64(40 * time.Second))) {
			spec := exactJob(r, machines)
			w.At(10*time.Second+at, func() { w.Submit(spec) })
		}
		w.RunFor(2 * time.Hour) // later jobs would be checked during a drain, for which Finish is responsible
		left := w.unsettled(1)
		if violations := w.Finish(); len(violations) > 0 || len(left) > 0 {
			t.Fatalf("seed %d: %v %v", seed, violations, left)
		}
		met, gangs = met+c.met, gangs+c.gangs
	}
	t.Logf("%d start guarantees were met, %d of them by gangs", met, gangs)
	if met < 2**exactly || gangs < *exactly {
		t.Errorf("%d start guarantees were met, %d of them by gangs: too few for a test", met, gangs)
	}
}

// exactJob draws a job that would run longer than its limit.
func exactJob(r *rand.Rand, machines int) *messages.JobSpec {
	limit := time.Duration(20+r.Intn(400)) * time.Second
	n, gpus := int32(1), int64(1+r.Intn(8))
	if r.Intn(4) == 0 {
		n, gpus = int32(2+r.Intn(machines-1)), 8
	}
	return &messages.JobSpec{
		Name: fmt.Sprint("exact-", r.Intn(5)), Queue: "default", Image: "host", Command: Script(2*limit, 0),
		TimeLimitMs: limit.Milliseconds(), Restart: &messages.RestartSpec{},
		Each: &messages.Resources{MilliCpu: 1000 * gpus, MemoryBytes: gpus << 32, MilliGpu: gpus * topology.WholeGPU},
		Gang: &messages.GangSpec{ReplicasMin: n, ReplicasMax: n},
	}
}
