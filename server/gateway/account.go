package gateway

import (
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
)

// This file owns the account of a job that is over: what it had, for how long,
// and how it ended. All of it follows from the records of the job and its
// attempts, so there are no books beside them that could differ.
//
// A GPU is accounted for from COMMIT, when nobody else could have it any more,
// until its member was gone. A member that left no evidence counts until its
// attempt's end was decided: what a lost machine does afterwards does not count for the job.

// account makes the account of one job.
func account(past *store.PastJob, ranks bool) *messages.PastJob {
	r, spec := past.Job, past.Job.GetSpec()
	one := &messages.PastJob{
		Id: r.GetId(), Name: spec.GetName(), Title: spec.GetTitle(), Labels: spec.GetLabels(),
		Owner: r.GetOwner().GetName(), Queue: spec.GetQueue(), Priority: spec.GetPriority(),
		State: r.GetState(), ExitCode: r.GetExitCode(), Reason: r.GetOutcome(), Cancel: r.GetCancel(),
		SubmittedUnixMs: r.GetSubmittedUnixMs(), FinishedUnixMs: r.GetFinishedUnixMs(),
		Runs: r.GetRuns(), Failures: r.GetFailures(), InfraRestarts: r.GetInfraRestarts(),
		TimeLimitMs: spec.GetTimeLimitMs(), Gang: spec.GetGang(), Each: spec.GetEach(),
	}
	for i, a := range past.Attempts {
		over := r.GetFinishedUnixMs()
		if i+1 < len(past.Attempts) {
			over = past.Attempts[i+1].GetCommittedUnixMs()
		}
		try := accountAttempt(a, max(over, a.GetEnd().GetAtUnixMs()))
		if ranks {
			try.Places = a.GetPlaces()
		}
		if one.StartedUnixMs == 0 {
			one.StartedUnixMs = try.StartedUnixMs
		}
		one.MilliGpuMs += try.MilliGpuMs
		one.Attempts = append(one.Attempts, try)
	}
	return one
}

// accountAttempt makes the account of one attempt that was over at this moment by the leader's clock: the job ended
// then, or its next attempt was committed.
func accountAttempt(a *messages.AttemptRecord, overUnixMs int64) *messages.PastAttempt {
	end := a.GetEnd()
	try := &messages.PastAttempt{
		Token: a.GetToken(), Run: a.GetRun(),
		CommittedUnixMs: a.GetCommittedUnixMs(), StartedUnixMs: a.GetStartedUnixMs(), EndedUnixMs: end.GetAtUnixMs(),
		Cause: end.GetCause(), Detail: end.GetDetail(), FailedRank: end.GetRank(), FailedNode: end.GetNode(),
		Members: int32(len(a.GetPlaces())), Told: a.GetTold(),
	}
	if end == nil {
		try.FailedRank = -1
	}
	seen, all := map[string]bool{}, true
	for _, p := range a.GetPlaces() {
		if !seen[p.GetNode()] {
			seen[p.GetNode()] = true
			try.Nodes = append(try.Nodes, p.GetNode())
		}
		gpu, exit := p.GetGrant().GetAmount().GetMilliGpu(), p.GetExit()
		try.MilliGpu += gpu
		try.MilliGpuMs += gpu * (goneUnixMs(a, exit, overUnixMs) - a.GetCommittedUnixMs())
		try.PeakMemoryBytes = max(try.PeakMemoryBytes, exit.GetPeakMemoryBytes())
		try.GoneUnixMs = max(try.GoneUnixMs, min(exit.GetAtUnixMs(), overUnixMs))
		all = all && exit != nil
		if exit != nil && p.GetRank() == try.FailedRank {
			try.ExitCode, try.Signal = exit.GetCode(), exit.GetSignal()
		}
	}
	if !all {
		try.GoneUnixMs = 0
	}
	return try
}

// goneUnixMs is when a member was gone: never before COMMIT, and never later than
// its attempt was over, since that takes the end of every member on a machine that
// can be reached. A machine whose clock is far off cannot say when: the leader's own clock counts.
func goneUnixMs(a *messages.AttemptRecord, exit *messages.Exit, overUnixMs int64) int64 {
	if at := exit.GetAtUnixMs(); at >= a.GetCommittedUnixMs() {
		return max(min(at, overUnixMs), a.GetCommittedUnixMs())
	}
	return max(a.GetEnd().GetAtUnixMs(), a.GetCommittedUnixMs())
}
