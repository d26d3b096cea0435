package scheduler

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// This file owns what queues ask at the door: how much a job may want of its queue, its priority and its time limit,
// how many of one owner may wait, and on which machines a queue's jobs run. What a queue gives stands in the job's
// record from the submit on, so that queues that are described otherwise later change no job that has come in.

// termsOf are those of the queue that a job names.
func (s *Scheduler) termsOf(spec *messages.JobSpec) messages.QueueTerms {
	return s.queues.record.GetQueues().TermsOf(spec.GetQueue())
}

// placed is a spec with its queue's priority, if it names none, and with the labels that its queue asks machines for.
// The spec as it was submitted stays as it is.
func placed(spec *messages.JobSpec, t *messages.QueueTerms) (*messages.JobSpec, *messages.SubmitReply) {
	for _, l := range t.Selector {
		if own, ok := messages.LabelOf(spec.NodeSelector, l.GetKey()); ok && own.GetValue() != l.GetValue() {
			return nil, submitReply("", messages.Code_CODE_INVALID, "spec.node_selector", fmt.Sprintf(
				"asks for %s=%s, and jobs of queue %s run on machines with %s=%s",
				l.GetKey(), own.GetValue(), t.Queue, l.GetKey(), l.GetValue()), "leave it out, or name another queue")
		}
	}
	with, priority := t.Selected(spec), spec.Priority
	if named := priority != 0 || spec.PriorityZero; !named {
		if priority = t.DefaultPriority; t.MostPriority != nil {
			priority = min(priority, *t.MostPriority)
		}
	}
	if no := priorityAbove(t, priority); no != nil {
		no.Field = "spec.priority"
		return nil, &messages.SubmitReply{Outcome: no}
	}
	if with == spec && priority == spec.Priority {
		return spec, nil
	}
	if with == spec {
		with = actors.CopyOf(spec)
	}
	with.Priority = priority
	if err := with.Validate(); err != nil { // it is longer by a few bytes
		return nil, submitReply("", messages.Code_CODE_INVALID, "spec",
			"with what its queue adds: "+err.Error(), "ask for less")
	}
	return with, nil
}

// priorityAbove refuses a priority that a queue does not allow; nil: it does.
func priorityAbove(t *messages.QueueTerms, priority int32) *messages.Outcome {
	if t.MostPriority == nil || priority <= *t.MostPriority {
		return nil
	}
	return &messages.Outcome{
		Code: messages.Code_CODE_NOT_ALLOWED, Field: "priority",
		Text: fmt.Sprintf("is %d, and the most in queue %s is %d", priority, t.Queue, *t.MostPriority),
		Hint: fmt.Sprintf("ask for at most %d", *t.MostPriority),
	}
}

// limitAbove refuses a time limit that a queue does not allow, 0 among them; nil: it does.
func limitAbove(t *messages.QueueTerms, limitMs int64) *messages.Outcome {
	if t.MostLimitMs == 0 || limitMs > 0 && limitMs <= t.MostLimitMs {
		return nil
	}
	text := "is " + actors.Millis(limitMs).String()
	if limitMs == 0 {
		text = "is to be taken away"
	}
	most := actors.Millis(t.MostLimitMs).String()
	return &messages.Outcome{
		Code: messages.Code_CODE_INVALID, Field: "time_limit_ms",
		Text: text + ", and the most in queue " + t.Queue + " is " + most, Hint: "ask for at most " + most,
	}
}

// onUpdate holds a change against the queue of the job before the job hears of it.
func (s *Scheduler) onUpdate(ctx actor.Context, m *messages.Update) {
	e := s.jobs[topology.JobID(m.Job)]
	if e == nil {
		e = s.arrayFor(m.Job)
	}
	if e != nil {
		t := s.termsOf(e.rec.Spec)
		no := s.ownNoMore(m, e.rec, &t)
		if m.SetPriority && no == nil {
			no = priorityAbove(&t, m.Priority)
		}
		if m.SetTimeLimit && no == nil {
			no = limitAbove(&t, m.TimeLimitMs)
		}
		if no != nil {
			ctx.Respond(&messages.UpdateReply{Job: m.Job, Outcome: no})
			return
		}
	}
	s.toJob(ctx, m.Job, &messages.UpdateReply{Job: m.Job, Outcome: s.noJob(m.Job)})
}

// neverAllowed is the answer to a job that is larger than its queue's limits ever allow; nil: it is not.
func (s *Scheduler) neverAllowed(by *messages.Principal, spec *messages.JobSpec) *messages.SubmitReply {
	planner, is := s.planner.(policy.Sharer)
	if !is {
		return nil
	}
	gang := messages.GangOf(spec)
	traits := traitsOf(&messages.JobRecord{Spec: spec, Owner: by}, s.poolsNow())
	over := planner.Never(&gang, &traits)
	if over == nil {
		return nil
	}
	return submitReply("", messages.Code_CODE_INFEASIBLE, "spec.gang", "it would never start: "+over.Never(),
		"ask for less, or name another queue")
}

// waitingJobs counts by owner the jobs that wait, for whatever reason. It is asked with each submit, so it is kept and
// not counted.
type waitingJobs map[string]*waitingOf

// waitingOf is what one owner has waiting: jobs by queue, and the bytes of their records.
type waitingOf struct {
	queues map[string]int
	bytes  int64
}

// idles notes whether a job waits or runs. An array waits until it has ended: its elements are counted beside it.
func (s *Scheduler) idles(ctx actor.Context, e *livingJob, waits bool) {
	if e.idle == waits {
		return
	}
	e.idle = waits
	s.tellArray(ctx, e)
	of := s.waiting[e.key.owner]
	if of == nil {
		of = &waitingOf{queues: map[string]int{}}
		s.waiting[e.key.owner] = of
	}
	queue := e.rec.GetSpec().GetQueue()
	if waits {
		e.bytes = int64(messages.Size(e.rec))
		of.bytes += e.bytes
		of.queues[queue]++
		return
	}
	of.bytes -= e.bytes
	if of.queues[queue]--; of.queues[queue] == 0 {
		delete(of.queues, queue)
	}
	if len(of.queues) == 0 {
		delete(s.waiting, e.key.owner)
	}
}
