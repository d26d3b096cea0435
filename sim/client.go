package sim

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
)

// This file simulates the clients. They submit, cancel, hold and drain, repeat requests without an answer, and remember
// the answers.

const clientAddress = "client"

// client sends all requests to the schedulers, for users and operators alike.
type client struct {
	w    *World
	asks map[string]*ask // open requests by the path for their answer
	next int
	jobs []*Order
	byID map[string]*Order
}

// ask is one request until it is answered.
type ask struct {
	path    string
	message messages.Message
	sent    int
	since   instant
	full    instant // when a leader last answered that its queue is full; 0: never
	// answered handles the reply and reports whether the request is settled.
	answered func(messages.Message) bool
}

// Order is a job as its client knows it.
type Order struct {
	requestID string
	owner     *messages.Principal
	spec      *messages.JobSpec
	held      bool   // it is submitted held
	id        string // empty until acknowledged
	refused   bool
	asked     instant // when the submit was first sent
	ackedAt   instant
	cancelled instant // when the cancel was acknowledged; 0: never
	submits   int
	snared    func(*Order) // what the client does at one of the first messages about the job …
	steps     int          // … after this many messages
}

// Owner returns the principal that submitted the job.
func (o *Order) Owner() *messages.Principal { return o.owner }

func newClient(w *World) *client {
	c := &client{w: w, asks: map[string]*ask{}, byID: map[string]*Order{}}
	w.endpoints[clientAddress] = &endpoint{address: clientAddress, receive: c.receive}
	return c
}

var anonymous = &messages.Principal{Name: messages.Anonymous}

// ask sends a message to a leader until it gets an answer. Each try goes to the current leader, or sometimes to a
// process that wrongly believes that it leads.
func (c *client) ask(message messages.Message, answered func(messages.Message) bool) {
	c.next++
	a := &ask{path: fmt.Sprintf("ask-%d", c.next), message: message, answered: answered, since: c.w.engine.now}
	c.asks[a.path] = a
	c.try(a)
}

func (c *client) try(a *ask) {
	if c.asks[a.path] != a {
		return
	}
	if p := c.target(); p != nil {
		if p.old && (brings(a.message) || !c.w.oldVersion().Knows(a.message)) {
			delete(c.asks, a.path) // the gateway answers at once that the call does not exist
			return
		}
		a.sent++
		to := actor.NewPID(p.address, actors.SchedulerPath)
		c.w.send(nil, to, actor.NewPID(clientAddress, a.path), a.message)
	}
	c.w.engine.after(c.w.jobs.between(2*time.Second, 6*time.Second), func() { c.try(a) })
}

// brings reports whether clients send a message by a separate call, as for a job with a script.
func brings(m messages.Message) bool {
	submit, is := m.(*messages.Submit)
	return is && submit.Spec.GetScript() != nil
}

func (c *client) target() *process {
	if c.w.jobs.chance(0.1) {
		if h := c.w.schedulers[c.w.jobs.below(len(c.w.schedulers))]; h.proc != nil && h.proc.epoch != 0 {
			return h.proc
		}
	}
	return c.w.leader()
}

// receive handles an answer. It ignores an answer to a settled request.
func (c *client) receive(path string, from *process, reply messages.Message) {
	c.w.seen(Event{Kind: Replied, Process: from, Message: reply, Path: path})
	a := c.asks[path]
	if r, is := reply.(*messages.SubmitReply); is && a != nil && r.Outcome.GetCode() == messages.Code_CODE_EXHAUSTED {
		a.full = c.w.engine.now
		c.w.count("client.exhausted", 1)
	}
	if a != nil && a.answered(reply) {
		delete(c.asks, path)
	}
}

// settled reports whether an outcome is final, rather than "come later".
func settled(o *messages.Outcome) bool {
	return o.GetCode() != messages.Code_CODE_UNAVAILABLE && o.GetCode() != messages.Code_CODE_EXHAUSTED
}

// wish sends a request until an answer settles it, and then calls then.
func wish[R interface{ GetOutcome() *messages.Outcome }](c *client, message messages.Message, then func(R)) {
	c.ask(message, func(reply messages.Message) bool {
		r, is := reply.(R)
		if !is || !settled(r.GetOutcome()) {
			return false
		}
		then(r)
		return true
	})
}

// submit submits a job without an owner's name.
func (c *client) submit(spec *messages.JobSpec) *Order { return c.submitAs(anonymous, spec, false) }

func (c *client) submitAs(owner *messages.Principal, spec *messages.JobSpec, held bool) *Order {
	o := &Order{requestID: fmt.Sprintf("request-%d", len(c.jobs)+1), owner: owner, spec: spec, held: held,
		asked: c.w.engine.now}
	c.jobs = append(c.jobs, o)
	c.order(o)
	return o
}

// order sends a submit, for the first time or again.
func (c *client) order(o *Order) {
	o.submits++
	m := &messages.Submit{Principal: o.owner, RequestId: o.requestID, Spec: o.spec, Exempt: c.w.isAdmin(o.owner),
		Hold: o.held, Groups: c.w.groupsOf(o.owner)}
	wish(c, m, func(r *messages.SubmitReply) {
		if o.id == "" {
			c.acknowledged(o, r)
		}
	})
}

func (c *client) acknowledged(o *Order, r *messages.SubmitReply) {
	if r.Outcome.Code != messages.Code_CODE_OK {
		o.refused = true
		c.w.count("client.refused."+r.Outcome.Code.String(), 1)
		c.w.say("submit refused: %s %s", r.Outcome.Field, r.Outcome.Text)
		return
	}
	if c.w.books.jobs[r.Job] == nil {
		c.lose(o) // the store was restored while the answer was on its way
		return
	}
	// A submit that was refused the first time may be accepted when it is repeated.
	o.id, o.ackedAt, o.refused = r.Job, c.w.engine.now, false
	c.byID[o.id] = o
	if o.snared != nil {
		c.w.snare(o.id, o.steps, func() { o.snared(o) })
	}
}

// cancel repeats its request until the cancel is on disk or the job has finished.
func (c *client) cancel(o *Order) {
	if o.id == "" {
		return
	}
	wish(c, &messages.Cancel{Principal: anonymous, Job: o.id, Reason: "no longer wanted"}, func(r *messages.CancelReply) {
		// The job may have finished without the cancel if the store was restored while the answer was on its
		// way.
		page := c.w.books.jobs[o.id]
		if r.Outcome.Code == messages.Code_CODE_OK && o.cancelled == 0 && page != nil && page.record.Cancel != nil {
			o.cancelled = c.w.engine.now
			c.w.count("client.cancelled", 1)
		}
	})
}

// hold holds a job or releases it.
func (c *client) hold(o *Order, release bool) {
	if o.id == "" {
		return
	}
	if page := c.w.books.jobs[o.id]; page != nil {
		page.holdAsked = c.w.engine.now
	}
	wish(c, &messages.Hold{Principal: anonymous, Job: o.id, Reason: "waiting for data", Release: release},
		func(r *messages.HoldReply) {
			if r.Outcome.Code == messages.Code_CODE_OK {
				c.w.count(map[bool]string{false: "client.held", true: "client.released"}[release], 1)
			}
		})
}

// requeue ends the attempt that the client knows, and repeats the request until the attempt has ended.
func (c *client) requeue(o *Order) { c.requeueAnd(o, false) }

func (c *client) requeueAnd(o *Order, hold bool) {
	page := c.w.books.jobs[o.id]
	if page == nil {
		return
	}
	q := &messages.Requeue{Principal: anonymous, Job: o.id, Reason: "slow disk", Run: page.record.Runs, Hold: hold,
		Checkpoint: page.record.Spec.GetCheckpoint() != nil}
	wish(c, q, func(r *messages.RequeueReply) {
		if r.Run > 0 {
			c.w.count("client.requeued", 1)
		}
	})
}

// update changes the priority, the time limit or both. It repeats the request until the change is on disk.
func (c *client) update(o *Order, q *messages.Update) {
	if q.Principal, q.Job = anonymous, o.id; o.id == "" {
		return
	}
	wish(c, q, func(r *messages.UpdateReply) {
		if r.Outcome.Code == messages.Code_CODE_OK {
			c.w.count("client.updated", 1)
		}
	})
}

func (c *client) change(m *machine, verb messages.NodeVerb, deadline time.Duration, then ...func()) {
	c.wants(m, &messages.ChangeNode{Verb: verb, DeadlineMs: deadline.Milliseconds()}, then...)
}

// wants queues an operator's request about a node.
func (c *client) wants(m *machine, q *messages.ChangeNode, then ...func()) {
	q.Principal, q.Node, q.Reason = anonymous, string(m.id), "maintenance"
	wish := func() { c.askChange(m, q, then) }
	if m.wishes = append(m.wishes, wish); len(m.wishes) == 1 {
		wish()
	}
}

// askChange sends the requests about a node one after the other. If they were sent at once, a delayed cordon could
// arrive after the uncordon and stay.
func (c *client) askChange(m *machine, q *messages.ChangeNode, then []func()) {
	c.ask(q, func(reply messages.Message) bool {
		r, is := reply.(*messages.ChangeNodeReply)
		if is && r.Outcome.GetCode() != messages.Code_CODE_OK {
			c.w.count("client.change."+r.Outcome.GetCode().String(), 1)
		}
		// A node without power, or whose name a clone has taken, counts as alive until it is declared dead.
		early := q.Verb == messages.NodeVerb_NODE_VERB_REMOVE && (!m.powered || c.w.displaced(m)) &&
			r.GetOutcome().GetCode() == messages.Code_CODE_CONFLICT
		if !is || !settled(r.Outcome) || early {
			return false
		}
		for _, do := range then {
			do()
		}
		if m.wishes = m.wishes[1:]; len(m.wishes) > 0 {
			m.wishes[0]()
		}
		return true
	})
}

func (c *client) cordon(m *machine)   { c.change(m, messages.NodeVerb_NODE_VERB_CORDON, 0) }
func (c *client) uncordon(m *machine) { c.change(m, messages.NodeVerb_NODE_VERB_UNCORDON, 0) }

func (c *client) remove(m *machine, then ...func()) {
	c.change(m, messages.NodeVerb_NODE_VERB_REMOVE, 0, then...)
}

func (c *client) drain(m *machine, deadline time.Duration) {
	c.change(m, messages.NodeVerb_NODE_VERB_DRAIN, deadline)
}

// closes schedules a drain of a node for a time of day.
func (c *client) closes(m *machine, atUnixMs int64, deadline time.Duration) {
	c.wants(m, &messages.ChangeNode{
		Verb: messages.NodeVerb_NODE_VERB_DRAIN, AtUnixMs: atUnixMs, DeadlineMs: deadline.Milliseconds(),
	})
}
