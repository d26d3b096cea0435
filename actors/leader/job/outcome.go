package job

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/verdict"
	"github.com/yi-json/synapse/topology"
)

// This file owns the effect of an attempt's end on the job: success, failure or a retry, and the text about it.

// verdictOf derives the end of an attempt from the exit evidence. It is success if every member exited 0, otherwise the
// failure of the first member, with ties decided by rank. If a member saved a checkpoint and exited, and none failed,
// the attempt is requeued. It returns nil while nothing of this is known. Among failures that reach the disk together,
// the earliest counts, by the age that each node reports from its steady clock. If the text of a failure shows that it
// results from another one, it counts after the others. Evidence of the infrastructure counts before them. Times of day
// would blame the node whose clock is behind, and the order of arrival would blame the fastest network. A failure also
// counts if the member was stopped. A supervisor that lost its leader stops its task, and that stop may be the first
// failure.
func (j *Job) verdictOf(a *messages.AttemptRecord) *messages.End {
	open := slices.ContainsFunc(a.Places, func(p *messages.Place) bool { return p.Exit == nil })
	failures := j.failures(a)
	switch {
	case len(failures) > 0:
		first, _ := verdict.First(failures)
		i := slices.IndexFunc(a.Places, func(p *messages.Place) bool { return p.Rank == first.Rank })
		return &messages.End{
			Cause: causeOf(first.Exit), Rank: first.Rank, Node: first.Node, Detail: failureWords(a.Places[i]),
		}
	case slices.ContainsFunc(a.Places, func(p *messages.Place) bool { return p.Exit.GetSaved() }):
		i := slices.IndexFunc(a.Places, func(p *messages.Place) bool { return p.Exit.GetSaved() })
		return endBySaved(a.Places[i])
	case open:
		return nil
	}
	return &messages.End{Cause: messages.Cause_CAUSE_SUCCEEDED, Rank: -1}
}

// finishedByItself reports whether every member exited 0 before it got a stop, whatever cause was recorded first. An
// exit code of 0 alone proves nothing, because stopped tasks also save their work and exit 0.
func finishedByItself(a *messages.AttemptRecord) bool {
	for _, p := range a.Places {
		if p.Exit == nil || !verdict.Succeeded(p.Exit) || !p.Exit.ByItself {
			return false
		}
	}
	return true
}

// concludeLate records an attempt as the job's success if its exits prove it after another end was recorded. No attempt
// follows it.
func concludeLate(rec *messages.JobRecord, a *messages.AttemptRecord, now int64) {
	words := fmt.Sprintf("every member of run %d had exited 0 before it was stopped", a.Run)
	protocol.Conclude(rec, messages.JobState_JOB_STATE_SUCCEEDED, 0, words, now)
}

func causeOf(e *messages.Exit) messages.Cause {
	if e.Unwell {
		return messages.Cause_CAUSE_UNWELL
	}
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
	case e.Disk:
		words += "was ended because the disk is full"
	case e.Kind != messages.ExitKind_EXIT_KIND_EXITED:
		words += actors.WordOf(e.Kind.String(), "EXIT_KIND_")
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

// closeAttempt decides what follows an attempt that has ended.
func (j *Job) closeAttempt(rec *messages.JobRecord, a *messages.AttemptRecord) {
	now := j.p.Clock.WallMs()
	if v := a.Verdict; v != nil {
		rec.LastFailure = v.Brief()
	}
	if a.StartedUnixMs > 0 {
		rec.RanMs += max(a.End.AtUnixMs-a.StartedUnixMs, 0)
		if !neverRan(a) {
			rec.PrepareFailures, rec.PrepareFailedOn = 0, nil // it could be prepared and launched
		}
	}
	switch {
	case a.End.Cause == messages.Cause_CAUSE_SUCCEEDED:
		protocol.Conclude(rec, messages.JobState_JOB_STATE_SUCCEEDED, 0, "", now)
	case rec.Cancel == nil && a.End.Cause != messages.Cause_CAUSE_TIME_LIMIT && finishedByItself(a):
		notePreempted(rec, a.End, -1)
		concludeLate(rec, a, now)
	case rec.Cancel != nil:
		protocol.Conclude(rec, messages.JobState_JOB_STATE_CANCELLED, 0, protocol.WordsOfCancel(rec.Cancel), now)
	case a.End.Cause == messages.Cause_CAUSE_TIME_LIMIT:
		protocol.Conclude(rec, messages.JobState_JOB_STATE_TIMED_OUT, 0, a.End.Detail, now)
	case a.End.Cause == messages.Cause_CAUSE_MEMBER_FAILED && charged(a):
		j.closeFailed(rec, a, now)
	case rec.Spec.GetRestart().GetNever() && a.MayHaveRun():
		protocol.Conclude(rec, messages.JobState_JOB_STATE_FAILED, 1, a.End.Detail+"; the job allows no second run", now)
	case a.End.Cause == messages.Cause_CAUSE_PREEMPTED:
		j.waitAgain(rec, a, now)
	case a.End.Cause == messages.Cause_CAUSE_REQUEUED, a.End.Cause == messages.Cause_CAUSE_START_BY:
		j.waitAgain(rec, a, now)
	case a.End.Cause == messages.Cause_CAUSE_UNWELL:
		j.waitAgain(rec, a, now)
	case a.End.Cause == messages.Cause_CAUSE_PREPARE_FAILED && faultOf(a) == messages.Fault_FAULT_JOB,
		a.End.Cause == messages.Cause_CAUSE_LAUNCH_FAILED && faultOf(a) == messages.Fault_FAULT_JOB:
		protocol.Conclude(rec, messages.JobState_JOB_STATE_FAILED, 1, a.End.Detail, now) // a retry cannot end differently
	default:
		j.closeInfra(rec, a, now)
	}
}

// closeFailed counts a failure against the job's own limit, and backs off. A job that fails with the same error at the
// same step again is not retried, because a third attempt would end in the same way.
func (j *Job) closeFailed(rec *messages.JobRecord, a *messages.AttemptRecord, now int64) {
	rec.Failures++
	if v := a.Verdict; v.GetRepeated() {
		words := a.End.Detail + "; " + verdict.NotRetried(v)
		protocol.Conclude(rec, messages.JobState_JOB_STATE_FAILED, exitCodeOf(a), words, now)
		return
	}
	if rec.Failures > rec.Spec.GetRestart().GetLimit() {
		protocol.Conclude(rec, messages.JobState_JOB_STATE_FAILED, exitCodeOf(a), a.End.Detail, now)
		return
	}
	j.waitAgain(rec, a, now)
}

// closeInfra counts an end that was not the job's fault against a separate limit. The job keeps its position in the
// queue. A broken image or a missing path looks the same on every node. Attempts that never ran are therefore retried
// only a few times.
func (j *Job) closeInfra(rec *messages.JobRecord, a *messages.AttemptRecord, now int64) {
	rec.InfraRestarts++
	notePreparing(rec, a)
	switch {
	case neverRan(a) && j.unfit(rec):
		words := fmt.Sprintf("%s (%d attempts failed, on %s)", a.End.Detail, rec.PrepareFailures,
			strings.Join(rec.PrepareFailedOn, ", "))
		protocol.Conclude(rec, messages.JobState_JOB_STATE_FAILED, 1, words, now)
	case int(rec.InfraRestarts) > j.p.Constants.InfraRestarts:
		protocol.Conclude(rec, messages.JobState_JOB_STATE_FAILED, 1, a.End.Detail, now)
	default:
		j.waitAgain(rec, a, now)
	}
}

// neverRan reports whether an attempt ended because a member could not be prepared or launched, possibly by the job's
// fault. If the node reports its own fault, such as a full disk, that node is backed off and another one is tried at
// once.
func neverRan(a *messages.AttemptRecord) bool {
	switch a.GetEnd().GetCause() {
	case messages.Cause_CAUSE_PREPARE_FAILED, messages.Cause_CAUSE_LAUNCH_FAILED:
		return faultOf(a) != messages.Fault_FAULT_MACHINE
	case messages.Cause_CAUSE_PREPARE_TIMEOUT:
		return true
	}
	return false
}

// notePreparing counts an attempt that could not be prepared or launched, and records the node.
func notePreparing(rec *messages.JobRecord, a *messages.AttemptRecord) {
	if !neverRan(a) {
		return
	}
	rec.PrepareFailures++
	on := slices.Clone(rec.PrepareFailedOn)
	for _, p := range a.Places {
		failed := p.Node == a.End.Node
		switch p.Exit.GetKind() {
		case messages.ExitKind_EXIT_KIND_PREPARE_FAILED, messages.ExitKind_EXIT_KIND_LAUNCH_FAILED:
			failed = true
		}
		if failed && len(on) < 2 && !slices.Contains(on, p.Node) {
			on = append(on, p.Node)
		}
	}
	rec.PrepareFailedOn = on
}

// unfit reports whether the job itself counts as faulty, for example because of a broken image. This requires several
// failures before a run, on two nodes, because a single node may be at fault. One node is enough if the gang cannot be
// placed without it. The backoff in between outlasts a temporary problem.
func (j *Job) unfit(rec *messages.JobRecord) bool {
	return int(rec.PrepareFailures) >= j.p.Constants.PrepareFailures && (len(rec.PrepareFailedOn) > 1 || j.noOther)
}

// waitAgain returns the job to its position in the queue. The time of the retry is for display; barredUntil decides.
func (j *Job) waitAgain(rec *messages.JobRecord, a *messages.AttemptRecord, now int64) {
	rec.State = messages.JobState_JOB_STATE_QUEUED
	rec.NotBeforeUnixMs = 0
	if wait := max(j.backoffAfter(rec, a), j.fencedUntil(a).Since(j.p.Clock.Now())); wait > 0 {
		rec.NotBeforeUnixMs = now + wait.Milliseconds()
	}
}

func exitCodeOf(a *messages.AttemptRecord) int32 {
	for _, p := range a.Places {
		if p.Rank == a.End.Rank && p.Exit != nil && p.Exit.Code != 0 {
			return p.Exit.Code
		}
	}
	return 1
}

// blame reports a node that could not launch or prepare a task to the Scheduler.
func (j *Job) blame(ctx actor.Context) {
	end := j.last.End
	switch end.Cause {
	case messages.Cause_CAUSE_LAUNCH_FAILED, messages.Cause_CAUSE_PREPARE_FAILED:
		if fault := faultOf(j.last); fault != messages.Fault_FAULT_JOB {
			ctx.Send(j.peers.Scheduler, protocol.LaunchFailed{
				Job: j.id, Node: topology.NodeID(end.Node), Detail: end.Detail, Fault: fault,
				Spec: string(j.rec.RequestHash), Owner: j.rec.GetOwner().GetName(), Rest: j.restAfter(),
			})
		}
	}
}

// restAfter returns how long the job avoids the node if the cause is not known to be the node's fault: until after the
// backoff.
func (j *Job) restAfter() time.Duration {
	rec := j.rec.Revise()
	if j.att != nil { // the attempt is not closed yet
		notePreparing(rec, j.att)
	}
	return j.backoffAfter(rec, j.last) + 2*j.p.Constants.NodeBackoffFirst
}

// faultOf returns whose fault it is that an attempt could not be prepared or launched. One member with a faulty job is
// enough, because all members belong to that job.
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

// nodeList returns the nodes of an attempt in rank order, each once.
func nodeList(a *messages.AttemptRecord) string {
	var names []string
	for _, p := range partsOf(a) {
		names = append(names, string(p.node))
	}
	return strings.Join(names, ", ")
}
