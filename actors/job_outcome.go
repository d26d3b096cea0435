package actors

import (
	"fmt"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns what an attempt's end means for the job: success, failure,
// another try, and in which words.

// verdictOf derives how an attempt ended from the evidence: success when every
// member exited 0, else the first member that failed by time, ties by rank; nil
// while neither is known.
func verdictOf(a *messages.AttemptRecord) *messages.End {
	var first *messages.Place
	open := false
	for _, p := range a.Places {
		switch {
		case p.Exit == nil:
			open = true
		case !succeeded(p.Exit) && (first == nil || p.Exit.AtUnixMs < first.Exit.AtUnixMs):
			first = p
		}
	}
	switch {
	case first != nil:
		return &messages.End{Cause: causeOf(first.Exit), Rank: first.Rank, Node: first.Node, Detail: failureWords(first)}
	case open:
		return nil
	}
	return &messages.End{Cause: messages.Cause_CAUSE_SUCCEEDED, Rank: -1}
}

func succeeded(e *messages.Exit) bool {
	return e.Kind == messages.ExitKind_EXIT_KIND_EXITED && e.Code == 0
}

func causeOf(e *messages.Exit) messages.Cause {
	switch e.Kind {
	case messages.ExitKind_EXIT_KIND_LAUNCH_FAILED:
		return messages.Cause_CAUSE_LAUNCH_FAILED
	case messages.ExitKind_EXIT_KIND_PREPARE_FAILED:
		return messages.Cause_CAUSE_PREPARE_FAILED
	case messages.ExitKind_EXIT_KIND_REBOOTED:
		return messages.Cause_CAUSE_REBOOTED
	case messages.ExitKind_EXIT_KIND_REMOVED:
		return messages.Cause_CAUSE_REMOVED
	case messages.ExitKind_EXIT_KIND_SUPERVISOR_LOST, messages.ExitKind_EXIT_KIND_NEVER_STARTED:
		return messages.Cause_CAUSE_MACHINE_LOST
	}
	return messages.Cause_CAUSE_MEMBER_FAILED
}

func failureWords(p *messages.Place) string {
	e := p.Exit
	words := fmt.Sprintf("rank %d on %s ", p.Rank, p.Node)
	switch {
	case e.Oom:
		words += "ran out of memory"
	case e.Kind != messages.ExitKind_EXIT_KIND_EXITED:
		words += wordOf(e.Kind.String(), "EXIT_KIND_")
	case e.Signal != 0:
		words += fmt.Sprintf("was ended by signal %d", e.Signal)
	default:
		words += fmt.Sprintf("exited with code %d", e.Code)
	}
	if e.Detail != "" {
		words += ": " + e.Detail
	}
	return words
}

// wordOf is a value of an enumeration as people say it.
func wordOf(name, prefix string) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, prefix)), "_", " ")
}

// closeAttempt decides what follows an attempt that has ended.
func (j *Job) closeAttempt(rec *messages.JobRecord, a *messages.AttemptRecord) {
	now := j.p.Clock.WallMs()
	if a.StartedUnixMs > 0 {
		rec.RanMs += max(a.End.AtUnixMs-a.StartedUnixMs, 0)
	}
	switch {
	case a.End.Cause == messages.Cause_CAUSE_SUCCEEDED:
		conclude(rec, messages.JobState_JOB_STATE_SUCCEEDED, 0, "", now)
	case rec.Cancel != nil:
		conclude(rec, messages.JobState_JOB_STATE_CANCELLED, 0, wordsOfCancel(rec.Cancel), now)
	case a.End.Cause == messages.Cause_CAUSE_TIME_LIMIT:
		conclude(rec, messages.JobState_JOB_STATE_TIMED_OUT, 0, a.End.Detail, now)
	case a.End.Cause == messages.Cause_CAUSE_MEMBER_FAILED:
		j.closeFailed(rec, a, now)
	case a.End.Cause == messages.Cause_CAUSE_REQUEUED:
		j.waitAgain(rec, a, now)
	case a.End.Cause == messages.Cause_CAUSE_PREPARE_FAILED && faultOf(a) == messages.Fault_FAULT_JOB,
		a.End.Cause == messages.Cause_CAUSE_LAUNCH_FAILED && faultOf(a) == messages.Fault_FAULT_JOB:
		conclude(rec, messages.JobState_JOB_STATE_FAILED, 1, a.End.Detail, now) // no other try can end otherwise
	default:
		j.closeInfra(rec, a, now)
	}
}

func wordsOfCancel(cancel *messages.Deed) string {
	return strings.TrimSuffix("cancelled: "+cancel.Reason, ": ")
}

// closeFailed counts against the job's own limit, and backs off.
func (j *Job) closeFailed(rec *messages.JobRecord, a *messages.AttemptRecord, now int64) {
	rec.Failures++
	restart := rec.Spec.GetRestart()
	if rec.Failures > restart.GetLimit() {
		conclude(rec, messages.JobState_JOB_STATE_FAILED, exitCodeOf(a), a.End.Detail, now)
		return
	}
	wait := time.Duration(restart.GetBackoffMs()) * time.Millisecond
	for range min(rec.Failures-1, 30) {
		wait = min(2*wait, j.p.Constants.BackoffCap)
	}
	rec.State = messages.JobState_JOB_STATE_QUEUED
	rec.NotBeforeUnixMs = now + wait.Milliseconds()
}

// closeInfra counts what was not the job's fault against a cap of its own and
// keeps its place in the queue. A broken image looks like that too, on every
// machine it is tried on: so preparing is tried only a few times.
func (j *Job) closeInfra(rec *messages.JobRecord, a *messages.AttemptRecord, now int64) {
	rec.InfraRestarts++
	if c := a.End.Cause; c == messages.Cause_CAUSE_PREPARE_FAILED || c == messages.Cause_CAUSE_PREPARE_TIMEOUT {
		rec.PrepareFailures++
	}
	if int(rec.InfraRestarts) > j.p.Constants.InfraRestarts || int(rec.PrepareFailures) >= j.p.Constants.PrepareFailures {
		conclude(rec, messages.JobState_JOB_STATE_FAILED, 1, a.End.Detail, now)
		return
	}
	j.waitAgain(rec, a, now)
}

// waitAgain puts the job back into its place, from when nothing of the attempt
// can run any more.
func (j *Job) waitAgain(rec *messages.JobRecord, a *messages.AttemptRecord, now int64) {
	rec.State = messages.JobState_JOB_STATE_QUEUED
	rec.NotBeforeUnixMs = 0
	if a.Owes() && rec.Spec.StopWhenLostMs > 0 {
		rec.NotBeforeUnixMs = now + j.fencedIn(a).Milliseconds()
	}
}

// fencedIn is how long until the supervisors on machines that cannot be reached
// have surely stopped their tasks: they count from the last heartbeat that we
// acknowledged, which cannot be later than when we last heard them.
func (j *Job) fencedIn(a *messages.AttemptRecord) time.Duration {
	var latest Instant
	for _, p := range a.Places {
		if s := j.seats[topology.NodeID(p.Node)]; p.Exit == nil {
			latest = max(latest, s.since)
		}
	}
	return max(latest.Plus(fenceWait(j.rec.Spec, j.p.Constants)).Since(j.p.Clock.Now()), 0)
}

// fenceWait is stopWhenLost and the grace after it, and 1% for clocks that drift.
func fenceWait(spec *messages.JobSpec, c Constants) time.Duration {
	wait := time.Duration(spec.StopWhenLostMs)*time.Millisecond + graceOf(spec, c)
	return wait + wait/100
}

func graceOf(spec *messages.JobSpec, c Constants) time.Duration {
	if ms := spec.GetStop().GetGraceMs(); ms > 0 {
		return time.Duration(ms) * time.Millisecond
	}
	return c.StopGrace
}

func exitCodeOf(a *messages.AttemptRecord) int32 {
	for _, p := range a.Places {
		if p.Rank == a.End.Rank && p.Exit != nil && p.Exit.Code != 0 {
			return p.Exit.Code
		}
	}
	return 1
}

func conclude(rec *messages.JobRecord, s messages.JobState, code int32, outcome string, now int64) {
	rec.State, rec.ExitCode, rec.Outcome, rec.FinishedUnixMs = s, code, outcome, now
}

// blame tells the Scheduler of a machine that could not launch or prepare.
func (j *Job) blame(ctx actor.Context) {
	end := j.last.End
	switch end.Cause {
	case messages.Cause_CAUSE_LAUNCH_FAILED, messages.Cause_CAUSE_PREPARE_FAILED:
		if fault := faultOf(j.last); fault != messages.Fault_FAULT_JOB {
			ctx.Send(j.peers.scheduler, launchFailed{
				Node: topology.NodeID(end.Node), Detail: end.Detail, Fault: fault,
				Spec: string(j.rec.RequestHash), Owner: j.rec.GetOwner().GetName(),
			})
		}
	}
}

// faultOf is whose fault it is that an attempt could not be prepared or
// launched. One member whose job is wrong is enough: they are all of that job.
func faultOf(a *messages.AttemptRecord) messages.Fault {
	fault := messages.Fault_FAULT_UNKNOWN
	for _, p := range a.Places {
		switch {
		case p.Exit.GetFault() == messages.Fault_FAULT_JOB:
			return messages.Fault_FAULT_JOB
		case p.Rank == a.End.Rank && p.Exit.GetFault() == messages.Fault_FAULT_MACHINE:
			fault = messages.Fault_FAULT_MACHINE
		}
	}
	return fault
}

func (j *Job) logEnd() {
	if j.rec.State == messages.JobState_JOB_STATE_SUCCEEDED {
		j.p.Log.Info("Job %s finished successfully", j.id)
		return
	}
	j.p.Log.Info("Job %s %s: %s", j.id, messages.EndPhase(j.rec.State), j.rec.Outcome)
}

// nodeList names the machines of an attempt in rank order, each once.
func nodeList(a *messages.AttemptRecord) string {
	var names []string
	for _, p := range a.Places {
		if len(names) == 0 || names[len(names)-1] != p.Node {
			names = append(names, p.Node)
		}
	}
	return strings.Join(names, ", ")
}
