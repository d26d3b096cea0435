package intake

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
)

// This file owns the terms of a queue for a new job: maximum resources, priority, time limit, number of waiting jobs
// per owner, and node labels. The defaults of a queue are in the job's record from the submit on. A later configuration
// of queues does not change accepted jobs.

// placed returns a spec with the queue's default priority, if it has none, and with the queue's node selector. The
// submitted spec stays unchanged.
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
	grace, no := graceIn(t, spec)
	if no != nil {
		return nil, &messages.SubmitReply{Outcome: no}
	}
	if with == spec && priority == spec.Priority && grace == spec.GetCheckpoint().GetGraceMs() {
		return spec, nil
	}
	if with == spec {
		with = actors.CopyOf(spec)
	}
	if with.Priority = priority; grace != with.GetCheckpoint().GetGraceMs() {
		with.Checkpoint.GraceMs = grace
	}
	if err := with.Validate(); err != nil { // the additions make it slightly longer
		return nil, Reply("", messages.Code_CODE_INVALID, "spec",
			"with the settings of its queue: "+err.Error(), "request less")
	}
	return with, nil
}

// priorityAbove returns the refusal of a priority that a queue does not allow. It returns nil if the queue allows it.
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

// graceIn returns the time to save a checkpoint that a job gets in a queue. A longer time than the queue allows is
// refused, unless the job names none.
func graceIn(t *messages.QueueTerms, spec *messages.JobSpec) (graceMs int64, no *messages.Outcome) {
	graceMs = spec.GetCheckpoint().GetGraceMs()
	switch {
	case spec.GetCheckpoint() == nil || t.MostGraceMs == nil || spec.SaveGrace().Milliseconds() <= *t.MostGraceMs:
		return graceMs, nil
	case graceMs == 0:
		return *t.MostGraceMs, nil
	}
	most := actors.Millis(*t.MostGraceMs).String()
	return 0, &messages.Outcome{
		Code: messages.Code_CODE_INVALID, Field: "spec.checkpoint.grace_ms",
		Text: "is " + actors.Millis(graceMs).String() + ", and the maximum in queue " + t.Queue + " is " + most,
		Hint: "use at most " + most,
	}
}

// limitAbove returns the refusal of a time limit that a queue does not allow, including 0. It returns nil if the queue
// allows it.
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

// The rest of this file owns the set of accepted queues. If queues are configured, a job must name one of them. A queue
// that was removed from the configuration is closed and accepts no new jobs.

// maxNamed limits the queues that a refusal lists.
const maxNamed = 20

// noQueue returns the refusal of a job whose queue is not configured. It returns nil if the queue is, or if no queues
// are configured.
func (c *Check) noQueue(spec *messages.JobSpec) *messages.SubmitReply {
	tree := c.Shares
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
