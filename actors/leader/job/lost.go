package job

import (
	"strings"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
)

// This file owns what an attempt loses at its end: the request to save that its gang did not acknowledge, and the
// counters of requests, their results, and lost work.

// These are the prefixes and names of the counters of requests to save.
const (
	CountAsked   = "checkpoint.asked."   // the reason follows
	CountResult  = "checkpoint.result."  // a result follows
	CountIgnored = "checkpoint.ignored." // why an acknowledgement was ignored follows
	CountLostMs  = "checkpoint.lost_ms." // the result of the last request follows, or "unasked"

	resultSaved     = "acknowledged"
	resultLate      = "late"
	resultEnded     = "ended"
	resultWithdrawn = "withdrawn"
)

// askedBy returns the reason of a request, as it is counted.
func askedBy(cause messages.Cause) string {
	if cause == messages.Cause_CAUSE_UNSPECIFIED {
		return "user"
	}
	return strings.ReplaceAll(messages.Word(cause.String(), "CAUSE_"), " ", "_")
}

// close ends the request, and counts its result.
func (j *Job) close(state messages.SaveState) {
	j.saving.state = state
	switch state {
	case messages.SaveState_SAVE_STATE_SAVED:
		j.p.Host.Count(CountResult+resultSaved, 1)
	case messages.SaveState_SAVE_STATE_FAILED:
		j.p.Host.Count(CountResult+resultLate, 1)
	case messages.SaveState_SAVE_STATE_WITHDRAWN:
		j.p.Host.Count(CountResult+resultWithdrawn, 1)
	}
}

// missed returns the request that the gang did not acknowledge before this end of the attempt. It returns nil if there
// is none, or if the work is not needed any more.
func (j *Job) missed(end *messages.End) *messages.MissedSave {
	s, late := &j.saving, j.saving.state == messages.SaveState_SAVE_STATE_FAILED
	switch {
	case !s.open() && !late, late && s.end.cause == messages.Cause_CAUSE_UNSPECIFIED,
		end.Cause == messages.Cause_CAUSE_SUCCEEDED, end.Cause == messages.Cause_CAUSE_CANCELLED:
		return nil
	}
	m := &messages.MissedSave{Request: s.request, Cause: s.end.cause, Late: late, Rank: -1, Problem: s.problem}
	for _, p := range j.att.Places {
		if !j.rec.Spec.GetCheckpoint().NeedsSaved(p.Rank) {
			continue
		}
		m.Required++
		if r := s.ranks[p.Rank]; r.GetExited() || len(r.GetSteps()) > 0 || p.Exit.GetSaved() {
			m.Acknowledged++
		} else if m.Rank < 0 {
			m.Rank = p.Rank
		}
	}
	return m
}

// countLost counts the lost work of an attempt whose end is on disk, if its job saves on request.
func (j *Job) countLost(a *messages.AttemptRecord) {
	if j.rec.Spec.GetCheckpoint() == nil || !a.End.Cause.LosesWork() && a.Missed == nil {
		return
	}
	result := "unasked"
	switch m := a.Missed; {
	case m == nil && a.Saved.GetRequest() == j.saving.request && a.Saved != nil:
		result = resultSaved
	case m.GetLate():
		result = resultLate
	case m != nil:
		result = resultEnded
		j.p.Host.Count(CountResult+resultEnded, 1)
	}
	if ms, known := messages.LostAfter(a.End.RanMs, a.Saved); known {
		j.p.Host.Count(CountLostMs+result, ms)
	}
}

// recallSaved computes when the gang acknowledged its last checkpoint under an earlier leader.
func (j *Job) recallSaved() {
	if ran := j.att.GetSaved().GetRanMs(); j.saving.at == 0 && ran > 0 {
		j.saving.at = min(j.limitFrom.Plus(j.before+actors.Millis(ran)), j.p.Clock.Now())
	}
}
