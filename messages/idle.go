package messages

import "cmp"

// This file decides which running jobs hold resources and do nothing. What is not known never counts as idle.

const (
	// IdleAfterMs is the time after which a job that does nothing is reported, if its queue sets no other time.
	IdleAfterMs = 30 * 60 * 1000
	// MinIdleAfterMs is the shortest time that a queue can set.
	MinIdleAfterMs = 60 * 1000
)

// Idle reports whether a running job has been known to do nothing for at least this time.
func Idle(s *JobStatus, afterMs int64) bool {
	return s.GetPhase() == PhaseRunning && s.GetUse().GetTasks() > 0 && s.Use.IdleMs > 0 && s.Use.IdleMs >= afterMs
}

// IdleMilliGPUMs returns the GPU time that a job has held since it became idle, in thousandths of a GPU times
// milliseconds.
func IdleMilliGPUMs(s *JobStatus) int64 {
	return Asked(s.GetRecord().GetSpec(), (*Resources).GetMilliGpu) * s.GetUse().GetIdleMs()
}

// IdleIn returns after which time a job of a queue that does nothing is reported, and whether its tasks are signalled
// then. An empty name is the queue of jobs that name none.
func (x *Queues) IdleIn(queue string) (afterMs int64, signal bool) {
	var after *int64
	var then IdleAction
	for _, q := range x.above(cmp.Or(queue, x.GetDefault())) {
		if after == nil {
			after = q.IdleAfterMs
		}
		then = cmp.Or(then, q.IdleThen)
	}
	if afterMs = IdleAfterMs; after != nil {
		afterMs = max(*after, MinIdleAfterMs)
	}
	return afterMs, then == IdleAction_IDLE_ACTION_SIGNAL
}
