package mirror

import (
	"strconv"

	"github.com/yi-json/synapse/messages"
)

// This file owns what is shown of an array's elements that are no jobs: those that are yet to be, and those that never
// were. All that is known of them is in the array's record.

// unborn is such an element; nil: it is none, or it was a job and the store knows more.
func (m *Mirror) unborn(id string) *messages.JobStatus {
	array, index, is := messages.ArrayOf(id)
	s, ok := m.jobs.get(array)
	place := s.GetRecord().GetSpec().GetArray().Place(index)
	if !is || !ok || place < 0 {
		return nil
	}
	of := s.GetRecord()
	rec := &messages.JobRecord{
		Id: id, Spec: of.Spec.ElementSpec(array, index), Owner: of.Owner, SubmittedUnixMs: of.SubmittedUnixMs,
		Arrival: of.Arrival, State: messages.JobState_JOB_STATE_QUEUED,
	}
	of.GetArray().ChangedAt(place).On(rec.Spec)
	if state, ended := of.GetArray().EndedAt(place); ended {
		if _, never := of.GetArray().Unborn(place); !never {
			return nil
		}
		rec.State, rec.Outcome, rec.FinishedUnixMs = state, "cancelled before it was a job", of.FinishedUnixMs
		return &messages.JobStatus{Record: rec, Phase: messages.EndPhase(state), Reason: rec.Outcome}
	}
	status := &messages.JobStatus{Record: rec, Phase: messages.PhaseQueued}
	switch hold := of.GetHold(); {
	case hold != nil || messages.InRanges(of.GetArray().GetHeld(), place):
		status.Phase, status.Reason = messages.PhaseHeld, "held in its array "+array
	case len(of.Awaits()) > 0:
		status.Reason = messages.WaitsFor(of.Awaits(), m.phaseOf)
	default:
		status.Reason = "waits until it may be next of its array: " + array + " has " + s.GetCounts().Words()
		if most := of.GetSpec().GetArray().GetMost(); most > 0 {
			status.Reason += ", and " + strconv.Itoa(int(most)) + " at most are jobs at once"
		}
	}
	return status
}
