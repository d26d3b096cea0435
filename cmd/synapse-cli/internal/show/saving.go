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
	p.timed("Saving", saving(j.JobStatus, j.now))
	p.timed("Saved", saved(j.GetAttempt(), j.now))
	p.line("Not saved", missed(j.GetAttempt()))
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
	why := askedFor(s.GetCause())
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

// askedFor returns why a gang was asked to save.
func askedFor(cause messages.Cause) string {
	if cause == messages.Cause_CAUSE_UNSPECIFIED {
		return "asked by a user"
	}
	return causeWord(cause)
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
	lost, known := messages.LostAfter(a.GetEnd().GetRanMs(), s)
	if known && a.GetMissed() == nil && a.GetEnd().GetCause() != messages.Cause_CAUSE_SUCCEEDED {
		text += fmt.Sprintf("; %s of work after it lost", messages.Span(lost))
	}
	return text
}

// missed describes the request to save that the gang did not acknowledge before the end of an attempt, and its cost.
func missed(a *messages.AttemptRecord) string {
	m := a.GetMissed()
	if m == nil {
		return ""
	}
	until := "before the attempt ended"
	if m.GetLate() {
		until = "in time"
	}
	text := fmt.Sprintf("%s, %d of %d ranks acknowledged %s", askedFor(m.GetCause()), m.GetAcknowledged(),
		m.GetRequired(), until)
	switch {
	case m.GetRank() >= 0:
		text += fmt.Sprintf(", rank %d did not", m.GetRank())
	case m.GetRequired() > 1:
		text += ", with different steps"
	}
	if lost, known := messages.LostAfter(a.GetEnd().GetRanMs(), a.GetSaved()); known {
		text += fmt.Sprintf("; cost %s of work", messages.Span(lost))
	}
	if m.GetProblem() != "" {
		text += "; " + m.GetProblem()
	}
	return text
}

// savedObj is what JSON has about the checkpoints of an attempt.
type savedObj struct {
	Saved *savedStepObj  `json:"savedCheckpoint,omitempty"`
	Lost  *float64       `json:"lostSeconds,omitempty"` // run time whose work was lost; nil: none, or unknown
	Miss  *missedSaveObj `json:"missedCheckpoint,omitempty"`
}

type savedStepObj struct {
	Step int64  `json:"step"`
	At   string `json:"at"`
}

type missedSaveObj struct {
	Cause        string `json:"cause,omitempty"`
	Late         bool   `json:"late"`
	Acknowledged int32  `json:"acknowledged"`
	Required     int32  `json:"required"`
	Rank         *int32 `json:"rank,omitempty"` // first rank without an acknowledgement
	Problem      string `json:"problem,omitempty"`
}

func savedObject(s *messages.Saved, m *messages.MissedSave, cause messages.Cause, ranMs int64) (o savedObj) {
	if s != nil {
		o.Saved = &savedStepObj{s.GetStep(), stamp(s.GetAtUnixMs())}
	}
	lost, known := messages.LostAfter(ranMs, s)
	if known && (cause.LosesWork() || m != nil) {
		seconds := seconds(lost)
		o.Lost = &seconds
	}
	if m == nil {
		return o
	}
	o.Miss = &missedSaveObj{Late: m.GetLate(), Acknowledged: m.GetAcknowledged(), Required: m.GetRequired(),
		Problem: m.GetProblem()}
	if m.GetCause() != messages.Cause_CAUSE_UNSPECIFIED {
		o.Miss.Cause = causeWord(m.GetCause())
	}
	if rank := m.GetRank(); rank >= 0 {
		o.Miss.Rank = &rank
	}
	return o
}
