package job

import (
	"cmp"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
)

// This file owns changes of the priority, time limit and begin time of a live job. All of them are in its spec, where
// the next leader finds them. A change takes effect only when it is on disk. The only exception is a later begin time,
// which keeps the job out of the queue at once. Nodes do not know these values.

// wantedSpec returns the spec with the last requested change, or the spec on disk if there is none.
func (j *Job) wantedSpec() *messages.JobSpec {
	if j.respec != nil {
		return j.respec.Spec
	}
	return j.rec.Spec
}

func (j *Job) onUpdate(ctx actor.Context, m *messages.Update) {
	if j.timedOut() && m.SetTimeLimit {
		// A later limit would contradict the recorded end by time limit.
		ctx.Respond(&messages.UpdateReply{Job: m.Job, Outcome: &messages.Outcome{
			Code: messages.Code_CODE_CONFLICT, Field: "time_limit_ms",
			Text: "job has reached its time limit and is being ended",
			Hint: "submit the job again",
		}})
		return
	}
	no := cmp.Or(j.beginRefused(m), j.giftRefused(m))
	if m.SetArrayMost {
		no = protocol.NoArray()
	}
	if no != nil {
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
	to, given := j.wantedGift(), m.GiveTo != "" && m.GiveTo != j.wantedGift()
	if given {
		to = m.GiveTo
	}
	if priority != was.Priority || limit != was.TimeLimitMs || begin != was.BeginUnixMs || given {
		spec := actors.CopyOf(was)
		spec.Priority, spec.TimeLimitMs, spec.BeginUnixMs = priority, limit, begin
		spec.PriorityZero = spec.PriorityZero || m.SetPriority && priority == 0
		deed := &messages.Deed{By: m.Principal, AtUnixMs: j.p.Clock.WallMs(), Reason: m.Reason}
		j.respec = &protocol.SpecWish{Spec: spec, Deed: deed, To: to}
	}
	if m.SetBegin {
		j.postpone(ctx)
	}
	j.advance(ctx)
}

// wantedGift returns the owner that the job is to be given to, or was given to.
func (j *Job) wantedGift() string {
	if j.respec != nil {
		return j.respec.To
	}
	return j.rec.GivenTo
}

// giftRefused returns why the job cannot get another owner. It returns nil if it can. A job keeps the owner who
// submitted it, because accounting, owner limits and node rules depend on the owner.
func (j *Job) giftRefused(m *messages.Update) *messages.Outcome {
	switch {
	case m.GiveTo == "":
		return nil
	case m.Principal.Known() == "":
		return &messages.Outcome{
			Code: messages.Code_CODE_NOT_ALLOWED, Field: "give_to", Text: "the owner cannot be changed without TLS",
			Hint: "start the scheduler with --tls, and change the owner as an admin",
		}
	case j.rec.GetOwner().Known() == "":
		return nil
	}
	return &messages.Outcome{
		Code: messages.Code_CODE_CONFLICT, Field: "give_to", Text: "job belongs to " + j.rec.GetOwner().GetName(),
		Hint: "use `submit --from` to submit a copy as yourself; only jobs submitted before TLS can get another owner",
	}
}

func (j *Job) updateReply(m *messages.Update) *messages.UpdateReply {
	if j.rec.State.Terminal() {
		return &messages.UpdateReply{Job: m.Job, Outcome: messages.AlreadyEnded(j.rec)}
	}
	return &messages.UpdateReply{
		Job: m.Job, Outcome: messages.OK(),
		Priority: j.rec.Spec.Priority, TimeLimitMs: j.rec.Spec.TimeLimitMs, TimeIsUp: j.counting() && j.timeIsUp(),
		BeginUnixMs: j.rec.Spec.BeginUnixMs, GivenTo: j.rec.GivenTo,
	}
}

// timedOut reports whether the run is being stopped for its time limit.
func (j *Job) timedOut() bool {
	return j.end.GetCause() == messages.Cause_CAUSE_TIME_LIMIT ||
		j.att.GetEnd().GetCause() == messages.Cause_CAUSE_TIME_LIMIT
}
