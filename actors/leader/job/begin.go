package job

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
)

// This file owns the begin time of a Job. The Job asks to be planned when that time has come. It is a time of day, so
// the wall clock of the leader decides.

// beginsIn returns how long the job must not be planned yet, at most a minute. An earlier begin time applies once it is
// on disk, a later one at once.
func (j *Job) beginsIn() time.Duration {
	return protocol.UntilMs(max(j.rec.BeginsUnixMs(), j.wantedSpec().BeginUnixMs), j.p.Clock.WallMs())
}

// deadlineDue makes a waiting job look again whether it can still end before its deadline.
type deadlineDue struct{}

// misses returns the outcome of a job that cannot end before its deadline if it starts now, or the empty string. A
// later limit applies at once. A later deadline applies at once, and an earlier one when it is on disk.
func (j *Job) misses() string {
	limits := &messages.JobSpec{DeadlineUnixMs: j.deadline(), TimeLimitMs: j.wantedSpec().TimeLimitMs}
	if words := limits.CannotEnd(j.p.Clock.WallMs()); words != "" {
		return messages.OutcomeOfDeadline(words)
	}
	return ""
}

// deadline returns the deadline on disk, or the requested one if that is later. It returns 0 if there is none.
func (j *Job) deadline() int64 {
	has, wanted := j.rec.Spec.DeadlineUnixMs, j.wantedSpec().DeadlineUnixMs
	if has > 0 && (wanted == 0 || wanted > has) {
		return wanted
	}
	return has
}

// deadlineRefused returns the refusal of another deadline. It returns nil if the change is allowed.
func (j *Job) deadlineRefused(m *messages.Update) *messages.Outcome {
	if !m.SetDeadline {
		return nil
	}
	if j.hasBegun() {
		return &messages.Outcome{
			Code: messages.Code_CODE_CONFLICT, Field: "deadline_unix_ms", Text: "job has already started",
			Hint: "change its time limit",
		}
	}
	return j.wantedSpec().DeadlineRefused(m, j.p.Clock.WallMs())
}

// watchDeadline ensures that a waiting job ends when it can no longer end before its deadline.
func (j *Job) watchDeadline(ctx actor.Context) {
	deadline := j.deadline()
	latest := deadline - j.wantedSpec().TimeLimitMs + 1
	if deadline > 0 && (j.watchesDeadline == 0 || latest < j.watchesDeadline) {
		j.watchesDeadline = latest
		j.p.Clock.After(max(protocol.UntilMs(latest, j.p.Clock.WallMs()), time.Second), ctx.Self(), deadlineDue{})
	}
}

// onDeadlineDue looks again while the job waits. A started job ends by its time limit.
func (j *Job) onDeadlineDue(ctx actor.Context) {
	j.watchesDeadline = 0
	if j.states.In(jobQueued, jobReserving) {
		j.advance(ctx)
		j.watchDeadline(ctx)
	}
}

// beginRefused returns the refusal of another begin time. It returns nil if the change is allowed.
func (j *Job) beginRefused(m *messages.Update) *messages.Outcome {
	if !m.SetBegin {
		return nil
	}
	if j.hasBegun() {
		return &messages.Outcome{
			Code: messages.Code_CODE_CONFLICT, Field: "begin_unix_ms", Text: "job has already started",
			Hint: "requeue it with --hold first",
		}
	}
	return protocol.TooFarAhead("begin_unix_ms", m.BeginUnixMs, j.p.Clock.WallMs())
}

// hasBegun reports whether an attempt is live whose COMMIT is on disk or on its way there.
func (j *Job) hasBegun() bool {
	return j.att != nil && j.att.End == nil || j.writing && j.next.committed
}

// postpone removes a job that must begin later from the queue, and gives up an attempt before COMMIT. If COMMIT is on
// its way to disk, the change was refused before.
func (j *Job) postpone(ctx actor.Context) {
	if j.beginsIn() <= 0 {
		return
	}
	j.unpromise()
	if j.states.In(jobStopping) {
		return // its usage counts until it has left
	}
	ctx.Send(j.peers.Scheduler, protocol.Withdraws{Job: j.id})
	if j.states.In(jobReserving, jobDeciding) {
		j.withdraw(ctx)
	}
}

// The rest of this section owns how a Job reacts to the start or the end of another job that it depends on.

// onForegone records the start or the end of a job that this one depends on.
func (j *Job) onForegone(ctx actor.Context, m protocol.Foregone) {
	if j.rec.Learns(m.Known, j.foregone) {
		j.foregone = append(j.foregone, m.Known)
		j.advance(ctx)
	}
}

// tellStart reports a start of this job that is on disk, for the jobs that wait for it.
func (j *Job) tellStart(ctx actor.Context) {
	if j.last.GetStartedUnixMs() != 0 && !j.rec.State.Terminal() {
		ctx.Send(j.peers.Scheduler, protocol.HasStarted{Job: j.id, AtUnixMs: j.last.StartedUnixMs})
	}
}

// draftAfter adds the recorded starts and ends of dependencies to a write.
func (j *Job) draftAfter(d *draft) {
	if len(j.foregone) > 0 && !d.rec.State.Terminal() {
		d.rec.Learn(j.foregone)
		d.foregone, d.dirty = len(j.foregone), true
	}
}

// The rest of this file ensures that the UID of a job is on disk before it is used.

// numbering is an attempt that starts after the job's UID is on disk.
type numbering struct {
	uid  uint32
	turn uint64
	at   actors.Instant // when it was planned
	plan protocol.AttemptPlan
}

// planHolds limits how long the write of the UID may take. After that, the planned nodes may be reserved for other jobs
// from a time at which this job would still run. The attempt is then planned again, with the UID on disk.
const planHolds = time.Second

// draftUID adds the UID of the first admission to a write.
func (j *Job) draftUID(d *draft) {
	if n := j.numbering; n != nil && d.rec.UidToCome {
		d.rec.Uid, d.rec.UidTurn, d.rec.UidToCome, d.dirty = n.uid, n.turn, false, true
	}
}

// afterUID starts the attempt after its UID is on disk.
func (j *Job) afterUID(ctx actor.Context) {
	n := j.numbering
	if n == nil || j.rec.UidToCome || !j.states.In(jobReserving) {
		return
	}
	if j.p.Clock.Now().Since(n.at) > planHolds {
		j.withdraw(ctx)
		return
	}
	j.numbering = nil
	n.plan.UID, n.plan.Spec = j.rec.Uid, j.rec.Spec
	j.coordinate(ctx, n.plan)
}

func (j *Job) onLacksUID(ctx actor.Context, m protocol.LacksUID) {
	if j.lacks != m.Why {
		j.lacks = m.Why
		j.show(ctx)
	}
}
