package intake

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
)

// This file owns what queues ask of a new job: how much a job may want of its queue, its priority and its time limit,
// how many of one owner may wait, and on which machines a queue's jobs run. What a queue gives stands in the job's
// record from the submit on, so that queues that are described otherwise later change no job that has come in.

// placed is a spec with its queue's priority, if it names none, and with the labels that its queue asks machines for.
// The spec as it was submitted stays as it is.
func placed(spec *messages.JobSpec, t *messages.QueueTerms) (*messages.JobSpec, *messages.SubmitReply) {
	for _, l := range t.Selector {
		if own, ok := messages.LabelOf(spec.NodeSelector, l.GetKey()); ok && own.GetValue() != l.GetValue() {
			return nil, Reply("", messages.Code_CODE_INVALID, "spec.node_selector", fmt.Sprintf(
				"is %s=%s, but jobs of queue %s run on nodes with %s=%s",
				l.GetKey(), own.GetValue(), t.Queue, l.GetKey(), l.GetValue()), "omit it, or use another queue")
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
		return nil, Reply("", messages.Code_CODE_INVALID, "spec",
			"with the settings of its queue: "+err.Error(), "request less")
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
		Text: fmt.Sprintf("is %d, and the maximum in queue %s is %d", priority, t.Queue, *t.MostPriority),
		Hint: fmt.Sprintf("use at most %d", *t.MostPriority),
	}
}

// limitAbove refuses a time limit that a queue does not allow, 0 among them; nil: it does.
func limitAbove(t *messages.QueueTerms, limitMs int64) *messages.Outcome {
	if t.MostLimitMs == 0 || limitMs > 0 && limitMs <= t.MostLimitMs {
		return nil
	}
	text := "is " + actors.Millis(limitMs).String()
	if limitMs == 0 {
		text = "cannot be removed"
	}
	most := actors.Millis(t.MostLimitMs).String()
	return &messages.Outcome{
		Code: messages.Code_CODE_INVALID, Field: "time_limit_ms",
		Text: text + ", and the maximum in queue " + t.Queue + " is " + most, Hint: "use at most " + most,
	}
}

// What follows owns which queues a job may come into: where queues are described, those and no others. A queue that is
// not described any more is closed, and takes nothing new.

// maxNamed is how many queues are named to who meant one of them.
const maxNamed = 20

// noQueue is the answer to a job of a queue that is not described; nil: it is, or nobody has described any.
func (c *Check) noQueue(spec *messages.JobSpec) *messages.SubmitReply {
	tree := c.Tree
	if tree == nil {
		return nil
	}
	name := cmp.Or(spec.GetQueue(), tree.Default)
	if tree.Find(name) >= 0 {
		return nil
	}
	text := fmt.Sprintf("unknown queue %q", name)
	if name == "" {
		text = "queue is missing, and the cluster has no default queue"
	}
	names := tree.Names()
	hint := "use " + strings.Join(names[:min(len(names), maxNamed)], ", ")
	if len(names) > maxNamed {
		hint += " and more"
	}
	return Reply("", messages.Code_CODE_INVALID, "spec.queue", text, hint)
}
