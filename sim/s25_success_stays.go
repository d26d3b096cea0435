package sim

import (
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// successStays is S25: no attempt follows an attempt whose members all exited with 0 before they were stopped. This
// holds if the store has all these exits by the COMMIT of the next attempt. Exits that arrive later change nothing,
// also for the attempts after the next one. The rule cannot hold if a node has lost its record, was removed by the
// operator, or has an agent of an earlier version. Only the launchers, and not the record, know whether the members had
// been stopped.
type successStays struct {
	rule
	clean map[topology.TaskKey]instant // when it exited
}

func newSuccessStays() *successStays {
	return &successStays{rule: rule{"S25 success-stays", on{TaskEnded, Stored}}, clean: map[topology.TaskKey]instant{}}
}

func (c *successStays) Step(w *World, e *Event) {
	if e.Kind == TaskEnded {
		if x := e.Task.exit; x != nil && x.Kind == messages.ExitKind_EXIT_KIND_EXITED && x.Code == 0 && !e.Task.told {
			c.clean[e.Task.key] = w.engine.now
		}
		return
	}
	for _, a := range e.Stored.committed() {
		if n := len(e.Stored.page.tokens); n > 0 {
			t := e.Stored.page.tokens[n-1]
			if earlier := w.books.attempts[t]; earlier != nil && c.succeeded(w, e.Stored, earlier) {
				c.violate(w, "%v of job %s was committed, although all members of %v had exited with 0",
					messages.FromToken(a.Token), a.Job, t)
			}
		}
	}
}

// awayFromMute reports whether the previous version is involved, which does not report that a task ended by itself.
func (*successStays) awayFromMute(w *World, node string, exited instant) bool {
	m := w.machine(node)
	return m == nil || w.lostWords(m, exited)
}

func (c *successStays) succeeded(w *World, s *stored, a *messages.AttemptRecord) bool {
	for i, p := range a.Places {
		k := messages.KeyOf(a.Token, p.Rank)
		if x := lastWord(s, a, i).Exit; c.clean[k] == 0 || x.GetKind() != messages.ExitKind_EXIT_KIND_EXITED || x.Code != 0 ||
			!x.ByItself && c.awayFromMute(w, p.Node, c.clean[k]) {
			return false
		}
	}
	return true
}
