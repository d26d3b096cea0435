package sim

import (
	"time"

	"github.com/yi-json/synapse/messages"
)

// fenceHolds is S26: if a job has stopWhenLost, no two of its attempts have processes at once, whatever the clocks say.
// A removal of a node by the operator counts as true. A deposed leader that still acknowledges heartbeats keeps tasks
// alive that its successor does not know. Its lease ends first, and only the simulator lets it continue for longer than
// a moment. A killed process that the kernel does not end runs no code any more.
type fenceHolds struct {
	rule
	past map[int]instant // by node: when a deposed leader last acknowledged a heartbeat
}

func newFenceHolds() *fenceHolds {
	return &fenceHolds{rule: rule{"S26 fence-holds", on{Sent, TaskSpawned}}, past: map[int]instant{}}
}

func (c *fenceHolds) Step(w *World, e *Event) {
	if e.Kind == Sent {
		if _, is := e.Message.(*messages.HeartbeatAck); is && e.Process != w.leader() && e.To != nil && e.To.machine != nil {
			c.past[e.To.machine.index] = w.engine.now
		}
		return
	}
	page := w.books.jobs[e.Task.job]
	if e.Task.fence == 0 || page == nil {
		return
	}
	for _, t := range page.tokens {
		if t != e.Task.key.Token {
			c.gone(w, e.Task, w.books.attempts[t])
		}
	}
}

// gone looks for processes of another attempt next to a new process.
func (c *fenceHolds) gone(w *World, now *task, a *messages.AttemptRecord) {
	for _, p := range a.GetPlaces() {
		k := messages.KeyOf(a.Token, p.Rank)
		m := w.machine(p.Node)
		if m == nil || m.raged || !m.launcher.running(k) || m.launcher.tasks[k].stuck ||
			p.Exit.GetKind() == messages.ExitKind_EXIT_KIND_REMOVED {
			continue
		}
		if past, ever := c.past[m.index]; ever && w.engine.now.since(past) < now.fence+now.grace+time.Minute {
			continue
		}
		c.violate(w, "%v of job %s was started while %v runs on %s", now.key, now.job, k, m.address)
		return
	}
}
