package worker

import (
	"fmt"

	"github.com/yi-json/synapse/topology"
)

// This file owns the Node's invariants. They are checked after every message, also in production. A Node with a wrong
// ledger would allocate devices twice. A Node that stops at once and restarts from its disk does not.

func (n *Node) check() {
	if err := n.ledger.Check(); err != nil {
		panic(err)
	}
	d := &n.disk
	if d.saved > d.changes || d.covers > d.changes || d.saving && d.waiting {
		panic(fmt.Sprintf("node: disk %+v", *d))
	}
	if !d.loaded {
		return
	}
	if len(n.slices) != len(n.ledger.Allocations()) {
		panic(fmt.Sprintf("node: %d slices, the ledger has %d", len(n.slices), len(n.ledger.Allocations())))
	}
	for _, l := range n.ledger.Allocations() {
		s := n.slices[l.Token]
		if s == nil || len(s.ranks) != len(l.Grants) || s.unsaved > d.changes {
			panic(fmt.Sprintf("node: slice %v has no counterpart", l.Token))
		}
		for i := range s.ranks {
			if why := checkRank(l, s, &s.ranks[i], l.Grants[i]); why != "" {
				panic(fmt.Sprintf("node: rank %d of %v, which is %v: %s", s.ranks[i].rank, l.Token, l.State, why))
			}
		}
	}
}

// checkRank returns a contradiction between a rank and the ledger, or the empty string if there is none.
func checkRank(l *topology.Allocation, s *nodeAllocation, r *nodeRank, g topology.Grant) string {
	switch {
	case r.rank != g.Rank:
		return "another rank in the ledger"
	case (r.exit != nil) != g.Gone:
		return "its exit is not the ledger's"
	case r.exit != nil && r.pid != nil:
		return "it is gone and has a Task"
	case l.State == topology.AllocationReserved && (r.pid != nil || s.spec != nil):
		return "more than reserved"
	case l.State == topology.AllocationEnded && r.exit == nil:
		return "over without evidence"
	case l.State == topology.AllocationStopping && r.exit == nil && r.pid == nil:
		return "nobody stops it"
	case l.State == topology.AllocationPrepared && r.exit == nil && !r.prepared && !r.started:
		return "not prepared"
	case l.State == topology.AllocationStarted && r.exit == nil && r.pid == nil:
		return "past the barrier without a Task"
	case l.State < topology.AllocationStarted && r.exit == nil && r.told && !r.started && !r.adopting:
		return "told to start before the barrier"
	case s.unsaved == 0 && s.shown != l.State:
		return fmt.Sprintf("on disk and still shown as %v", s.shown)
	}
	return ""
}
