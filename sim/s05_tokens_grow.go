package sim

import (
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// tokensGrow is S5: whoever checks tokens accepts nothing of attempt a after b,
// where b is the later one. The store and each machine check them. A machine
// that is cut off and never heard of b may go on with a: that is what debts and
// stopWhenLost are about.
type tokensGrow struct {
	notQuiet
	ran map[jobAt]topology.Token // the latest of which a process was spawned
}

type jobAt struct {
	job  string
	node topology.NodeID
}

func newTokensGrow() *tokensGrow { return &tokensGrow{ran: map[jobAt]topology.Token{}} }

func (*tokensGrow) Name() string         { return "S5 tokens-grow" }
func (*tokensGrow) Watches() []EventKind { return []EventKind{Stored, TaskSpawned} }

func (c *tokensGrow) Step(w *World, e *Event) {
	if e.Kind == TaskSpawned {
		at := jobAt{e.Task.job, e.Machine.id}
		t, last := e.Task.key.Token, c.ran[at]
		if t.Less(last) {
			w.violate(c.Name(), "a process of %v of %s was spawned on %s after one of %v", t, e.Task.job, e.Machine.address, last)
		}
		c.ran[at] = t
		return
	}
	s := e.Stored
	if s.job == nil {
		return
	}
	if now, was := messages.FromToken(s.job.Attempt), messages.FromToken(s.jobWas.GetAttempt()); now.Less(was) {
		w.violate(c.Name(), "the attempt of %s was %v, and now is %v", s.job.Id, was, now)
	}
	for i, a := range s.attempts {
		if s.attemptsWere[i] != nil || len(s.page.tokens) == 0 {
			continue
		}
		if t, last := messages.FromToken(a.Token), s.page.tokens[len(s.page.tokens)-1]; !last.Less(t) {
			w.violate(c.Name(), "%s committed %v after %v", s.job.Id, t, last)
		}
	}
}
