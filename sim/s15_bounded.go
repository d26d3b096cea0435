package sim

import (
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// bounded is S15: mailboxes, timers and attempts stay within the bounds of the constants and the size of the cluster.
// Unbounded growth in an hour of simulation would be a leak in production, and a job that is refused again and again
// keeps a leader busy.
//
// A failing job is restarted as often as it allows. The member list of a gang goes to each node once. A part of it is
// sent again only after the node requests it, in answer to a Start without a part. No message exceeds the limit of the
// link (send in network.go).
type bounded struct {
	rule
	tries  map[string]*tries
	orders map[string]map[topology.Token]instant // by node: when the last order about an attempt left
	lists  map[rosterSent]int32                  // end of the sent part of the list
}

// rosterSent identifies the list of one attempt from one leader to one node.
type rosterSent struct {
	from  *process // two leaders may have one epoch, which a replica assigned twice
	life  int      // which Coordinator of the attempt: a recreated one starts again
	epoch uint64
	token topology.Token
	node  string
}

// tries counts the attempts of one job within a second.
type tries struct {
	last  topology.Token
	since instant
	count int
}

func newBounded() *bounded {
	return &bounded{rule: rule{"S15 bounded", on{Sent, Stored, Scanned}},
		tries: map[string]*tries{}, orders: map[string]map[topology.Token]instant{}, lists: map[rosterSent]int32{}}
}

// mailboxMost is a length that no mailbox of a running process may exceed. At this length the checker compares it with
// the bound for the cluster's size.
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
		if p := m.proc; p != nil && p.node != nil &&
			p.timers > 256+32*len(p.node.Ledger().Allocations())+len(m.launcher.order)*8 {
			c.violate(w, "%s has %d timers for %d allocations", p.address, p.timers, len(p.node.Ledger().Allocations()))
		}
	}
}

func (c *bounded) order(w *World, machine string, t topology.Token) {
	if c.orders[machine] == nil {
		c.orders[machine] = map[topology.Token]instant{}
	}
	c.orders[machine][t] = w.engine.now
}

// chargedTo reports whether the failure of an attempt counts against the restarts of its job.
func chargedTo(a *messages.AttemptRecord) bool {
	return a.GetEnd().GetCause() == messages.Cause_CAUSE_MEMBER_FAILED && (a.Verdict == nil || a.Verdict.Charged)
}

// failuresOf counts the attempts before one that count against the restarts of their job.
func failuresOf(w *World, of *jobPage, now *messages.AttemptRecord) (n int32) {
	for _, a := range w.books.attemptsOf(of) {
		if a.Run < now.Run && chargedTo(a) {
			n++
		}
	}
	return n
}

// restarted counts the attempts that ended by the job's own fault before the attempt that is committed now.
func (c *bounded) restarted(w *World, s *stored) {
	for _, a := range s.committed() {
		failed := failuresOf(w, s.page, a)
		if failed > s.job.Spec.GetRestart().GetLimit() {
			c.violate(w, "job %s is restarted as %v after %d failures, but allows %d", s.job.Id, messages.FromToken(a.Token),
				failed, s.job.Spec.GetRestart().GetLimit())
		}
	}
}

// tried counts attempts of a job. Each node may fail one per second, and no more.
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
		c.violate(w, "job %s was tried %d times within a second", o.Job, t.count)
	}
}

// told checks the parts of a gang's list.
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
		c.violate(w, "%s gets the member list of job %s from byte %d again, although it got it until %d",
			m.Order.Node, m.Order.Job,
			m.Roster.OffsetBytes, until)
	}
	c.lists[key] = m.Roster.OffsetBytes + int32(len(m.Roster.Data))
}

// crowded checks a mailbox that has exceeded mailboxMost. A process that was stopped must catch up first.
func (w *World) crowded(m *mailbox, waiting int) {
	if waiting > mailboxMost+64*len(w.machines) {
		w.violate("S15 bounded", "%s/%s has %d messages waiting", m.proc.address, m.self.Id, waiting)
	}
}
