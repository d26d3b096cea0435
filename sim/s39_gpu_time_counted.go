package sim

import (
	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/goodput"
	"github.com/yi-json/synapse/topology"
)

// gpuTimeCounted is S39: the classes of GPU time sum to the capacity, for the cluster, all owners and all queues, day
// by day, through all leaders. At rest each GPU is in the class of its node's true state.
type gpuTimeCounted struct {
	rule
	scans int
}

// sumEvery is the number of looks at the world between two sums. An error in the sums is permanent, so a later look
// also finds it.
const sumEvery = 60

func newGPUTimeCounted() *gpuTimeCounted {
	return &gpuTimeCounted{rule: rule{"S39 gpu-time-counted", on{Scanned}}}
}

// Step compares the sums.
func (c *gpuTimeCounted) Step(w *World, _ *Event) {
	if c.scans++; c.scans%sumEvery != 0 {
		return
	}
	p := w.leader()
	if p == nil || p.mirror == nil {
		return
	}
	type rowKey struct {
		kind goodput.Kind
		day  int64
	}
	var order []rowKey
	sums := map[rowKey]*goodput.Amounts{}
	for _, r := range p.mirror.GPUTime() {
		at := rowKey{r.Kind, r.Day}
		if sums[at] == nil {
			sums[at] = &goodput.Amounts{}
			order = append(order, at)
		}
		sums[at].Plus(&r.Amounts)
		for class, n := range r.Of {
			if n < 0 {
				c.violate(w, "%v %q: %d in class %s", at, r.Name, n, goodput.Words[class])
			}
		}
	}
	for _, at := range order {
		if sums[at].Sum() != sums[at].Capacity || *sums[at] != *sums[rowKey{goodput.Cluster, at.day}] {
			c.violate(w, "%v: the capacity was %d, but the classes sum to %d: %+v",
				at, sums[at].Capacity, sums[at].Sum(), *sums[at])
		}
	}
}

// Quiet compares the present classes with the state of the nodes.
func (c *gpuTimeCounted) Quiet(w *World) {
	p := w.leader()
	if p == nil || p.mirror == nil || p.old {
		return
	}
	var capacity, broken, free int64
	for _, m := range w.machines {
		n := w.books.nodes[string(m.id)]
		switch {
		case n == nil || n.Removed != nil || n.Announcement == nil:
			continue
		case m.proc == nil || m.proc.node == nil || m.lied || m.raged:
			return // its state is unknown
		}
		capacity += n.Announcement.GetTotal().GetMilliGpu()
		books := m.proc.node.Ledger().Books()
		broken += int64(actors.OutOfService(n.Announcement, m.books)) * topology.WholeGPU
		if _, closed, _ := p.leader.View(m.id); closed == "" {
			free += books.Free.MilliGPU
		}
	}
	if n := w.counters["mirror.gpus_unequal"]; n > 0 {
		c.violate(w, "the ledgers of honest nodes did not add up to their capacity, %d times", n)
	}
	of, all := p.mirror.GPUsNow()
	if open := of[goodput.Kept] + of[goodput.Wanted] + of[goodput.Unwanted]; all != capacity || open != free ||
		of[goodput.Broken] < broken {
		c.violate(w, "%d are counted in %v, but the nodes have %d in use, %d broken, %d free",
			all, of, capacity, broken, free)
	}
}
