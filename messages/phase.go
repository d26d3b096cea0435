package messages

import "strings"

// This file owns the words for where a job or a machine stands, as people and programs read them.

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

// PhaseOf is a phase as somebody may have written it: Timed_Out and `timed out` are timed-out.
func PhaseOf(text string) string {
	return strings.NewReplacer(" ", "-", "_", "-").Replace(strings.ToLower(text))
}

// EndWords say how a job ended: its phase, and what stands in its record of it, which may begin with the phase itself.
func EndWords(job *JobRecord) string {
	phase := EndPhase(job.GetState())
	switch said := job.GetOutcome(); {
	case said == "":
		return phase
	case strings.HasPrefix(said, phase):
		return said
	default:
		return phase + ": " + said
	}
}

// AlreadyEnded refuses a wish about a job that is over.
func AlreadyEnded(job *JobRecord) *Outcome {
	return &Outcome{
		Code: Code_CODE_CONFLICT, Field: "job", Text: "the job has already ended: " + EndWords(job),
		Hint: "submit it again to run it again",
	}
}
