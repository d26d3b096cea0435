package worker

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/messages"
)

// This file owns what tasks are told ahead of their end. The leader says it until it is answered, so that nothing of it
// is on disk here: what an agent's end loses is said again. That a task is not signalled twice for one end its launcher
// knows, whose supervisors outlive the agent.

// notice holds the last warning of a leader.
type notice struct {
	epoch uint64
	warn  *messages.Warn
}

// after reports whether it was said after a word that came only now.
func (w *notice) after(m *messages.Warn) bool {
	return w.epoch > m.Order.Epoch || w.epoch == m.Order.Epoch && w.warn.GetNumber() > m.Number
}

// onWarn tells the ranks that run what they have not been told, and answers once all have been.
func (n *Node) onWarn(ctx actor.Context, m *messages.Warn) {
	token, _ := subject(m.Order)
	s := n.slices[token]
	switch {
	case s == nil || !s.startedShown || s.spec.GetWarn() == nil || s.notice.after(m):
		n.p.Host.Count("node.nothing_to_warn", 1)
		return
	case s.notice.epoch != m.Order.Epoch || s.notice.warn.GetNumber() != m.Number:
		for i := range s.ranks {
			s.ranks[i].warned = false
		}
	}
	s.notice = notice{m.Order.Epoch, m}
	for i := range s.ranks {
		if r := &s.ranks[i]; r.pid != nil && !r.warned {
			ctx.Send(r.pid, taskWarn{m})
		}
	}
	n.tellWarned(ctx, s)
}

func (n *Node) onRankWarned(ctx actor.Context, m rankWarned) {
	s := n.slices[m.key.Token]
	if s == nil || s.notice.warn.GetNumber() != m.number {
		return
	}
	s.rank(m.key.Rank).warned = true
	n.tellWarned(ctx, s)
}

// tellWarned says that each rank has been told that is not gone.
func (n *Node) tellWarned(ctx actor.Context, s *nodeSlice) {
	for i := range s.ranks {
		if r := &s.ranks[i]; r.exit == nil && !r.warned {
			return
		}
	}
	n.tell(ctx, s.page.Job, &messages.Warned{Origin: n.origin(s.page.Token, s.page.Job), Number: s.notice.warn.Number})
}
