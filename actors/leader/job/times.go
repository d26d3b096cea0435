package job

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/clock/backoff"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the times of a Job: backoffs, fences and the time limit. All of them use this process's steady clock.
// After a takeover, a backoff or a fence starts again in full. Nodes report how long tasks have run, as a duration. A
// comparison with the last leader's wall clock could start a second run in parallel to the first if the clocks differ.

// backoffAfter returns how long the job waits after an attempt has ended. It depends only on the record, so the next
// leader computes the same.
func (j *Job) backoffAfter(rec *messages.JobRecord, a *messages.AttemptRecord) time.Duration {
	wait, failures := actors.Millis(rec.Spec.GetRestart().GetBackoffMs()), rec.Failures
	switch {
	case neverRan(a) && a.End.Cause != messages.Cause_CAUSE_PREPARE_TIMEOUT: // a timeout has taken its time
		wait, failures = max(wait, j.p.Constants.PrepareBackoff), rec.PrepareFailures
	case a.GetEnd().GetCause() != messages.Cause_CAUSE_MEMBER_FAILED || !charged(a) && repeatsAtOnce(a):
		return 0
	case !charged(a):
		wait, failures = max(wait, j.p.Constants.PrepareBackoff), rec.InfraRestarts
	}
	return backoff.After(int(failures), wait, j.p.Constants.BackoffCap)
}

// fencedUntil returns the time at which supervisors on unreachable nodes have certainly stopped an attempt's tasks, if
// the job requests that. Supervisors count from the last acknowledged heartbeat, which cannot be later than the last
// contact with the node. After a takeover, a node counts as heard at the takeover.
func (j *Job) fencedUntil(a *messages.AttemptRecord) actors.Instant {
	if j.rec.Spec.StopWhenLostMs == 0 {
		return 0
	}
	var until actors.Instant
	for _, p := range a.Places {
		if s := j.contacts[topology.NodeID(p.Node)]; p.Exit == nil && !s.up {
			until = max(until, s.since.Plus(fenceWait(j.rec.Spec, j.p.Constants)))
		}
	}
	return until
}

// barredUntil returns the earliest time of the next attempt. A node that returned and is lost again delays it again.
func (j *Job) barredUntil() actors.Instant {
	until := j.backedOff
	for _, a := range j.owed {
		until = max(until, j.fencedUntil(a))
	}
	return until
}

// barred reports whether an attempt must not be committed yet. A reachable node may lack evidence of an earlier
// attempt, or tasks on an unreachable node may still run.
func (j *Job) barred() bool { return j.owesReachable() || j.barredUntil() > j.p.Clock.Now() }

// backOff starts the backoff after the latest attempt.
func (j *Job) backOff() {
	if wait := j.backoffAfter(j.rec, j.last); wait > 0 {
		j.backedOff = j.p.Clock.Now().Plus(wait)
	}
}

// graceOf returns the grace of the ranks of an attempt that is stopped. If the barrier of a gang fails, the started
// ranks get a short grace: they have run alone and have nothing to save. A stop by an operator or a user gets the grace
// of the job. So does an attempt that an earlier leader committed, because it may have run for a long time that no
// record shows.
func (j *Job) graceOf(a *messages.AttemptRecord) time.Duration {
	grace := actors.GraceOf(j.rec.Spec, j.p.Constants)
	if a.End.GetHoldMs() > 0 && a.End.Cause != messages.Cause_CAUSE_DRAINED {
		if own := actors.Millis(j.rec.Spec.GetRestart().GetInPlaceGraceMs()); own > 0 {
			return own
		}
		return min(grace, j.p.Constants.InPlaceGrace)
	}
	switch a.End.GetCause() {
	case messages.Cause_CAUSE_CANCELLED, messages.Cause_CAUSE_REQUEUED, messages.Cause_CAUSE_PREEMPTED:
		return grace
	}
	if a.StartedUnixMs == 0 && messages.FromToken(a.Token).Epoch == j.p.Epoch && !(a == j.att && j.begunBefore) {
		return min(grace, j.p.Constants.BarrierGrace)
	}
	return grace
}

// fenceWait returns stopWhenLost plus the grace, plus 1% for clock drift.
func fenceWait(spec *messages.JobSpec, c actors.Constants) time.Duration {
	wait := actors.Millis(spec.StopWhenLostMs) + actors.GraceOf(spec, c)
	return wait + wait/100
}

// armTimeLimit starts the time limit at the barrier. A later change of the limit counts from the same moment.
func (j *Job) armTimeLimit(ctx actor.Context, since actors.Instant) {
	j.timers++
	j.limitTimer, j.limitFrom = j.timers, since
	if limit := actors.Millis(j.rec.Spec.TimeLimitMs); limit > 0 {
		j.p.Clock.After(max(since.Plus(limit).Since(j.p.Clock.Now()), 0), ctx.Self(), timeUp{j.token, j.timers})
	}
	j.warn(ctx)
}

// counting reports whether the time of a run counts against its limit.
func (j *Job) counting() bool {
	return j.states.In(jobRunning) || j.states.In(jobStarting) && j.att.GetStartedUnixMs() != 0
}

// timeIsUp reports whether a run has reached its time limit.
func (j *Job) timeIsUp() bool {
	limit := actors.Millis(j.rec.Spec.TimeLimitMs)
	return limit != 0 && j.p.Clock.Now() >= j.limitFrom.Plus(limit)
}

// prolonged reports whether a longer limit is on its way to disk. It was requested before the run reached its limit, so
// the run is not stopped meanwhile.
func (j *Job) prolonged() bool {
	wanted, limit := j.wantedSpec().TimeLimitMs, j.rec.Spec.TimeLimitMs
	return wanted != limit && (wanted == 0 || wanted > limit)
}

// noteBegun records since when an attempt of an earlier leader has run on a node. Each node started before the barrier
// was passed, so the last start is the best estimate of the barrier. A node that has not started proves that the
// barrier was not passed, even if its processes are starting. An older agent does not report its start and counts as
// not started.
func (j *Job) noteBegun(m protocol.Sighted) {
	if j.att == nil || messages.FromToken(j.att.Token) != m.Token || !j.states.In(jobStarting) {
		return
	}
	switch {
	case m.Allocation.State <= messages.SliceState_SLICE_STATE_STARTED && m.Allocation.RanMs == 0:
		j.begunBefore = false
	case m.Allocation.RanMs > 0:
		j.begun = max(j.begun, m.Heard.Plus(-actors.Millis(m.Allocation.RanMs)))
	}
}

// passedBarrier returns when the attempt passed its barrier, which may have been under an earlier leader. It uses the
// reports of the nodes, or the present time if no node reports it.
func (j *Job) passedBarrier() actors.Instant {
	if j.begunBefore && j.begun != 0 {
		return min(j.begun, j.p.Clock.Now())
	}
	return j.p.Clock.Now()
}

// ranMs returns how long an attempt has run since its barrier. It returns 0 if the barrier was not passed, or if it was
// passed under an earlier leader and the nodes do not report the time.
func (j *Job) ranMs(a *messages.AttemptRecord) int64 {
	told := j.begunBefore && j.begun != 0
	if a.StartedUnixMs == 0 || (j.begunBefore || j.ranBefore) && !told {
		return 0
	}
	from := j.limitFrom.Plus(j.before)
	if !j.states.In(jobRunning) {
		from = j.passedBarrier()
	}
	return max(j.p.Clock.Now().Since(from).Milliseconds(), 1)
}

// The rest of this section owns what a Job reports about the end of its attempt's allocations.

// foretell sends the Scheduler the known facts about the end of the current attempt. The argument began is the time of
// the barrier; 0 means no change.
func (j *Job) foretell(ctx actor.Context, began actors.Instant) {
	ctx.Send(j.peers.Scheduler, protocol.Foreseen{
		Job: j.id, Token: j.token, Spec: j.rec.Spec, Began: began, Saved: j.saving.at,
	})
}

// foretellResumed does the same for an attempt of an earlier leader. All phases start again. If the attempt has
// started, its limit counts from now until its nodes have reported.
func (j *Job) foretellResumed(ctx actor.Context) {
	starts := j.p.Clock.Now()
	if j.att.StartedUnixMs == 0 {
		starts = starts.Plus(protocol.UntilBarrier(j.rec.Spec, &j.p.Constants))
		if left := actors.Millis(j.att.StartByLeftMs); left > 0 {
			starts = min(starts, j.p.Clock.Now().Plus(left))
		}
	}
	ctx.Send(j.peers.Scheduler, protocol.Foreseen{Job: j.id, Token: j.token, Spec: j.rec.Spec, Starts: starts})
}

// The rest of this file owns the start deadline of a backfilled attempt.

// startByLeftMs returns the time that COMMIT gives an attempt to pass its barrier.
func (j *Job) startByLeftMs() int64 {
	if j.startBy == 0 {
		return 0
	}
	return max(j.startBy.Since(j.p.Clock.Now()).Milliseconds(), 1)
}

// noteTooShort records the time of an attempt that missed its start deadline. The planner then backfills the job only
// with twice that time.
func (j *Job) noteTooShort() {
	if j.startBy != 0 && j.p.Clock.Now() >= j.startBy {
		j.lent = max(j.lent, j.ready)
	}
}

// lentBefore returns the time that an attempt on disk had, if that was too short.
func lentBefore(a *messages.AttemptRecord) time.Duration {
	if a.GetEnd().GetCause() != messages.Cause_CAUSE_START_BY {
		return 0
	}
	return actors.Millis(a.StartByLeftMs)
}

// causeToldTo returns the cause of a Stop in a form that the node's agent knows.
func causeToldTo(s *contact, cause messages.Cause) messages.Cause {
	if cause == messages.Cause_CAUSE_UNWELL { // no decision depends on which of the two it is
		return messages.Cause_CAUSE_MACHINE_LOST
	}
	if cause == messages.Cause_CAUSE_START_BY && s.vocabulary < messages.VocabularyStartBy {
		return messages.Cause_CAUSE_EXPIRED
	}
	return cause
}
