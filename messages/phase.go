package messages

import (
	"strings"
	"time"
)

// This file has the names of the phases of jobs and nodes, and related texts.

// The phases of a job.
const (
	PhaseQueued    = "queued"
	PhaseHeld      = "held"
	PhaseReserving = "reserving"
	PhaseDeciding  = "deciding"
	PhaseStarting  = "starting"
	PhaseRunning   = "running"
	PhaseStopping  = "stopping"
	PhaseClosing   = "closing"
	PhaseDamaged   = "damaged" // the record cannot be read
	PhaseSucceeded = "succeeded"
	PhaseFailed    = "failed"
	PhaseCancelled = "cancelled"
	PhaseTimedOut  = "timed-out"
)

// Phases lists all phases of a job, in the order of its life.
var Phases = []string{
	PhaseQueued, PhaseHeld, PhaseReserving, PhaseDeciding, PhaseStarting, PhaseRunning, PhaseStopping, PhaseClosing,
	PhaseDamaged, PhaseSucceeded, PhaseFailed, PhaseCancelled, PhaseTimedOut,
}

// The phases of a node.
const (
	NodeUp      = "up"
	NodeDead    = "dead"
	NodeUnknown = "unknown" // no contact since this leader took over
)

// EndPhase returns the phase for a final state, and "" for any other state.
func EndPhase(s JobState) string {
	switch s {
	case JobState_JOB_STATE_SUCCEEDED:
		return PhaseSucceeded
	case JobState_JOB_STATE_FAILED:
		return PhaseFailed
	case JobState_JOB_STATE_CANCELLED:
		return PhaseCancelled
	case JobState_JOB_STATE_TIMED_OUT:
		return PhaseTimedOut
	}
	return ""
}

// Waits reports whether a job of this phase waits to be started or released.
func Waits(phase string) bool { return phase == PhaseQueued || phase == PhaseHeld }

// BeginsAt returns the reason of a job that waits for its earliest start.
func BeginsAt(spec *JobSpec) string {
	return "begins at " + clockOf(spec.GetBeginUnixMs())
}

// ClosesAt returns the text for a planned drain.
func ClosesAt(r *NodeRecord) string {
	return "closes at " + clockOf(r.GetClosesUnixMs()) + ", by " + r.GetClosing().GetBy().GetName() + ": " +
		r.GetClosing().GetReason()
}

// clockOf formats a time in UTC.
func clockOf(unixMs int64) string { return time.UnixMilli(unixMs).UTC().Format(time.RFC3339) }

// PhaseOf normalizes a phase that a user has written: Timed_Out and `timed out` become timed-out.
func PhaseOf(text string) string {
	return strings.NewReplacer(" ", "-", "_", "-").Replace(strings.ToLower(text))
}

// phaseWords joins a phase and a reason. It omits the phase if the reason begins with it.
func phaseWords(phase, why string) string {
	switch {
	case why == "":
		return phase
	case strings.HasPrefix(strings.ToLower(why), phase):
		return why
	}
	return phase + ": " + why
}

// OK returns the outcome of a successful request.
func OK() *Outcome { return &Outcome{Code: Code_CODE_OK} }

// AlreadyEnded returns the outcome of a request for a job that has already ended.
func AlreadyEnded(job *JobRecord) *Outcome {
	how := phaseWords(EndPhase(job.GetState()), job.GetOutcome())
	return &Outcome{
		Code: Code_CODE_CONFLICT, Field: "job", Text: "job has already ended: " + how,
		Hint: "submit the job again",
	}
}
