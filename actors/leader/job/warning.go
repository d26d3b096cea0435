package job

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/clock/backoff"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns what the tasks of a job are told ahead of their end, where the job asks for that. The Job says it,
// because the ends that are known before come together here: it counts the limit, and the Scheduler tells it of
// drains. What is said is one thing, the first of those ends, and all of it is said each time: so a later word
// replaces an earlier one, whether a limit was raised, a drain was taken back, or another leader counts. That an end
// is not signalled twice is for the task's supervisor to see to, which outlives leaders and agents alike. The naive
// way, to remember here who was signalled, forgets it with the leader.
//
// Nothing of it is on disk. A leader that takes over says what it knows as soon as it knows it.

// ending is when an attempt will be stopped, and why, as far as that is known before.
type ending struct {
	at    actors.Instant
	cause messages.Cause
	of    int64 // which limit, which drain: as in messages.Warn
}

// warning holds the end that the tasks of the attempt are warned of.
type warning struct {
	said    ending // zero: that no end is near
	number  uint64 // of that
	unsure  bool   // what an earlier leader has said
	seq     uint64 // numbers the timers: older ones are stale
	pause   time.Duration
	lacking int               // machines that have yet to say that they know, as they were counted last
	shown   *messages.Warning // to people, once all know …
	told    uint64            // … that number
}

type warnDue struct{ Seq uint64 }

// begin forgets what was said to an attempt before. Numbers go on: of an actor that was recreated they are higher, too.
func (w *warning) begin(life uint64, unsure bool) {
	*w = warning{number: max(w.number, life<<32) + 1, seq: w.seq + 1, unsure: unsure}
}

// ending is the first end of the attempt that is known.
func (j *Job) ending() (first ending) {
	if limit := j.rec.Spec.TimeLimitMs; limit > 0 && !j.prolonged() {
		first = ending{j.limitFrom.Plus(actors.Millis(limit)), messages.Cause_CAUSE_TIME_LIMIT, limit}
	}
	for _, p := range j.att.Places {
		if d := j.contacts[topology.NodeID(p.Node)].drains; d.at != 0 && j.lives(p) && (first.at == 0 || d.at < first.at) {
			first = d
		}
	}
	return first
}

// lives reports whether nothing is known of a member's end.
func (j *Job) lives(p *messages.Place) bool {
	return p.Exit == nil && j.exits[messages.FromToken(j.att.Token)][p.Rank].Exit == nil
}

// warns reports whether the tasks of the attempt are to be told of its end now.
func (j *Job) warns() bool {
	return j.rec.Spec.GetWarn() != nil && j.att != nil && j.att.End == nil && j.end == nil && j.counting()
}

// warn looks when the attempt ends, tells its tasks what is new, and looks again when it is time.
func (j *Job) warn(ctx actor.Context) {
	if !j.warns() {
		return
	}
	w, end := &j.warning, j.ending()
	until := end.at.Plus(-actors.Millis(j.rec.Spec.Warn.AheadMs)).Since(j.p.Clock.Now())
	near := ending{}
	if end.at != 0 && until <= 0 {
		near = end
	}
	switch {
	case near == (ending{}) && !j.states.In(jobRunning):
		// It started under an earlier leader, who may have said more than is known by now.
	case near != w.said || w.unsure:
		w.said, w.unsure, w.pause = near, false, 0
		w.number++
		j.sayEnding(ctx)
	}
	if w.lacking > 0 {
		w.pause = backoff.Next(w.pause, j.p.Constants.ResendFirst, j.p.Constants.ResendCap)
		if end.at == 0 || until <= 0 || w.pause < until {
			until = w.pause
		}
	}
	if until > 0 {
		j.lookAtEnd(ctx, until)
	}
}

func (j *Job) lookAtEnd(ctx actor.Context, after time.Duration) {
	j.warning.seq++
	j.p.Clock.After(after, ctx.Self(), warnDue{j.warning.seq})
}

// onWarnDue says it again to whoever has not answered.
func (j *Job) onWarnDue(ctx actor.Context, m warnDue) {
	if m.Seq != j.warning.seq || !j.warns() {
		return
	}
	if j.warning.lacking > 0 {
		j.sayEnding(ctx)
	}
	j.warn(ctx)
}

// sayEnding tells all machines that do not know, and counts them.
func (j *Job) sayEnding(ctx actor.Context) {
	j.warning.lacking = 0
	j.ignorant(func(n topology.NodeID, c *contact) {
		j.warning.lacking++
		j.sayEndingTo(ctx, n, c)
	})
	j.showWarned(ctx)
}

// ignorant visits each machine of the attempt that can be reached, has a task of it, and has yet to say that this is
// told.
func (j *Job) ignorant(visit func(topology.NodeID, *contact)) {
	last := ""
	for _, p := range j.att.Places {
		c := j.contacts[topology.NodeID(p.Node)]
		if p.Node == last || !j.lives(p) || !c.up || c.knows == j.warning.number || c.vocabulary < messages.VocabularyWarn {
			continue
		}
		last = p.Node // the ranks of a machine stand together
		visit(topology.NodeID(p.Node), c)
	}
}

func (j *Job) sayEndingTo(ctx actor.Context, n topology.NodeID, c *contact) {
	if c.incarnation == nil {
		return // not heard since the takeover
	}
	m := &messages.Warn{Order: j.order(messages.FromToken(j.att.Token), n, c), Number: j.warning.number}
	if e := j.warning.said; e.at != 0 {
		m.Cause, m.Of, m.LeftMs = e.cause, e.of, max(e.at.Since(j.p.Clock.Now()).Milliseconds(), 0)
	}
	ctx.Request(j.p.Peers.Node(n), m)
}

// warnReturned tells a machine that has just been heard, if it does not know.
func (j *Job) warnReturned(ctx actor.Context, n topology.NodeID) {
	c := j.contacts[n]
	if !j.warns() || j.warning.unsure || c.knows == j.warning.number {
		return
	}
	if c.vocabulary >= messages.VocabularyWarn && j.livesOn(n) {
		j.warning.lacking++
		j.warning.pause = 0
		j.lookAtEnd(ctx, j.p.Constants.ResendFirst)
	}
}

// onWarned notes that a machine has told its tasks.
func (j *Job) onWarned(ctx actor.Context, c *contact, m *messages.Warned) {
	if m.Number != j.warning.number || c.knows == m.Number {
		return
	}
	c.knows = m.Number
	if j.warning.lacking--; j.warning.lacking <= 0 && j.warns() {
		j.warning.lacking = 0
		j.ignorant(func(topology.NodeID, *contact) { j.warning.lacking++ })
		j.showWarned(ctx)
	}
}

// showWarned shows people what all tasks know.
func (j *Job) showWarned(ctx actor.Context) {
	w := &j.warning
	if w.lacking > 0 || w.told == w.number {
		return
	}
	was := w.shown
	w.told, w.shown = w.number, nil
	if w.said.at != 0 {
		now := j.p.Clock.WallMs()
		left := max(w.said.at.Since(j.p.Clock.Now()).Milliseconds(), 0)
		w.shown = &messages.Warning{Cause: w.said.cause, AtUnixMs: now, EndsUnixMs: now + left}
	}
	if was != w.shown {
		j.show(ctx)
	}
}

// onDrains notes when a machine of the attempt is emptied.
func (j *Job) onDrains(ctx actor.Context, m protocol.Drains) {
	if c := j.contacts[m.Node]; c != nil {
		c.drains = ending{}
		if m.Ends != 0 {
			c.drains = ending{m.Ends, messages.Cause_CAUSE_DRAINED, m.Ordered}
		}
		j.warn(ctx)
	}
}
