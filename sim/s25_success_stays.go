package sim

import (
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// successStays is S25: an attempt whose members all exited 0 before anybody told
// them to stop is followed by no other, where the store knows of all of them by the
// COMMIT of the next one. A machine that brings the news after that changes nothing,
// for whatever comes after the next one either; and where a machine has lost its
// record, is gone by the operator's word, or has an agent of an earlier version,
// nobody can know. That nobody had told them to stop the launchers know, and not
// the record.
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
				c.violate(w, "%v of %s was committed, and all members of %v had exited 0", messages.FromToken(a.Token), a.Job, t)
			}
		}
	}
}

// awayFromMute: the version before neither says nor hears that a task ended by itself.
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
