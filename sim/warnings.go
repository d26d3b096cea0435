package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/messages"
)

// This file draws jobs that request a warning before their end, and simulates the warnings to their tasks. It draws no
// random numbers for that. Every other such job has a time limit that ends it.

// warnings draws whether a job is warned, and how it reacts.
func (w *World) warnings(spec *messages.JobSpec, run *script) {
	n := len(w.client.jobs)
	if n%8 != 6 {
		return
	}
	if n%16 == 6 && spec.TimeLimitMs == 0 && !w.draw.Limits {
		spec.TimeLimitMs = run.run.Milliseconds() * 3 / 4
	}
	ahead := 20 * time.Second
	if limit := time.Duration(spec.TimeLimitMs) * time.Millisecond; limit > 0 {
		ahead = min(ahead, limit)
	}
	spec.Warn = &messages.WarnSpec{Signal: 1, AheadMs: max(ahead.Milliseconds(), 1)}
	run.heeds = run.saves
}

// warnedOf is an end for which a task was signalled.
type warnedOf struct {
	cause messages.Cause
	of    int64
	idle  bool
}

// warn warns a task of its end, as its supervisor would. The warning outlives agents, and is signalled once per end.
func (l *launcher) warn(c *messages.WarnTask, agent *process, to *actor.PID) {
	t := l.known(c.Id.Key(), agent, to)
	if t == nil || t.state != taskRunning {
		return
	}
	t.notice = c
	end := warnedOf{c.Cause, c.Of, c.IdleMs > 0}
	signalled := (c.Cause != messages.Cause_CAUSE_UNSPECIFIED || end.idle) && !t.told && !slices.Contains(t.warned, end)
	if end.idle {
		idle := time.Duration(c.IdleMs) * time.Millisecond
		signalled = signalled && c.Signal != 0 && (t.idleTold == 0 || l.w.engine.now.since(t.idleTold) > idle)
		t.idleTold = l.w.engine.now
	}
	if signalled {
		t.warned = append(t.warned, end)
	}
	l.w.seen(Event{Kind: TaskTold, Machine: l.m, Task: t, Message: c})
	agent.tell(to, &messages.TaskWarned{Id: c.Id, Number: c.Number})
	l.request(c, t)
	if signalled && t.heeds {
		l.later(t, l.w.chance.skewed(2*time.Millisecond, 3*time.Second), func() { l.exited(t, 0, false) })
	}
}

// Told returns the warnings that the tasks on a node received.
func (w *World) Told(number int) (all []string) {
	for _, t := range w.at(number).launcher.order {
		if t.state != taskRunning || t.notice == nil {
			continue
		}
		if t.notice.Cause == messages.Cause_CAUSE_UNSPECIFIED {
			word := "nothing"
			if t.notice.IdleMs > 0 {
				word = "idle"
			}
			all = append(all, fmt.Sprintf("%s/%d %s, signals=%d", t.job, t.key.Rank, word, len(t.warned)))
			continue
		}
		word := strings.ToLower(strings.TrimPrefix(t.notice.Cause.String(), "CAUSE_"))
		all = append(all, fmt.Sprintf("%s/%d %s, signals=%d", t.job, t.key.Rank, word, len(t.warned)))
	}
	return all
}
