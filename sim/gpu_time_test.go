package sim

import (
	"testing"
	"time"

	"github.com/yi-json/synapse/goodput"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// This file tests a day with faults. At its end, the leader's classes of GPU time are compared with a count of what the
// nodes truly had each second.

// witness counts the truth. It reads only the nodes and the store.
type witness struct {
	w        *World
	of       [goodput.Classes]int64 // in milli-GPU-seconds
	capacity int64
	silent   map[*machine]int // consecutive seconds in which nobody can have received a report of the node
}

// look counts one second.
func (x *witness) look() {
	for _, m := range x.w.machines {
		n := x.w.books.nodes[string(m.id)]
		if n == nil || n.Announcement == nil || n.Removed != nil {
			continue
		}
		x.capacity += n.Announcement.GetTotal().GetMilliGpu()
		if m.proc == nil || m.proc.node == nil || m.proc.paused {
			if x.silent[m]++; x.silent[m] > 10 { // the documented time after which a node counts as dead
				x.of[goodput.Broken] += n.Announcement.GetTotal().GetMilliGpu()
				continue
			}
		} else {
			x.silent[m] = 0
		}
		x.lookAt(m, n)
	}
}

func (x *witness) lookAt(m *machine, n *messages.NodeRecord) {
	if m.proc == nil || m.proc.node == nil {
		x.of[goodput.Unwanted] += n.Announcement.GetTotal().GetMilliGpu() // nobody knows the state of the node
		return
	}
	l := m.proc.node.Ledger()
	b := l.Books()
	x.of[goodput.Broken] += b.Withdrawn.MilliGPU
	x.of[goodput.Stopping] += b.Stopping.MilliGPU
	x.of[goodput.Starting] += b.Reserved.MilliGPU
	for _, s := range l.Allocations() {
		held := int64(0)
		for _, g := range s.Grants {
			held += g.Amount.MilliGPU
		}
		switch s.State {
		case topology.AllocationStarted:
			x.of[goodput.Productive] += held
		case topology.AllocationCommitted, topology.AllocationPrepared:
			x.of[goodput.Starting] += held
		}
	}
	if n.Cordoned != nil || n.Drained != nil {
		x.of[goodput.Closed] += b.Free.MilliGPU
	} else {
		x.of[goodput.Unwanted] += b.Free.MilliGPU
	}
}

// TestDayOfGPUTime simulates a day in which leaders, agents, nodes and GPUs fail and operators cordon nodes. The
// classes must sum to the capacity, exactly to the second. Each class must be close to the truth.
func TestDayOfGPUTime(t *testing.T) {
	w, err := NewWorld(Options{
		Seed: 9, Machines: 6, Minutes: 24 * 60, Prompt: true, Latency: 5 * time.Millisecond, Unchecked: true,
		Faults: []string{
			"leader-crash", "agent-crash", "power-loss", "machine-gone", "gpu-fault", "drain", "cordon", "task-fail", "remove",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.draw.Pace, w.draw.Gangs, w.draw.Small = 30*time.Minute, 150, 100
	x := &witness{w: w, silent: map[*machine]int{}}
	w.arrive()
	for w.Now() < 24*time.Hour {
		w.RunFor(time.Second)
		x.look()
	}
	if !w.StepUntil(func() bool { return w.leader() != nil && w.leader().mirror != nil }, time.Hour) {
		t.Fatal("nobody leads")
	}
	x.compare(t, w.leader().mirror.GPUTime())
}

// compare compares the leader's count with the truth. They differ by the delay until a leader learns of a change, and
// by the time without a leader, which the first report of the new leader covers.
func (x *witness) compare(t *testing.T, rows []goodput.Row) {
	var sum goodput.Amounts
	for _, r := range rows {
		if r.Kind == goodput.Cluster {
			sum.Plus(&r.Amounts)
		}
	}
	if sum.Sum() != sum.Capacity {
		t.Errorf("the capacity is %d, but the classes sum to %d", sum.Capacity, sum.Sum())
	}
	gpuSeconds := func(name string, counted, true, slack int64) {
		t.Helper()
		counted, true = counted/1_000_000, true/1000
		t.Logf("%-10s %8d GPU-seconds counted, %8d true", name, counted, true)
		if counted < true-slack || counted > true+slack || true == 0 {
			t.Errorf("%s: %d GPU-seconds are counted, but %d are true", name, counted, true)
		}
	}
	of, all := &sum.Of, sum.Capacity/1_000_000
	gpuSeconds("all", sum.Capacity, x.capacity, 48) // one second of all GPUs
	gpuSeconds("productive", of[goodput.Productive]+of[goodput.Lost], x.of[goodput.Productive], all/200)
	gpuSeconds("starting", of[goodput.Starting], x.of[goodput.Starting], all/200)
	gpuSeconds("free", of[goodput.Kept]+of[goodput.Wanted]+of[goodput.Unwanted], x.of[goodput.Unwanted], all/100)
	gpuSeconds("broken", of[goodput.Broken], x.of[goodput.Broken], all/200)
	gpuSeconds("closed", of[goodput.Closed], x.of[goodput.Closed], all/200)
	lost := int64(0)
	for cause, n := range sum.Lost {
		if lost += n; n > 0 && cause == int(messages.Cause_CAUSE_SUCCEEDED) {
			t.Errorf("succeeded jobs have %d lost GPU-seconds", n)
		}
	}
	if lost != of[goodput.Lost] || sum.Lost[messages.Cause_CAUSE_MACHINE_LOST] == 0 || of[goodput.Wanted] == 0 ||
		of[goodput.Unwanted] == 0 {
		t.Errorf("%+v", sum)
	}
}

// TestWantedUnlessHeld checks that free GPUs are wanted while a job waits that could use them. When that job is held,
// they are unwanted at once.
func TestWantedUnlessHeld(t *testing.T) {
	fifo := policy.OnlyFIFO() // it reserves no nodes
	w, err := NewWorld(Options{Seed: 1, World: "small", Plain: true, Machines: 2, GPUs: []int{8}, Settings: &fifo})
	if err != nil {
		t.Fatal(err)
	}
	gang := func(machines int32, gpus int64) *messages.JobSpec {
		return &messages.JobSpec{
			Name: "gang", Queue: "default", Image: "host", Command: Script(time.Hour, 0), Restart: &messages.RestartSpec{},
			Each: &messages.Resources{MilliCpu: 1000, MemoryBytes: 1 << 20, MilliGpu: gpus * topology.WholeGPU},
			Gang: &messages.GangSpec{ReplicasMin: machines, ReplicasMax: machines},
		}
	}
	sees := func(class goodput.Class, gpus int64) {
		t.Helper()
		if !w.StepUntil(func() bool {
			p := w.leader()
			if p == nil || p.mirror == nil {
				return false
			}
			of, _ := p.mirror.GPUsNow()
			return of[class] == gpus*topology.WholeGPU
		}, time.Minute) {
			of, _ := w.leader().mirror.GPUsNow()
			t.Errorf("%s are not %d: %v", goodput.Words[class], gpus, of)
		}
	}
	w.RunFor(10 * time.Second)
	w.Submit(gang(1, 4))
	sees(goodput.Productive, 4)
	sees(goodput.Unwanted, 12)
	waits := w.Submit(gang(2, 8))
	sees(goodput.Wanted, 12)
	w.client.hold(waits, false)
	sees(goodput.Unwanted, 12)
	w.client.hold(waits, true)
	sees(goodput.Wanted, 12)
	if len(w.violations) > 0 {
		t.Error(w.violations)
	}
}
