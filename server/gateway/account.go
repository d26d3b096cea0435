package gateway

import (
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
)

// This file computes the usage of a finished job: its resources, for how long, and how it ended. All values follow
// from the records of the job and its attempts. There is no second record that could differ.
//
// A GPU counts from COMMIT, when no other job could get it, until its task was gone. A task without an exit
// confirmation counts until the end of its attempt was decided. The time after the loss of a node does not count
// for the job.

// account computes the usage of one job.
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

// accountAttempt computes the usage of one attempt. overUnixMs is the time by the leader's clock at which the
// attempt was over: the job finished, or the next attempt was committed.
func accountAttempt(a *messages.AttemptRecord, overUnixMs int64) *messages.PastAttempt {
	end := a.GetEnd()
	try := &messages.PastAttempt{
		Token: a.GetToken(), Run: a.GetRun(),
		CommittedUnixMs: a.GetCommittedUnixMs(), StartedUnixMs: a.GetStartedUnixMs(), EndedUnixMs: end.GetAtUnixMs(),
		Cause: end.GetCause(), Detail: end.GetDetail(), FailedRank: end.GetRank(), FailedNode: end.GetNode(),
		Members: int32(len(a.GetPlaces())), Told: a.GetTold(),
		Verdict: a.GetVerdict().Brief(), Saved: a.GetSaved(), Missed: a.GetMissed(), RanMs: end.GetRanMs(),
		Inherited: a.GetInherited(), StoppingMs: a.GetStoppingMs(), PreparingMs: a.GetPreparingMs(),
	}
	if end == nil {
		try.FailedRank = -1
	}
	seen, all, measured := map[string]bool{}, true, len(a.GetPlaces()) > 0
	for _, p := range a.GetPlaces() {
		if !seen[p.GetNode()] {
			seen[p.GetNode()] = true
			try.Nodes = append(try.Nodes, p.GetNode())
		}
		gpu, exit := p.GetGrant().GetAmount().GetMilliGpu(), p.GetExit()
		try.MilliGpu += gpu
		try.MilliGpuMs += gpu * (goneUnixMs(a, exit, overUnixMs) - a.GetCommittedUnixMs())
		try.CpuMs, measured = try.CpuMs+exit.GetCpuMs(), measured && exit.GetCpuMs() > 0
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
	if !measured {
		try.CpuMs = 0
	}
	return try
}

// goneUnixMs returns the time at which a task was gone. The time is never before COMMIT and never after overUnixMs.
// By then every task on a reachable node had ended. A node with a wrong clock therefore has a limited effect.
func goneUnixMs(a *messages.AttemptRecord, exit *messages.Exit, overUnixMs int64) int64 {
	if at := exit.GetAtUnixMs(); at >= a.GetCommittedUnixMs() {
		return max(min(at, overUnixMs), a.GetCommittedUnixMs())
	}
	return max(a.GetEnd().GetAtUnixMs(), a.GetCommittedUnixMs())
}
