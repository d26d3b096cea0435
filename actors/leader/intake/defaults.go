package intake

import (
	"cmp"
	"fmt"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns what a job is given that it does not ask for: memory and a time limit. Both stand in its record from
// the submit on, so that they are shown and kept as if they had been asked for, in all runs and under every leader,
// whatever the settings are later.

// bounded returns a spec with its memory: its share of a machine, by what it asks for of CPUs and devices. One that
// names its own is answered as it is. It fails where what else the job asks for does not go with the default.
//
// It follows from the machines that are known at that moment, so the gateway must not write it: the same request, sent
// again after the cluster has grown, would be another one. A job that an earlier version took in has none, and stays
// without a limit.
func (c *Check) bounded(spec *messages.JobSpec) (*messages.JobSpec, *messages.SubmitReply) {
	if spec.GetEach().GetMemoryBytes() > 0 || spec.GetGang().GetTotal().GetMemoryBytes() > 0 {
		return spec, nil
	}
	memory := topology.MemoryByShare(c.Fabric, messages.GangOf(spec))
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
	if err := with.Validate(); err != nil { // it is longer by a few bytes
		return nil, Reply("", messages.Code_CODE_INVALID, "spec", "with the default memory: "+err.Error(),
			"request memory explicitly")
	}
	return with, nil
}

// limited returns a spec with its time limit; one that names its own is answered as it is. It fails where the spec
// has no
// room for it, and where it is longer than the queue allows. Where the queue has no default but a most, it gets that.
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
	if err := cmp.Or(with.Validate(), with.WarnsInTime()); err != nil { // it is longer by a few bytes
		return nil, Reply("", messages.Code_CODE_INVALID, "spec", "with the default time limit: "+err.Error(),
			"set a time limit")
	}
	return with, nil
}
