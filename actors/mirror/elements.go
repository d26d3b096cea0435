package mirror

import (
	"strconv"

	"github.com/yi-json/synapse/messages"
)

// This file owns what is shown of an array's elements that are no jobs: those that are yet to be, and those that never
// were. All that is known of them is in the array's record. One that is a job may yet have to wait for others of its
// array, as those do.

// unborn is such an element; nil: it is none, or it was a job and the store knows more.
func (m *Mirror) unborn(id string) *messages.JobStatus {
	array, index, is := messages.ArrayOf(id)
	s, ok := m.jobs.get(array)
	place := s.GetRecord().GetSpec().GetArray().Place(index)
	if !is || !ok || place < 0 {
		return nil
	}
	of := s.GetRecord()
	rec := of.ElementRecord(index)
	if state, ended := of.GetArray().EndedAt(place); ended {
		if _, never := of.GetArray().Unborn(place); !never {
			return nil
		}
		rec.Outcome, rec.FinishedUnixMs = "cancelled before it was a job", of.FinishedUnixMs
		return &messages.JobStatus{Record: rec, Phase: messages.EndPhase(state), Reason: rec.Outcome}
	}
	status := &messages.JobStatus{Record: rec, Phase: messages.PhaseQueued}
	switch hold := of.GetHold(); {
	case hold != nil || messages.InRanges(of.GetArray().GetHeld(), place):
		status.Phase = messages.PhaseHeld
		status.Because(messages.HeldInArray(array))
	case len(of.Awaits()) > 0:
		status.Because(m.depends(of.Awaits()))
	default:
		status.Because(mayBeNext(s.JobStatus))
	}
	return status
}

// mayBeNext returns the reason why an element waits before it waits for capacity.
func mayBeNext(array *messages.JobStatus) messages.Reason {
	counts := array.GetCounts()
	if most := array.GetRecord().GetSpec().GetArray().GetMost(); most > 0 && counts.GetRunning() >= most {
		return messages.WaitArrayLimit.Because(strconv.Itoa(int(counts.GetRunning())) + " of at most " +
			strconv.Itoa(int(most)) + " elements run")
	}
	return messages.WaitPriority.Because("earlier elements of the array go first", counts.Words())
}

// throttled is the array for whose limit an element may have to wait, though it is a job; nil: it has none.
func (m *Mirror) throttled(element *messages.Element) *messages.JobStatus {
	if array, ok := m.jobs.get(element.GetArray()); ok && array.GetRecord().GetSpec().GetArray().GetMost() > 0 {
		return array.JobStatus
	}
	return nil
}
