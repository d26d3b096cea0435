package sim

import (
	"strings"
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file simulates what nodes measure of tasks that hold a GPU and do nothing. Only scenarios use it.

// useEvery is the interval of the measurements of a task.
const useEvery = 10 * time.Second

// idling holds when a task does nothing: from after the begin of each round until its end.
type idling struct{ from, round time.Duration }

// idlingOf parses a duration, or two such as 2m/7m. Without the second, the task does nothing until it ends.
func idlingOf(value string) (i idling) {
	from, round, _ := strings.Cut(value, "/")
	i.from, _ = time.ParseDuration(from)
	i.round, _ = time.ParseDuration(round)
	return i
}

// of returns for how long a task has done nothing, at this time after its start.
func (i idling) of(ran time.Duration) time.Duration {
	if i.round > 0 {
		ran %= i.round
	}
	return max(ran-i.from, 0)
}

// uses simulates the measurements of a task until it ends.
func (l *launcher) uses(t *task, i idling, ran time.Duration) {
	l.later(t, useEvery, func() {
		if t.state != taskRunning {
			return
		}
		if ran += useEvery; t.agent != nil {
			t.agent.tell(t.to, &messages.TaskProgress{Id: messages.ToTaskID(t.key), Use: &messages.Use{
				Tasks: 1, Processes: 1, Gpus: 1, IdleMs: i.of(ran).Milliseconds(),
			}})
		}
		l.uses(t, i, ran)
	})
}
