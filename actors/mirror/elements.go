package mirror

import (
	"strconv"

	"github.com/yi-json/synapse/messages"
)

// This file owns the status of array elements that are not jobs: elements that will become jobs, and elements that
// never did. The array's record holds all that is known about them. An element that is a job may still wait for the
// concurrency limit of its array.

// unborn returns the status of an array element that is not a job yet or never was one. It returns nil for any other
// ID, and for an element whose job is in the store.
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

// mayBeNext returns the reason why an element cannot become a job yet.
func mayBeNext(array *messages.JobStatus) messages.Reason {
	counts := array.GetCounts()
	if most := array.GetRecord().GetSpec().GetArray().GetMost(); most > 0 && counts.GetRunning() >= most {
		return messages.WaitArrayLimit.Because(strconv.Itoa(int(counts.GetRunning())) + " of at most " +
			strconv.Itoa(int(most)) + " elements run")
	}
	return messages.WaitPriority.Because("earlier elements of the array go first", counts.Words())
}

// throttled returns the array of an element if that array limits how many elements run at once. Otherwise it returns
// nil.
func (m *Mirror) throttled(element *messages.Element) *messages.JobStatus {
	if array, ok := m.jobs.get(element.GetArray()); ok && array.GetRecord().GetSpec().GetArray().GetMost() > 0 {
		return array.JobStatus
	}
	return nil
}
