package scheduler

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns a machine's record that is on disk in another revision than the
// one that this leader wrote last: an asynchronous replica has taken over without
// the end of what it had acknowledged. The store is read again, the log says what
// it has lost, and what was to be changed is changed in the record as it is now.

// rereadLater asks for the records; the store hands out all of them or none. A way
// to read a single one, for what happens once in a database's life, is not worth having.
func (s *Scheduler) rereadLater(ctx actor.Context, m *machine) {
	m.edits.waiting, m.edits.written = append(m.edits.written, m.edits.waiting...), nil
	m.edits.reread = true
	s.load(ctx)
}

// onReread goes on from what is on disk.
func (s *Scheduler) onReread(ctx actor.Context, l actors.Loaded) {
	switch {
	case l.Deposed:
		s.p.Host.Deposed(s.p.Epoch)
		return
	case l.Err != "":
		s.p.Clock.After(s.p.Constants.JournalRetry, ctx.Self(), retryLoad{})
		return
	}
	records := map[topology.NodeID]*messages.NodeRecord{}
	for _, rec := range l.Nodes {
		records[topology.NodeID(rec.Id)] = rec
	}
	for _, m := range s.order {
		switch rec := records[m.id]; {
		case !m.edits.reread && m.edits.next == nil && rec.GetRevision() < m.record.GetRevision():
			s.edit(ctx, m, nodeEdit{change: func(*messages.NodeRecord) {}}) // lost as well, or written meanwhile: this tells
		case !m.edits.reread:
		case rec == nil:
			s.vanished("node " + string(m.id))
			return
		default:
			s.goOnFrom(ctx, m, rec)
		}
	}
}

// goOnFrom takes a record over, and has the machine say again what it is.
func (s *Scheduler) goOnFrom(ctx actor.Context, m *machine, rec *messages.NodeRecord) {
	before := m.closed()
	s.p.Log.Info(
		"The store has revision %d of the record of node %s, and had acknowledged %d: what was changed since is lost",
		rec.Revision, m.id, m.record.GetRevision())
	m.record, m.edits.reread = rec, false
	if now := m.closed(); now != before {
		s.p.Log.Info("Node %s was %q, and is %q as the store has it", m.id, before, now)
	}
	s.armDrain(ctx, m)
	s.writeNode(ctx, m)
	if m.up {
		s.lead(ctx, m.id)
	}
}
