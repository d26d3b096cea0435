package messages

// This file decides which running jobs hold resources and do nothing. What is not known never counts as idle.

// IdleAfterMs is the time after which a job that does nothing is reported.
const IdleAfterMs = 30 * 60 * 1000

// Idle reports whether a running job has been known to do nothing for at least this time.
func Idle(s *JobStatus, afterMs int64) bool {
	return s.GetPhase() == PhaseRunning && s.GetUse().GetTasks() > 0 && s.Use.IdleMs > 0 && s.Use.IdleMs >= afterMs
}

// IdleMilliGPUMs returns the GPU time that a job has held since it became idle, in thousandths of a GPU times
// milliseconds.
func IdleMilliGPUMs(s *JobStatus) int64 {
	return Asked(s.GetRecord().GetSpec(), (*Resources).GetMilliGpu) * s.GetUse().GetIdleMs()
}
