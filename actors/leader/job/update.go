package job

import (
	"cmp"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
)

// This file owns changes of the priority, time limit, begin time and deadline of a live job. All of them are in its
// spec, where the next leader finds them. A change takes effect only when it is on disk. There are two exceptions: a
// later begin time keeps the job out of the queue at once, and a later deadline saves the job at once. Nodes do not
// know these values.

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
	no := cmp.Or(j.beginRefused(m), j.deadlineRefused(m), j.giftRefused(m))
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
	spec := changedBy(was, m)
	to, given := j.wantedGift(), m.GiveTo != "" && m.GiveTo != j.wantedGift()
	if given {
		to = m.GiveTo
	}
	if spec.Priority != was.Priority || spec.TimeLimitMs != was.TimeLimitMs || spec.BeginUnixMs != was.BeginUnixMs ||
		spec.DeadlineUnixMs != was.DeadlineUnixMs || given {
		deed := &messages.Deed{By: m.Principal, AtUnixMs: j.p.Clock.WallMs(), Reason: m.Reason}
		j.respec = &protocol.SpecWish{Spec: spec, Deed: deed, To: to}
	}
	if m.SetBegin {
		j.postpone(ctx)
	}
	j.advance(ctx)
}

// changedBy returns a copy of a spec with the values of a change.
func changedBy(was *messages.JobSpec, m *messages.Update) *messages.JobSpec {
	spec := actors.CopyOf(was)
	if m.SetPriority {
		spec.Priority, spec.PriorityZero = m.Priority, spec.PriorityZero || m.Priority == 0
	}
	if m.SetTimeLimit {
		spec.TimeLimitMs = m.TimeLimitMs
	}
	if m.SetBegin {
		spec.BeginUnixMs = m.BeginUnixMs
	}
	if m.SetDeadline {
		spec.DeadlineUnixMs = m.DeadlineUnixMs
	}
	return spec
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
		BeginUnixMs: j.rec.Spec.BeginUnixMs, GivenTo: j.rec.GivenTo, DeadlineUnixMs: j.rec.Spec.DeadlineUnixMs,
	}
}

// timedOut reports whether the run is being stopped for its time limit.
func (j *Job) timedOut() bool {
	return j.end.GetCause() == messages.Cause_CAUSE_TIME_LIMIT ||
		j.att.GetEnd().GetCause() == messages.Cause_CAUSE_TIME_LIMIT
}
