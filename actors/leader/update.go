package leader

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
)

// This file owns how a job that lives is given another priority, time limit or begin. All
// stand in its spec, so that a next leader finds them where it looks anyway; nothing
// follows from them before they are on disk, but that a job is not planned that is to begin
// later. No machine knows of any.

// specWish is the spec as people want it, with all changes that are not on disk yet.
type specWish struct {
	spec *messages.JobSpec
	deed *messages.Deed
}

// wantedSpec is the spec as people want it: their last wish, else what is on disk.
func (j *Job) wantedSpec() *messages.JobSpec {
	if j.respec != nil {
		return j.respec.spec
	}
	return j.rec.Spec
}

func (j *Job) onUpdate(ctx actor.Context, m *messages.Update) {
	if j.timedOut() && m.SetTimeLimit {
		// A later limit would stand beside an end that says that it had been reached.
		ctx.Respond(&messages.UpdateReply{Job: m.Job, Outcome: &messages.Outcome{
			Code: messages.Code_CODE_CONFLICT, Field: "time_limit_ms",
			Text: "the job has reached its time limit and is being ended",
			Hint: "submit it again to run it again",
		}})
		return
	}
	if no := j.beginRefused(m); no != nil {
		ctx.Respond(&messages.UpdateReply{Job: m.Job, Outcome: no})
		return
	}
	if !j.asks(ctx, func() any { return j.updateReply(m) }) {
		return
	}
	was := j.wantedSpec()
	priority, limit, begin := was.Priority, was.TimeLimitMs, was.BeginUnixMs
	if m.SetPriority {
		priority = m.Priority
	}
	if m.SetTimeLimit {
		limit = m.TimeLimitMs
	}
	if m.SetBegin {
		begin = m.BeginUnixMs
	}
	if priority != was.Priority || limit != was.TimeLimitMs || begin != was.BeginUnixMs {
		spec := actors.CopyOf(was)
		spec.Priority, spec.TimeLimitMs, spec.BeginUnixMs = priority, limit, begin
		spec.PriorityZero = spec.PriorityZero || m.SetPriority && priority == 0
		j.respec = &specWish{spec, &messages.Deed{By: m.Principal, AtUnixMs: j.p.Clock.WallMs(), Reason: m.Reason}}
	}
	if m.SetBegin {
		j.postpone(ctx)
	}
	j.advance(ctx)
}

func (j *Job) updateReply(m *messages.Update) *messages.UpdateReply {
	if j.rec.State.Terminal() {
		return &messages.UpdateReply{Job: m.Job, Outcome: messages.AlreadyEnded(j.rec)}
	}
	return &messages.UpdateReply{
		Job: m.Job, Outcome: messages.OK(),
		Priority: j.rec.Spec.Priority, TimeLimitMs: j.rec.Spec.TimeLimitMs, TimeIsUp: j.counting() && j.timeIsUp(),
		BeginUnixMs: j.rec.Spec.BeginUnixMs,
	}
}

// timedOut reports whether the run is being ended for its time limit.
func (j *Job) timedOut() bool {
	return j.end.GetCause() == messages.Cause_CAUSE_TIME_LIMIT ||
		j.att.GetEnd().GetCause() == messages.Cause_CAUSE_TIME_LIMIT
}
