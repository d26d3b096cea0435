package messages

import (
	"cmp"
	"strings"
	"time"
)

// This file owns the words for where a job or a machine stands, as people and programs read them, and for what became
// of a wish.

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
	PhaseDamaged   = "damaged" // its record cannot be read
	PhaseSucceeded = "succeeded"
	PhaseFailed    = "failed"
	PhaseCancelled = "cancelled"
	PhaseTimedOut  = "timed-out"
)

// Phases are all of them, in the order of a job's life.
var Phases = []string{
	PhaseQueued, PhaseHeld, PhaseReserving, PhaseDeciding, PhaseStarting, PhaseRunning, PhaseStopping, PhaseClosing,
	PhaseDamaged, PhaseSucceeded, PhaseFailed, PhaseCancelled, PhaseTimedOut,
}

// The phases of a machine.
const (
	NodeUp      = "up"
	NodeDead    = "dead"
	NodeUnknown = "unknown" // not heard since this leader took over
)

// EndPhase is the word for a state that is the end; empty for one that is not.
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

// Waits reports whether a job of this phase waits for its turn, or for somebody to let it.
func Waits(phase string) bool { return phase == PhaseQueued || phase == PhaseHeld }

// BeginsAt is why a job waits that begins later.
func BeginsAt(spec *JobSpec) string {
	return "begins at " + clockOf(spec.GetBeginUnixMs())
}

// ClosesAt says that a machine is to be drained later.
func ClosesAt(r *NodeRecord) string {
	return "closes at " + clockOf(r.GetClosesUnixMs()) + ", by " + r.GetClosing().GetBy().GetName() + ": " +
		r.GetClosing().GetReason()
}

// clockOf is a time of day that people read, wherever they are.
func clockOf(unixMs int64) string { return time.UnixMilli(unixMs).UTC().Format(time.RFC3339) }

// PhaseOf is a phase as somebody may have written it: Timed_Out and `timed out` are timed-out.
func PhaseOf(text string) string {
	return strings.NewReplacer(" ", "-", "_", "-").Replace(strings.ToLower(text))
}

// Explain says in a sentence where a job stands, and why.
func Explain(job *JobStatus) string {
	return job.GetRecord().GetId() + ": " +
		phaseWords(job.GetPhase(), cmp.Or(job.GetReason(), job.GetRecord().GetOutcome()))
}

// phaseWords are a phase and why, which may begin with the phase itself.
func phaseWords(phase, why string) string {
	switch {
	case why == "":
		return phase
	case strings.HasPrefix(strings.ToLower(why), phase):
		return why
	}
	return phase + ": " + why
}

// OK is the outcome of what went well.
func OK() *Outcome { return &Outcome{Code: Code_CODE_OK} }

// AlreadyEnded refuses a wish about a job that is over.
func AlreadyEnded(job *JobRecord) *Outcome {
	how := phaseWords(EndPhase(job.GetState()), job.GetOutcome())
	return &Outcome{
		Code: Code_CODE_CONFLICT, Field: "job", Text: "job has already ended: " + how,
		Hint: "submit the job again",
	}
}
