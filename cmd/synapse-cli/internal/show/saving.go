package show

import (
	"fmt"
	"strings"

	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/messages"
)

// This file formats the checkpoints of a job: the interval, the last request to save, and the last step that the gang
// acknowledged.

// checkpoints prints what is known about the checkpoints of a job.
func (p *page) checkpoints(j job) {
	p.line("Checkpoint", checkpoint(j.spec()))
	p.line("Saving", saving(j.JobStatus, j.now))
	p.line("Saved", saved(j.GetAttempt(), j.now))
}

func checkpoint(spec *messages.JobSpec) string {
	var parts []string
	if every := limit(spec.GetCheckpointMs()); every != "" {
		parts = append(parts, "every "+every)
	}
	if c := spec.GetCheckpoint(); c != nil {
		ask := "on request"
		if c.GetSignal() != 0 {
			ask += " by " + jobfile.SignalName(c.GetSignal())
		}
		parts = append(parts, fmt.Sprintf("%s, up to %s to save", ask, messages.Span(spec.SaveGrace().Milliseconds())))
	}
	return strings.Join(parts, "; ")
}

// saving describes the last request to save of a running attempt. It returns "" if there was none.
func saving(j *messages.JobStatus, now int64) string {
	s := j.GetSaving()
	if s == nil {
		return ""
	}
	why := "asked by a user"
	if s.GetCause() != messages.Cause_CAUSE_UNSPECIFIED {
		why = causeWord(s.GetCause())
	}
	if s.GetSubject() != "" {
		why += " (" + s.GetSubject() + ")"
	}
	text := fmt.Sprintf("%s, %s", why, when(s.GetAskedUnixMs(), now))
	switch s.GetState() {
	case messages.SaveState_SAVE_STATE_OPEN:
		text += fmt.Sprintf("; %d of %d ranks acknowledged, stops at the latest %s", len(s.GetRanks()), needed(j),
			stamp(s.GetDeadlineUnixMs()))
	case messages.SaveState_SAVE_STATE_SAVED:
		text += fmt.Sprintf("; saved step %d", s.GetStep())
	case messages.SaveState_SAVE_STATE_FAILED:
		text += fmt.Sprintf("; failed, %d of %d ranks acknowledged", len(s.GetRanks()), needed(j))
	case messages.SaveState_SAVE_STATE_WITHDRAWN:
		text += "; withdrawn"
	}
	if s.GetProblem() != "" {
		text += "; " + s.GetProblem()
	}
	return text
}

// needed returns the number of ranks that must acknowledge.
func needed(j *messages.JobStatus) (n int) {
	for _, p := range j.GetAttempt().GetPlaces() {
		if j.GetRecord().GetSpec().GetCheckpoint().NeedsSaved(p.GetRank()) {
			n++
		}
	}
	return n
}

// saved describes the last acknowledged checkpoint of an attempt, and the work after it that was lost.
func saved(a *messages.AttemptRecord, now int64) string {
	s := a.GetSaved()
	if s == nil {
		return ""
	}
	text := fmt.Sprintf("step %d of attempt %d, %s", s.GetStep(), a.GetRun(), when(s.GetAtUnixMs(), now))
	if lost := a.GetEnd().GetRanMs() - s.GetRanMs(); a.GetEnd() != nil && s.GetRanMs() > 0 && lost >= 0 {
		text += fmt.Sprintf("; %s of work after it lost", messages.Span(lost))
	}
	return text
}
