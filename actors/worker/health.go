package worker

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the effect of the node's health checks. The launcher runs the checks, however long they take. The Node
// decides. While a check fails, the Node accepts no reservation. Attempts that have not passed the barrier end by the
// node's fault, which does not count against their jobs. Running tasks continue: a failed check is a good predictor for
// new tasks, but is often wrong about running ones.
//
// The leader may request a reservation despite failed checks. It does so if checks fail on too many nodes of a pool,
// because then the nodes are probably not the cause. Only this request is on disk. The next agent runs the checks
// before it takes work.

// checksPending is the reason why a node takes no work while its agent has just started.
const checksPending = "health checks have not finished yet"

// trouble returns why the node takes no new work, apart from failed checks. It returns the empty string if it does.
func (n *Node) trouble() string {
	if why := n.hindered(); why != "" {
		return why
	}
	if n.health.GetPending() {
		return checksPending
	}
	return ""
}

// unfit returns why the node's health allows no reservation. It returns the empty string if it allows one.
func (n *Node) unfit(despite bool) string {
	switch {
	case n.health.GetPending():
		return checksPending
	case despite:
		return ""
	}
	return n.health.GetUnwell()
}

// onMachineChecked stores new results of the node's health checks, and continues the allocations that wait for them.
func (n *Node) onMachineChecked(ctx actor.Context, m *messages.MachineChecked) {
	before := n.health
	n.health = m.Health
	if now := n.health.GetUnwell(); now != before.GetUnwell() {
		n.ledger.Touch()
		switch { // the text of a failing check may vary, which is no change
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

// holdBack ends everything on an unhealthy node that has not passed the barrier. A reservation ends as if it had
// expired.
func (n *Node) holdBack(ctx actor.Context) {
	var reserved []topology.Token
	for _, l := range n.ledger.Allocations() {
		s := n.slices[l.Token]
		switch {
		case s.despite:
		case l.State == topology.AllocationReserved:
			reserved = append(reserved, l.Token)
		case l.State == topology.AllocationCommitted, l.State == topology.AllocationPrepared:
			n.spoil(ctx, s)
		}
	}
	for _, t := range reserved {
		n.drop(t)
	}
}

// awaitsCheck reports whether an allocation must wait for the checks before it is prepared. It requests the checks
// once.
func (n *Node) awaitsCheck(ctx actor.Context, s *nodeAllocation) bool {
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

// spoil ends the ranks of an allocation that did not get Start. Their Tasks deliver the evidence.
func (n *Node) spoil(ctx actor.Context, s *nodeAllocation) {
	if s.unhealthy != "" {
		return
	}
	s.unhealthy = n.health.GetUnwell()
	stop := taskStop{s.spec.GetStop().GetSignal(), actors.GraceOf(s.spec, n.p.Constants).Milliseconds()}
	for i := range s.ranks {
		if r := &s.ranks[i]; r.pid != nil && !r.told && !r.started && !r.adopting {
			r.asked = true
			ctx.Send(r.pid, stop)
		}
	}
}

// excuseExit adds the failed check to the exit of a rank that was stopped because the node is unhealthy.
func (s *nodeAllocation) excuseExit(e *messages.Exit) {
	if s.unhealthy != "" && e.Kind == messages.ExitKind_EXIT_KIND_NEVER_STARTED {
		e.Unwell, e.Detail = true, "health check failed: "+s.unhealthy
	}
}

// lookInto requests a check of the node after a task has failed, if the node may be the cause.
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

// examine runs all checks of the node if the leader has newly ordered that.
func (n *Node) examine(ctx actor.Context, number uint64) {
	if number <= n.pulse.examined {
		return
	}
	n.pulse.examined = number
	n.p.Log.Info("SUSPECT: failures of jobs count against this node, so its health checks run now")
	n.p.Launcher.Tell(&messages.CheckMachine{Occasion: messages.CheckOccasion_CHECK_OCCASION_SUSPECT}, ctx.Self())
}
