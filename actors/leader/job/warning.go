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

// This file owns the warnings that tasks get before their end, if the job requests them. The Job sends them, because it
// knows the time limit and receives drains from the Scheduler. A warning names the earliest known end, and each one
// replaces the last. A raised limit, a cancelled drain or a new leader therefore needs no special message. The task's
// supervisor, which outlives leaders and agents, ensures one signal per end. A list of signalled tasks in the Job would
// be lost with the leader.
//
// Warnings are not written to disk. A new leader sends what it knows as soon as it knows it.

// ending is a known future end of an attempt, with its time and cause.
type ending struct {
	at    actors.Instant
	cause messages.Cause
	of    int64 // which limit or drain, as in messages.Warn
	// idle marks the notice to a job that does nothing and whose end is not known (idle.go).
	idle     bool
	idleFrom actors.Instant
}

// warning holds the end that the tasks of the attempt are warned of.
type warning struct {
	said    ending // zero: no end is near
	number  uint64 // number of that warning
	unsure  bool   // an earlier leader's warning is unknown
	seq     uint64 // number of the timer: older ones are stale
	pause   time.Duration
	lacking int               // nodes that have not confirmed, at the last count
	shown   *messages.Warning // shown to users after all nodes have confirmed …
	told    uint64            // … the warning with this number
}

type warnDue struct{ Seq uint64 }

// begin resets the warning for a new attempt. Numbers keep growing, even if the actor was recreated.
func (w *warning) begin(life uint64, unsure bool) {
	*w = warning{number: max(w.number, life<<32) + 1, seq: w.seq + 1, unsure: unsure}
}

// ending returns the earliest known end of the attempt.
func (j *Job) ending() (first ending) {
	if limit := j.rec.Spec.TimeLimitMs; limit > 0 && !j.prolonged() {
		first = ending{at: j.limitFrom.Plus(actors.Millis(limit)), cause: messages.Cause_CAUSE_TIME_LIMIT, of: limit}
	}
	for _, p := range j.att.Places {
		if d := j.contacts[topology.NodeID(p.Node)].drains; d.at != 0 && j.lives(p) && (first.at == 0 || d.at < first.at) {
			first = d
		}
	}
	return first
}

// lives reports whether no exit of a member is known.
func (j *Job) lives(p *messages.Place) bool {
	return p.Exit == nil && j.exits[messages.FromToken(j.att.Token)][p.Rank].Exit == nil
}

// warns reports whether the tasks of the attempt get warnings now.
func (j *Job) warns() bool {
	return j.rec.Spec.IsAnnounced() && j.att != nil && j.att.End == nil && j.end == nil && j.counting()
}

// warn computes the end of the attempt, sends a changed warning to its tasks, and schedules the next check.
func (j *Job) warn(ctx actor.Context) {
	if !j.warns() {
		return
	}
	w, end := &j.warning, j.ending()
	ahead, _ := j.rec.Spec.Announced()
	until := end.at.Plus(-ahead).Since(j.p.Clock.Now())
	near := ending{}
	if end.at != 0 && until <= 0 {
		near = end
	}
	known, by := near, j.saving.open() && j.saving.by
	if by {
		near = j.saving.end
	}
	if near == (ending{}) {
		near = j.idle.notice
	}
	switch {
	case near == (ending{}) && !j.states.In(jobRunning):
		// It started under an earlier leader, which may have sent a warning that no longer applies.
	case near != w.said || w.unsure:
		if j.rec.Spec.GetCheckpoint() != nil && !by {
			j.requestFor(known)
		}
		w.said, w.unsure, w.pause = near, false, 0
		w.number++
		j.sayEnding(ctx)
	}
	if left := j.saving.end.at.Since(j.p.Clock.Now()); j.saving.open() && (end.at == 0 || until <= 0 || left < until) {
		until = left
	}
	if w.lacking > 0 || j.saving.open() {
		w.pause = backoff.Next(w.pause, j.p.Constants.ResendFirst, j.p.Constants.ResendCap)
		if until <= 0 || w.pause < until {
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

// requestFor opens the request to save before a known end, or closes the open one if that end is withdrawn.
func (j *Job) requestFor(near ending) {
	switch s := &j.saving; {
	case near.at != 0:
		j.openRequest(near, j.drainedNode(near))
	case s.open():
		j.close(messages.SaveState_SAVE_STATE_WITHDRAWN)
	}
}

// drainedNode returns the node whose drain is this end. It returns "" for another end.
func (j *Job) drainedNode(near ending) string {
	for _, p := range j.att.Places {
		if j.contacts[topology.NodeID(p.Node)].drains == near && near.cause == messages.Cause_CAUSE_DRAINED {
			return p.Node
		}
	}
	return ""
}

// onWarnDue repeats the warning to nodes that have not confirmed.
func (j *Job) onWarnDue(ctx actor.Context, m warnDue) {
	if m.Seq != j.warning.seq || !j.warns() {
		return
	}
	if j.look(ctx); !j.warns() {
		return
	}
	if j.warning.lacking > 0 || j.saving.open() {
		j.sayEnding(ctx)
	}
	j.warn(ctx)
}

// sayEnding sends the warning to all nodes that have not confirmed, and counts them.
func (j *Job) sayEnding(ctx actor.Context) {
	j.warning.lacking = 0
	j.ignorant(func(n topology.NodeID, c *contact) {
		if c.knows != j.warning.number {
			j.warning.lacking++
		}
		j.sayEndingTo(ctx, n, c)
	})
	j.showWarned(ctx)
}

// ignorant visits each reachable node of the attempt that has a live task, and has not confirmed the warning or lacks
// an acknowledgement of the open request.
func (j *Job) ignorant(visit func(topology.NodeID, *contact)) {
	last := ""
	for _, p := range j.att.Places {
		c := j.contacts[topology.NodeID(p.Node)]
		if p.Node == last || !j.lives(p) || !c.up || c.vocabulary < messages.VocabularyWarn ||
			c.knows == j.warning.number && !j.lacksSaved(topology.NodeID(p.Node)) {
			continue
		}
		last = p.Node // the ranks of a node are adjacent
		visit(topology.NodeID(p.Node), c)
	}
}

func (j *Job) sayEndingTo(ctx actor.Context, n topology.NodeID, c *contact) {
	if c.incarnation == nil {
		return // not heard since the takeover
	}
	m := &messages.Warn{Order: j.order(messages.FromToken(j.att.Token), n, c), Number: j.warning.number}
	switch e := j.warning.said; {
	case e.idle:
		m.Of, m.IdleMs = e.of, min(j.p.Clock.Now().Since(e.idleFrom).Milliseconds(), messages.MaxDurationMs)
	case e.at != 0:
		m.Cause, m.Of, m.LeftMs = e.cause, e.of, max(e.at.Since(j.p.Clock.Now()).Milliseconds(), 0)
		if s := &j.saving; s.request != 0 {
			m.Request, m.Subject = s.request, s.subject
			if s.by {
				m.Of = 0 // the request has a number of its own
			}
		}
	}
	ctx.Request(j.p.Peers.Node(n), m)
}

// warnReturned sends the warning to a node that has just returned, if it lacks it.
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

// onWarned records that a node has warned its tasks.
func (j *Job) onWarned(ctx actor.Context, c *contact, m *messages.Warned) {
	if m.Number != j.warning.number {
		return
	}
	j.noteSaved(ctx, topology.NodeID(m.Origin.Node), m.Saved)
	if c.knows == m.Number || m.Number != j.warning.number {
		return
	}
	c.knows = m.Number
	if j.warning.lacking--; j.warning.lacking <= 0 && j.warns() {
		j.warning.lacking = 0
		j.ignorant(func(_ topology.NodeID, c *contact) {
			if c.knows != j.warning.number {
				j.warning.lacking++
			}
		})
		j.showWarned(ctx)
	}
}

// showWarned shows users the warning after all tasks have it.
func (j *Job) showWarned(ctx actor.Context) {
	w := &j.warning
	if w.lacking > 0 || w.told == w.number {
		return
	}
	was := w.shown
	w.told, w.shown = w.number, nil
	switch now := j.p.Clock.WallMs(); {
	case w.said.idle:
		w.shown = &messages.Warning{AtUnixMs: now, IdleMs: j.p.Clock.Now().Since(w.said.idleFrom).Milliseconds()}
	case w.said.at != 0:
		left := max(w.said.at.Since(j.p.Clock.Now()).Milliseconds(), 0)
		w.shown = &messages.Warning{Cause: w.said.cause, AtUnixMs: now, EndsUnixMs: now + left}
	}
	if was != w.shown {
		j.show(ctx)
	}
}

// onDrains records when a node of the attempt will be drained.
func (j *Job) onDrains(ctx actor.Context, m protocol.Drains) {
	if c := j.contacts[m.Node]; c != nil {
		c.drains = ending{}
		if m.Ends != 0 {
			c.drains = ending{at: m.Ends, cause: messages.Cause_CAUSE_DRAINED, of: m.Ordered}
		}
		j.warn(ctx)
	}
}
