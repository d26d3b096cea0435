package coordinator

import (
	"github.com/yi-json/synapse/actors"
)

// This file owns the durations that a Coordinator measures for operators, by its process's steady clock. No decision
// depends on them.

// TookPhase is the prefix of the distributions of phase durations. The name of the completed phase follows.
const TookPhase = "coordinator."

// become changes the state, and measures the duration of the phase if the attempt completed it.
func (c *Coordinator) become(event string, to coordinatorState) {
	from, now := c.states.At(), c.p.Clock.Now()
	c.states.Become(event, to)
	if c.since != 0 && from != coordinatorAborting {
		took, givenUp := now.Since(c.since), to == coordinatorAborting || event == "halted"
		if !givenUp {
			c.p.Host.Took(TookPhase+string(from), took)
		}
		if c.p.Passed != nil {
			c.p.Passed(actors.Passage{Job: c.plan.Job, Token: c.plan.Token, Run: c.plan.Run, Phase: string(from),
				Event: event, GivenUp: givenUp, Took: took})
		}
	}
	c.since = now
}
