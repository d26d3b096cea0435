package job

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
)

// This file owns how a Job ends its attempt for another job, and that it goes on where it is spared in time.

// onPreempt ends the attempt, or gives up one in the making.
func (j *Job) onPreempt(ctx actor.Context, m protocol.Preempt) {
	switch {
	case j.att != nil && messages.FromToken(j.att.Token) == m.Token:
		j.preemption = m.For
		j.finish(ctx, messages.Cause_CAUSE_PREEMPTED, wordsOfPreemption(m.For), "")
	case j.states.In(jobReserving, jobDeciding) && j.token == m.Token:
		j.preemption = m.For
		j.moved = &protocol.MoveOff{Cause: messages.Cause_CAUSE_PREEMPTED, Detail: wordsOfPreemption(m.For)}
		j.advance(ctx)
	}
}

// onSpared lets an attempt go on whose end is not on its way to disk.
func (j *Job) onSpared(ctx actor.Context, m protocol.Spared) {
	if j.preemption.GetForJob() != string(m.For) || j.token != m.Token {
		return
	}
	if j.end.GetPreemption() == j.preemption && !(j.writing && j.next.ended) {
		j.end = nil
	}
	if j.moved != nil && j.moved.Cause == messages.Cause_CAUSE_PREEMPTED {
		j.moved = nil
	}
	j.advance(ctx)
}

// wordsOfPreemption says for whom an attempt is stopped, by which rule, and what that costs.
func wordsOfPreemption(p *messages.Preemption) string {
	why := "which has a higher priority"
	switch p.Rule {
	case messages.PreemptionRule_PREEMPTION_RULE_RECLAIM:
		why = "whose queue takes back what it is assured"
	case messages.PreemptionRule_PREEMPTION_RULE_SHORTEST:
		why = "which is expected to be much shorter"
	}
	return fmt.Sprintf("for job %s, %s; %s GPU-hours of work are lost at most", p.ForJob, why,
		messages.GPUHours(p.LostMilliGpuSeconds))
}

// notePreempted counts an attempt that is stopped for another job. That counts against nothing.
func notePreempted(rec *messages.JobRecord, end *messages.End, by int32) {
	if end.GetCause() != messages.Cause_CAUSE_PREEMPTED {
		return
	}
	rec.Preemptions += by
	if protocol.IsInside(end) {
		rec.Outranked += by
	}
}
