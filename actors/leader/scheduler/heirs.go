package scheduler

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// This file owns the Scheduler's part of a restart in place. The next attempt of a job takes over the resources that
// its nodes keep. For the planner, it is the same run with another token: it has the same end, and no capacity becomes
// free or is claimed, except for nodes that replace others (swaps.go).

// onInherit gives a job the token of an heir, or replaces nodes that must not be used any more.
func (s *Scheduler) onInherit(ctx actor.Context, m protocol.Inherit) {
	e := s.jobs[m.Job]
	if e == nil || e.remakes {
		return
	}
	s.dropSwap(m.Job)
	if len(m.Gone) == 0 && s.barsHeir(m.Kept) == "" {
		ctx.Send(e.pid, protocol.Heir{From: m.From, Token: s.newToken()})
		return
	}
	if !m.Swaps {
		ctx.Send(e.pid, protocol.Heir{From: m.From, Why: s.barsHeir(m.Kept)})
		return
	}
	s.swaps = append(s.swaps, m)
	s.plan(ctx)
}

// onInherited makes the heir the tenant of the nodes that its job had before.
func (s *Scheduler) onInherited(ctx actor.Context, m protocol.Inherited) {
	e := s.jobs[m.Job]
	if e == nil || e.remakes {
		return
	}
	e.offered = m.Token
	r := e.run
	if r == nil || r.token != m.From {
		s.newRun(ctx, e, &run{token: m.Token, spec: e.rec.Spec})
		r = e.run
	}
	r.token, r.kept, r.nodes = m.Token, false, nodesOf(m.Targets, targetNode)
	s.setSpares(ctx, e, m.Spares)
	s.foresee(e)
	who := s.tenant(e.id, m.Token)
	for _, t := range m.Targets {
		node := s.machines[t.Node]
		if node == nil || !t.Kept {
			continue
		}
		node.room.Inherit(m.From, &who, amountsOf(&t)...)
		s.endsChanged(node)
	}
}

func amountsOf(t *protocol.Target) (amounts []topology.Resources) {
	for _, member := range t.Members {
		amounts = append(amounts, messages.FromResources(member.Amount))
	}
	return amounts
}

// isKept reports whether the nodes of a job's ended attempt may keep its resources.
func isKept(rec *messages.JobRecord, a *messages.AttemptRecord) bool {
	return a.End.GetHoldMs() > 0 && rec.State == messages.JobState_JOB_STATE_ACTIVE &&
		messages.FromToken(a.Token) == messages.FromToken(rec.Attempt)
}

// onHeirless records that the resources of an ended attempt become free.
func (s *lookahead) onHeirless(ctx actor.Context, m protocol.Heirless) {
	s.dropSwap(m.Job)
	e := s.jobs[m.Job]
	if e == nil {
		return
	}
	s.remembers(func(p policy.Rememberer) { p.Ended(m.Job, int64(m.Ran)) })
	if r := e.run; r != nil && r.token == m.Token {
		r.over, r.kept = s.p.Clock.Now(), false
		s.freeSpares(ctx, r)
		s.foresee(e)
	}
	s.plan(ctx)
}

func targetNode(t *protocol.Target) topology.NodeID { return t.Node }

// barsHeir returns why one of the nodes must not be used again. It returns the empty string if all may be.
func (s *nodeTable) barsHeir(targets []protocol.Target) string {
	for _, t := range targets {
		if why := s.barsAgain(t.Node); why != "" {
			return why
		}
	}
	return ""
}

// barsAgain returns why a node must not be used again, or the empty string.
func (s *nodeTable) barsAgain(n topology.NodeID) string {
	switch m := s.machines[n]; {
	case m == nil || !m.up:
		return fmt.Sprintf("%s does not answer", n)
	case m.record.GetDrained() != nil:
		return fmt.Sprintf("%s is drained", n)
	case len(m.ledger.GetWithdrawnGpus()) > 0:
		return fmt.Sprintf("%s has a faulty GPU", n)
	case m.ledger.GetUnwell() != "" || m.ledger.GetTrouble() != "":
		return fmt.Sprintf("%s is unhealthy", n)
	}
	return ""
}
