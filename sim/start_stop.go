package sim

import (
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file defines the fault start-stop. An agent stops between COMMIT and the start of its ranks, for so long that
// the other ranks of the gang, which have started, are ended.

// stopsBefore reports whether an agent stops right before it starts a rank of a gang. This fails the barrier reliably,
// because all ranks are prepared and the others start.
func (l *launcher) stopsBefore(c *messages.StartTask, agent *process) bool {
	a := l.w.books.attempts[c.Id.Key().Token]
	if a == nil || len(a.Places) < 2 || agent.dead || agent.paused || agent.machine.original != nil ||
		!l.w.fires("start-stop") {
		return false
	}
	l.w.note(agent, "stopped before it started rank %d of %s", c.Id.Key().Rank, a.Job)
	l.w.faults.suspend(agent, l.w.constants.StartDeadline+l.w.luck.between(5*time.Second, 40*time.Second))
	return true
}
