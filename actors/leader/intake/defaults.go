package intake

import (
	"cmp"
	"fmt"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the defaults of a job: memory and time limit. Both are in the job's record from the submit on. They
// are shown and enforced as if the user had requested them, in all attempts and under every leader, even if the
// settings change later.

// bounded returns a spec with its default memory: the share of a node's memory that corresponds to its CPUs and
// devices. A spec that requests memory stays unchanged. It fails if the default conflicts with the rest of the request.
//
// The default depends on the nodes that are known at that moment, so the gateway must not compute it. The same request,
// repeated after the cluster has grown, would otherwise differ. A job that an earlier version accepted has no memory
// limit and stays without one.
func (c *Check) bounded(spec *messages.JobSpec) (*messages.JobSpec, *messages.SubmitReply) {
	if spec.GetEach().GetMemoryBytes() > 0 || spec.GetGang().GetTotal().GetMemoryBytes() > 0 {
		return spec, nil
	}
	memory := topology.MemoryByShare(c.Tree, messages.GangOf(spec))
	if memory == 0 {
		return spec, nil
	}
	with := actors.CopyOf(spec)
	if total := with.GetGang().GetTotal(); total != nil {
		total.MemoryBytes = memory
	} else if with.Each.MemoryBytes = memory; spec.ShmBytes > memory {
		return nil, Reply("", messages.Code_CODE_INVALID, "spec.shm_bytes", fmt.Sprintf(
			"is %d, more than the default memory of %d", spec.ShmBytes, memory),
			"request memory explicitly")
	}
	if err := with.Validate(); err != nil { // the default makes it slightly longer
		return nil, Reply("", messages.Code_CODE_INVALID, "spec", "with the default memory: "+err.Error(),
			"request memory explicitly")
	}
	return with, nil
}

// limited returns a spec with its default time limit. A spec with a time limit stays unchanged. It fails if the spec
// would become too large, or if the limit is longer than the queue allows. If the queue has a maximum but no default,
// the maximum is the default.
func (c *Check) limited(spec *messages.JobSpec, t *messages.QueueTerms) (*messages.JobSpec, *messages.SubmitReply) {
	if spec.TimeLimitMs > 0 {
		no := limitAbove(t, spec.TimeLimitMs)
		if no == nil {
			return spec, nil
		}
		no.Field = "spec.time_limit_ms"
		return nil, &messages.SubmitReply{Outcome: no}
	}
	limitMs := c.DefaultLimit.Milliseconds()
	if t.DefaultLimitMs != nil {
		limitMs = *t.DefaultLimitMs
	}
	if t.MostLimitMs > 0 && (limitMs == 0 || limitMs > t.MostLimitMs) {
		limitMs = t.MostLimitMs
	}
	if limitMs == 0 {
		return spec, nil
	}
	with := actors.CopyOf(spec)
	with.TimeLimitMs = limitMs
	if err := cmp.Or(with.Validate(), with.WarnsInTime()); err != nil { // the default makes it slightly longer
		return nil, Reply("", messages.Code_CODE_INVALID, "spec", "with the default time limit: "+err.Error(),
			"set a time limit")
	}
	return with, nil
}
