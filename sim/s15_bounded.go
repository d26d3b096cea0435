package sim

import (
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// bounded is S15: mailboxes, timers and tries stay within what the constants
// and the size of the cluster allow. What grows without bound in an hour of
// simulation is a leak in production, and a job that is proposed again and
// again for the same refusal keeps a leader busy with nothing. A job that fails
// by its own fault is run again as often as it allows, and no more. What a gang's
// machines are told of each other is sent to each once, and a part of it again only
// after a Start without any, which asks what is missing. And nobody says what is
// longer than the link carries (send in network.go).
type bounded struct {
	rule
	tries  map[string]*tries
	orders map[string]map[topology.Token]instant // by machine: when the last about an attempt left
	lists  map[rosterSent]int32                  // until where it was sent
}

// rosterSent is the list of one attempt as one leader sends it to one machine.
type rosterSent struct {
	from  *process // two may lead with one epoch, which a replica gave out twice
	life  int      // which Coordinator of the attempt: one that is made again starts over
	epoch uint64
	token topology.Token
	node  string
}

// tries are the attempts at one job within a second.
type tries struct {
	last  topology.Token
	since instant
	count int
}

func newBounded() *bounded {
	return &bounded{rule: rule{"S15 bounded", on{Sent, Stored, Scanned}},
		tries: map[string]*tries{}, orders: map[string]map[topology.Token]instant{}, lists: map[rosterSent]int32{}}
}

// mailboxMost is a queue that no actor may have while its process runs, for
// rooms of any size: it is checked again with the room's size where it is passed.
const mailboxMost = 10_000

func (c *bounded) Step(w *World, e *Event) {
	if e.Kind == Sent {
		if m, is := e.Message.(command); is && e.To != nil {
			c.order(w, e.To.address, messages.FromToken(m.GetOrder().GetToken()))
		}
		switch m := e.Message.(type) {
		case *messages.Reserve:
			c.tried(w, m.Order)
		case *messages.Start:
			c.told(w, e.Process, m)
		}
		return
	}
	if e.Kind == Stored {
		c.restarted(w, e.Stored)
		return
	}
	live := 0
	for _, t := range w.books.attempts { //order: only counted
		live += len(t.Places)
	}
	for _, h := range w.schedulers {
		if p := h.proc; p != nil && p.timers > 256+64*len(w.books.jobs)+16*live+16*len(w.machines) {
			c.violate(w, "%s has %d timers for %d jobs", p.address, p.timers, len(w.books.jobs))
		}
	}
	for _, m := range w.machines {
		if p := m.proc; p != nil && p.node != nil && p.timers > 256+32*len(p.node.Ledger().Slices())+len(m.launcher.order)*8 {
			c.violate(w, "%s has %d timers for %d slices", p.address, p.timers, len(p.node.Ledger().Slices()))
		}
	}
}

func (c *bounded) order(w *World, machine string, t topology.Token) {
	if c.orders[machine] == nil {
		c.orders[machine] = map[topology.Token]instant{}
	}
	c.orders[machine][t] = w.engine.now
}

// restarted counts the attempts that ended by a fault of the job's own before
// one that is committed now.
func (c *bounded) restarted(w *World, s *stored) {
	for _, a := range s.committed() {
		failed := int32(0)
		for _, before := range w.books.attemptsOf(s.page) {
			if before.GetEnd().GetCause() == messages.Cause_CAUSE_MEMBER_FAILED {
				failed++
			}
		}
		if failed > s.job.Spec.GetRestart().GetLimit() {
			c.violate(w, "%s is run again as %v after %d failures, it allows %d", s.job.Id, messages.FromToken(a.Token),
				failed, s.job.Spec.GetRestart().GetLimit())
		}
	}
}

// tried counts attempts at a job: each machine may spoil one in a second, not more.
func (c *bounded) tried(w *World, o *messages.Order) {
	t := c.tries[o.Job]
	if t == nil {
		t = &tries{}
		c.tries[o.Job] = t
	}
	token := messages.FromToken(o.Token)
	if token == t.last {
		return
	}
	t.last = token
	if w.engine.now.since(t.since) > time.Second {
		t.since, t.count = w.engine.now, 0
	}
	if t.count++; t.count > 16+len(w.machines) {
		c.violate(w, "%s was tried %d times within a second", o.Job, t.count)
	}
}

// told watches the parts of a gang's list.
func (c *bounded) told(w *World, from *process, m *messages.Start) {
	if m.Roster == nil {
		return
	}
	token := messages.FromToken(m.Order.Token)
	coordinator := actors.JobPath(topology.JobID(m.Order.Job)) + "/attempt-" + token.String()
	key := rosterSent{from, from.coordinators[coordinator], m.Order.Epoch, token, m.Order.Node}
	if len(m.Roster.Data) == 0 {
		delete(c.lists, key)
		return
	}
	if until := c.lists[key]; m.Roster.OffsetBytes < until {
		c.violate(w, "%s is sent its list of %s from byte %d again, and had it until %d", m.Order.Node, m.Order.Job,
			m.Roster.OffsetBytes, until)
	}
	c.lists[key] = m.Roster.OffsetBytes + int32(len(m.Roster.Data))
}

// crowded is asked when a mailbox grew beyond what a small room may need. A
// process that was stopped has to catch up first.
func (w *World) crowded(m *mailbox, waiting int) {
	if waiting > mailboxMost+64*len(w.machines) {
		w.violate("S15 bounded", "%s/%s has %d messages waiting", m.proc.address, m.self.Id, waiting)
	}
}
