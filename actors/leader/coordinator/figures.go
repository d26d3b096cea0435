package coordinator

import (
	"github.com/yi-json/synapse/actors"
)

// This file owns what a Coordinator measures for operators, by its process's steady clock. Nothing is decided by
// it.

// TookPhase begins the distributions of how long attempts took: the phase that one got through follows.
const TookPhase = "coordinator."

// become moves the attempt on, and measures how long the phase took, if that is not how it was given up.
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
