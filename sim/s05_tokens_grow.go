package sim

import (
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// tokensGrow is S5: after attempt b of a job, a checker of tokens accepts nothing of an earlier attempt a. The store
// and each node check tokens. A disconnected node that never heard of b may continue with a. Unconfirmed allocations
// and stopWhenLost cover this case.
type tokensGrow struct {
	rule
	ran map[jobAt]topology.Token // the latest token of which a process started
}

type jobAt struct {
	job  string
	node topology.NodeID
}

func newTokensGrow() *tokensGrow {
	return &tokensGrow{rule: rule{"S5 tokens-grow", on{Stored, TaskSpawned}}, ran: map[jobAt]topology.Token{}}
}

func (c *tokensGrow) Step(w *World, e *Event) {
	if e.Kind == TaskSpawned {
		at := jobAt{e.Task.job, e.Machine.id}
		t, last := e.Task.key.Token, c.ran[at]
		if t.Less(last) {
			c.violate(w, "a process of %v of job %s was started on %s after one of %v", t, e.Task.job, e.Machine.address, last)
		}
		c.ran[at] = t
		return
	}
	s := e.Stored
	if s.job == nil {
		return
	}
	if now, was := messages.FromToken(s.job.Attempt), messages.FromToken(s.jobWas.GetAttempt()); now.Less(was) {
		c.violate(w, "the attempt of job %s was %v, and now is %v", s.job.Id, was, now)
	}
	for _, a := range s.committed() {
		if t, n := messages.FromToken(a.Token), len(s.page.tokens); n > 0 && !s.page.tokens[n-1].Less(t) {
			c.violate(w, "job %s committed attempt %v after %v", s.job.Id, t, s.page.tokens[n-1])
		}
	}
}
