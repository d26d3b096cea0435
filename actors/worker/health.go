package worker

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns what the checks of the machine's own health mean here. The launcher runs them, however long they take;
// the Node decides. While one of them says that the machine is not well, nothing new is reserved, and what has not
// passed the barrier ends as the machine's own fault, which counts nothing against its job. What runs goes on: a check
// is right about what is to come, and often wrong about what works.
//
// The leader may want a place despite that. It does so where checks fail on too many machines of a pool, because then
// it is hardly the machines. Only that wish is on disk: the next agent checks again before it takes work.

// checksPending is why a machine whose agent has just started takes nothing new.
const checksPending = "health checks have not finished yet"

// trouble is why the machine takes nothing new, except what its checks have found; empty: it does.
func (n *Node) trouble() string {
	if why := n.hindered(); why != "" {
		return why
	}
	if n.health.GetPending() {
		return checksPending
	}
	return ""
}

// unfit is why the machine's health allows no reservation; empty: it does.
func (n *Node) unfit(despite bool) string {
	switch {
	case n.health.GetPending():
		return checksPending
	case despite:
		return ""
	}
	return n.health.GetUnwell()
}

// onMachineChecked takes what is known of the machine's health now. Where a slice waits for its checks, it goes on.
func (n *Node) onMachineChecked(ctx actor.Context, m *messages.MachineChecked) {
	before := n.health
	n.health = m.Health
	if now := n.health.GetUnwell(); now != before.GetUnwell() {
		n.ledger.Touch()
		switch { // a check that goes on to fail may say so in other words each time
		case now == "":
			n.p.Log.Info("This node is healthy again")
		case before.GetUnwell() == "":
			n.p.Log.Info("UNHEALTHY: a health check of this node fails: %s", now)
		}
	}
	if n.health.GetPending() != before.GetPending() {
		n.ledger.Touch()
	}
	if n.health.GetUnwell() != "" {
		n.holdBack(ctx)
	}
	if m.Token == nil {
		return
	}
	if s := n.slices[messages.FromToken(m.Token)]; s != nil && s.asked {
		s.checked = true
		n.settle(ctx, s)
	}
}

// holdBack ends all that has not passed the barrier on a machine that is not well. A reservation ends as if it had
// lapsed.
func (n *Node) holdBack(ctx actor.Context) {
	var reserved []topology.Token
	for _, l := range n.ledger.Slices() {
		s := n.slices[l.Token]
		switch {
		case s.despite:
		case l.State == topology.SliceReserved:
			reserved = append(reserved, l.Token)
		case l.State == topology.SliceCommitted, l.State == topology.SlicePrepared:
			n.spoil(ctx, s)
		}
	}
	for _, t := range reserved {
		n.drop(t)
	}
}

// awaitsCheck reports whether a slice that is to be prepared waits for the checks that come before work, and asks for
// them once.
func (n *Node) awaitsCheck(ctx actor.Context, s *nodeSlice) bool {
	h := n.health
	if s.checked || !h.GetBeforeWork() && !h.GetPending() && h.GetUnwell() == "" {
		return false
	}
	if !s.asked {
		s.asked = true
		n.p.Launcher.Tell(&messages.CheckMachine{Occasion: messages.CheckOccasion_CHECK_OCCASION_WORK, Token: s.wire},
			ctx.Self())
	}
	return true
}

// spoil ends the ranks of a slice that were not told to start. Their Tasks bring the evidence.
func (n *Node) spoil(ctx actor.Context, s *nodeSlice) {
	if s.unwell != "" {
		return
	}
	s.unwell = n.health.GetUnwell()
	stop := taskStop{s.spec.GetStop().GetSignal(), actors.GraceOf(s.spec, n.p.Constants).Milliseconds()}
	for i := range s.ranks {
		if r := &s.ranks[i]; r.pid != nil && !r.told && !r.started && !r.adopting {
			r.asked = true
			ctx.Send(r.pid, stop)
		}
	}
}

// excuseExit completes the end of a rank that was stopped because the machine is not well.
func (s *nodeSlice) excuseExit(e *messages.Exit) {
	if s.unwell != "" && e.Kind == messages.ExitKind_EXIT_KIND_NEVER_STARTED {
		e.Unwell, e.Detail = true, "health check failed: "+s.unwell
	}
}

// lookInto has the machine checked after a task has failed, where that may be the machine's doing.
func (n *Node) lookInto(ctx actor.Context, e *messages.Exit) {
	if !n.health.GetAfterFailure() || e.Fault == messages.Fault_FAULT_JOB {
		return
	}
	switch e.Kind {
	case messages.ExitKind_EXIT_KIND_EXITED:
		if !e.ByItself || e.Code == 0 {
			return
		}
	case messages.ExitKind_EXIT_KIND_LAUNCH_FAILED, messages.ExitKind_EXIT_KIND_PREPARE_FAILED,
		messages.ExitKind_EXIT_KIND_SUPERVISOR_LOST:
	default:
		return
	}
	n.p.Launcher.Tell(&messages.CheckMachine{Occasion: messages.CheckOccasion_CHECK_OCCASION_FAILURE}, ctx.Self())
}
