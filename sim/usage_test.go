package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/queues"
	"github.com/yi-json/synapse/topology"
)

// This file tests that the planner and the readers see the same usage of queues.

// TestUsageAgrees runs drawn worlds with queues and arrays. For each queue the planner counts the usage that the Mirror
// reports. It also counts the chosen jobs whose write is not yet done.
func TestUsageAgrees(t *testing.T) {
	const seeds = uint64(4)
	var sum agreement
	for seed := range seeds {
		w, err := NewWorld(Options{Seed: 6000 + seed, World: "small", Shares: true, Unchecked: true})
		if err != nil {
			t.Fatal(err)
		}
		w.draw.Arrays = 4
		w.share()
		w.arrive()
		w.arriveArrays()
		sum.differs = map[string]string{}
		for w.Now() < 12*time.Minute {
			w.RunFor(500 * time.Millisecond)
			sum.look(t, w, 6000+seed)
		}
	}
	t.Logf("%d queues compared, %d in use, %d elements of arrays ran, %d jobs were chosen before their write",
		sum.compared,
		sum.used, sum.elements, sum.chosen)
	if sum.compared < 1000 || sum.used < 100 || sum.elements < 10 || sum.chosen > sum.used/10 {
		t.Error("too little happened, or too many jobs differed between planner and readers")
	}
}

// agreement counts the comparisons.
type agreement struct {
	compared, used, elements, chosen int
	differs                          map[string]string // difference in the last look, by queue
}

// look compares one moment. A difference that is the same half a second later is an error.
func (a *agreement) look(t *testing.T, w *World, seed uint64) {
	p := w.leader()
	if p == nil || p.leader == nil || p.mirror == nil || p.paused || !p.idleAt(actors.KindScheduler) ||
		!p.idleAt(actors.KindMirror) {
		clear(a.differs)
		return
	}
	reply := p.mirror.Queues()
	chosen := queues.NewUsage(reply.GetQueues())
	p.mirror.Each(func(s *messages.JobStatus) {
		if messages.Waits(s.GetPhase()) && p.leader.Chosen(topology.JobID(s.GetRecord().GetId())) {
			chosen.Add(&messages.JobStatus{Record: s.GetRecord(), Phase: messages.PhaseReserving})
			a.chosen++
		}
	})
	for _, u := range reply.GetUsage() {
		name := u.GetQueue()
		has, counts := p.leader.InUse(name)
		if !counts {
			continue
		}
		a.compared++
		if u.GetRunning() > 0 {
			a.used++
		}
		before, text := a.differs[name], ""
		got, more := messages.FromResources(u.GetInUse()), messages.FromResources(inUseOf(chosen, name))
		got.MilliCPU, got.MemoryBytes = got.MilliCPU+more.MilliCPU, got.MemoryBytes+more.MemoryBytes
		if got.MilliGPU += more.MilliGPU; got != has {
			text = fmt.Sprintf("the planner counts %+v for queue %s, but readers see %+v: %v", has, name, got, u)
		}
		if a.differs[name] = text; text != "" && text == before {
			t.Errorf("seed %d at %s: %s", seed, w.Now(), text)
		}
	}
	for _, page := range w.books.jobs { //order: only counted
		if page.record.Spec.GetElement() != nil && page.record.State == messages.JobState_JOB_STATE_ACTIVE {
			a.elements++
		}
	}
}

// inUseOf returns the usage of one queue.
func inUseOf(u *queues.Usage, queue string) *messages.Resources {
	for _, q := range u.List() {
		if q.GetQueue() == queue {
			return q.GetInUse()
		}
	}
	return nil
}
