package sim

import (
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file owns the fault start-stop: agents that stop between COMMIT and the start of their ranks, for so long that
// the others of the gang, which have started by then, are ended.

// stopsBefore reports whether an agent stops right before it has a rank of a gang started. Nothing else of the gang can
// make the barrier fail so surely: all are prepared, and the others start.
func (l *launcher) stopsBefore(c *messages.StartTask, agent *process) bool {
	a := l.w.books.attempts[c.Id.Key().Token]
	if a == nil || len(a.Places) < 2 || agent.dead || agent.paused || agent.machine.original != nil ||
		!l.w.fires("start-stop") {
		return false
	}
	l.w.note(agent, "stopped before it had rank %d of %s started", c.Id.Key().Rank, a.Job)
	l.w.faults.suspend(agent, l.w.constants.StartDeadline+l.w.luck.between(5*time.Second, 40*time.Second))
	return true
}
