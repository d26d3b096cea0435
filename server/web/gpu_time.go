package web

import "github.com/yi-json/synapse/messages"

// This file computes the GPU time that a job has used and lost, for its page.

// gpuTime returns the GPU time of an attempt, and how much of it was lost. Like the accounting, it counts from the
// commit until each task has ended, and an attempt that ends by a failure, a lost node or a preemption loses all work.
// Earlier attempts have no ranks, so the requested amount counts.
func gpuTime(spec *messages.JobSpec, a *messages.AttemptRecord, now int64) (used, lost int64) {
	end := now
	if a.GetEnd() != nil {
		end = a.GetEnd().GetAtUnixMs()
	}
	add := func(milli, until int64) {
		used += milli * max(until-a.GetCommittedUnixMs(), 0)
		if a.GetEnd() != nil && a.GetStartedUnixMs() > 0 && a.GetEnd().GetCause().LosesWork() {
			lost += milli * max(min(until-a.GetStartedUnixMs(), until-a.GetSaved().GetAtUnixMs()), 0)
		}
	}
	if a.GetCommittedUnixMs() == 0 {
		return 0, 0
	}
	for _, p := range a.GetPlaces() {
		until := end
		if at := p.GetExit().GetAtUnixMs(); at > 0 {
			until = min(until, at)
		}
		add(p.GetGrant().GetAmount().GetMilliGpu(), until)
	}
	if len(a.GetPlaces()) == 0 {
		add(messages.Asked(spec, (*messages.Resources).GetMilliGpu), end)
	}
	return used, lost
}
