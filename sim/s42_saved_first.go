package sim

import (
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// savedFirst is S42: a job that saves on request is asked before it is preempted. A record never names a step that a
// required rank has not acknowledged. If all of them acknowledged in time, the record of the ended attempt names the
// step. Without their acknowledgements, the attempt ends at the deadline of the request and not before.
type savedFirst struct {
	rule
	asked map[saveKey]*saveAsked
	last  map[topology.Token]*saveAsked // the last request to each attempt
	// exited holds the ranks that saved and exited. Their exit counts for a later request too, and it names no step if
	// the acknowledgement before it was lost.
	exited map[topology.TaskKey]bool
}

// saveAsked is the last request to the tasks of an attempt.
type saveAsked struct {
	request  uint64
	deadline instant // at the latest
	acks     map[int32]acknowledged
}

// savedBound is how long an acknowledgement may take to reach the leader: the longest pause before a request is sent
// again, and a little more.
const savedBound = 12 * time.Second

func newSavedFirst() *savedFirst {
	return &savedFirst{
		rule:  rule{"S42 saved-first", on{TaskTold, TaskSaved, Drafted}},
		asked: map[saveKey]*saveAsked{}, last: map[topology.Token]*saveAsked{}, exited: map[topology.TaskKey]bool{},
	}
}

func (c *savedFirst) Step(w *World, e *Event) {
	switch e.Kind {
	case TaskTold:
		c.onTold(w, e.Task, e.Message.(*messages.WarnTask))
	case TaskSaved:
		c.exited[e.Task.key] = e.Task.saved.exited
		if a := c.asked[saveKey{e.Task.key.Token, e.Task.saved.request}]; a != nil {
			a.acks[int32(e.Task.key.Rank)] = e.Task.saved
		}
	case Drafted:
		for _, a := range e.Draft.Attempts {
			c.onDrafted(w, e, a)
		}
	}
}

func (c *savedFirst) onTold(w *World, t *task, m *messages.WarnTask) {
	if m.Request == 0 {
		return
	}
	page := w.books.jobs[t.job]
	if page != nil && page.record.Spec.GetCheckpoint() == nil {
		c.violate(w, "%v of job %s is asked to save, but its job saves no checkpoint on request", t.key, t.job)
	}
	key := saveKey{t.key.Token, m.Request}
	if c.asked[key] == nil {
		a := &saveAsked{request: m.Request, acks: map[int32]acknowledged{},
			deadline: w.engine.now.plus(time.Duration(m.LeftMs) * time.Millisecond)}
		c.asked[key] = a
		if last := c.last[key.token]; last == nil || last.request < m.Request {
			c.last[key.token] = a
		}
		w.count("saves.asked", 1)
	}
}

func (c *savedFirst) onDrafted(w *World, e *Event, a *messages.AttemptRecord) {
	token := messages.FromToken(a.Token)
	spec, was, asked := e.Draft.Job.Spec, w.books.attempts[token], c.last[token]
	if fresh := a.Saved; fresh != nil && fresh.Request != was.GetSaved().GetRequest() {
		c.onSaved(w, spec, a, c.asked[saveKey{token, fresh.Request}])
	}
	if a.End == nil || was == nil || was.End != nil || spec.GetCheckpoint() == nil || asked == nil ||
		a.End.Cause != messages.Cause_CAUSE_PREEMPTED || a.Saved.GetRequest() == asked.request {
		return
	}
	if asked.request>>32 != e.Draft.Job.WrittenBy.GetEpoch() {
		return // an earlier leader sent it
	}
	w.count("saves.judged", 1)
	now, promptly := w.engine.now, w.faults.prompt()
	if last, all := c.all(spec, a, asked); all && promptly && now.since(last) > savedBound && c.heard(w, e, a) {
		c.violate(w, "job %s is preempted without the step that all ranks had acknowledged %v before", a.Job,
			now.since(last))
	}
	left := asked.deadline.since(now)
	if promptly && left > savedBound {
		c.violate(w, "job %s is preempted %v before the deadline of its request to save", a.Job, left)
	}
	if promptly && left < -time.Second && e.Since.since(asked.deadline) > time.Second {
		c.violate(w, "job %s is preempted %v after the deadline of its request to save", a.Job, -left)
	}
}

// all returns when the last required rank acknowledged, if all did.
func (c *savedFirst) all(spec *messages.JobSpec, a *messages.AttemptRecord, asked *saveAsked) (last instant, all bool) {
	for _, p := range a.Places {
		if !spec.Checkpoint.NeedsSaved(p.Rank) {
			continue
		}
		ack, ok := asked.acks[p.Rank]
		if !ok {
			return 0, false
		}
		last = max(last, ack.at)
	}
	return last, true
}

// heard reports whether the leader heard all nodes of an attempt all the time.
func (c *savedFirst) heard(w *World, e *Event, a *messages.AttemptRecord) bool {
	for _, p := range a.Places {
		if m := w.machine(p.Node); m == nil || e.Process.host == nil || !e.Process.host.heardSince(m, e.Since, savedBound) {
			return false
		}
	}
	return true
}

// onSaved checks a step that a leader is about to write.
func (c *savedFirst) onSaved(w *World, spec *messages.JobSpec, a *messages.AttemptRecord, asked *saveAsked) {
	w.count("saves.saved", 1)
	for _, p := range a.Places {
		switch key := messages.KeyOf(a.Token, p.Rank); {
		case !spec.GetCheckpoint().NeedsSaved(p.Rank):
		case c.exited[key] && a.Saved.Step == 0:
		case asked == nil:
			c.violate(w, "job %s has saved for request %d, which none of its tasks got", a.Job, a.Saved.Request)
		case asked.acks[p.Rank].step != a.Saved.Step && !c.exited[key] || asked.acks[p.Rank].request == 0:
			c.violate(w, "job %s has saved step %d, but rank %d acknowledged %v", a.Job, a.Saved.Step, p.Rank,
				asked.acks[p.Rank])
		}
	}
}
