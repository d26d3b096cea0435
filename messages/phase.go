package messages

import "strings"

// This file owns the words for where a job stands, as people and programs read them.

// Phases are all of them, in the order of a job's life.
var Phases = []string{
	"queued", "held", "reserving", "deciding", "starting", "running", "stopping", "closing", "damaged",
	"succeeded", "failed", "cancelled", "timed-out",
}

// EndPhase is the word for a state that is the end; empty for one that is not.
func EndPhase(s JobState) string {
	switch s {
	case JobState_JOB_STATE_SUCCEEDED:
		return "succeeded"
	case JobState_JOB_STATE_FAILED:
		return "failed"
	case JobState_JOB_STATE_CANCELLED:
		return "cancelled"
	case JobState_JOB_STATE_TIMED_OUT:
		return "timed-out"
	}
	return ""
}

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
