package worker

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/messages"
)

// This file owns the warnings that tasks get before their end. The leader repeats a warning until it is answered, so
// the Node writes none of them to disk. The launcher's supervisors outlive the agent, and they ensure that a task gets
// one signal per end.

// notice holds the last warning of a leader.
type notice struct {
	epoch uint64
	warn  *messages.Warn
}

// after reports whether this warning is newer than one that arrives now.
func (w *notice) after(m *messages.Warn) bool {
	return w.epoch > m.Order.Epoch || w.epoch == m.Order.Epoch && w.warn.GetNumber() > m.Number
}

// onWarn passes a warning to the running ranks that do not have it, and answers after all ranks have it.
func (n *Node) onWarn(ctx actor.Context, m *messages.Warn) {
	token, _ := subject(m.Order)
	s := n.slices[token]
	switch {
	case s == nil || !s.startedShown || !s.spec.IsAnnounced() || s.notice.after(m):
		n.p.Host.Count("node.nothing_to_warn", 1)
		return
	case s.notice.epoch != m.Order.Epoch || s.notice.warn.GetNumber() != m.Number:
		for i := range s.ranks {
			s.ranks[i].warned, s.ranks[i].saved = false, nil
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

// onRankSaved passes on the acknowledgement of a rank. Acknowledgements are in the answer to the warning, so a repeated
// warning brings a lost one.
func (n *Node) onRankSaved(ctx actor.Context, m rankSaved) {
	s := n.slices[m.key.Token]
	if s == nil || m.saved.Validate() != nil {
		n.p.Host.Count("node.no_acknowledgement", 1)
		return
	}
	r := s.rank(m.key.Rank)
	switch {
	case r == nil || r.exit != nil || r.saved.Same(m.saved):
		return
	case m.saved.Request != s.notice.warn.GetRequest():
		n.p.Host.Count("checkpoint.ignored.other_request", 1) // as in the scheduler
		return
	}
	r.saved = m.saved
	n.tellWarned(ctx, s)
}

// tellWarned answers the leader if every remaining rank has the warning.
func (n *Node) tellWarned(ctx actor.Context, s *nodeAllocation) {
	told := &messages.Warned{Origin: n.origin(s.page.Token, s.page.Job), Number: s.notice.warn.Number}
	for i := range s.ranks {
		switch r := &s.ranks[i]; {
		case r.saved != nil:
			told.Saved = append(told.Saved, r.saved)
		case r.exit == nil && !r.warned:
			return
		}
	}
	n.tell(ctx, s.page.Job, told)
}
