package scheduler

import (
	"fmt"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns how much memory a job gets that asks for none: its share of a machine, by what it asks for of CPUs and
// devices. It is given with the submit and stands in the job's record, so that it is shown, booked and enforced as if
// it had been asked for, in all runs and under every leader. It follows from the machines that are known at that
// moment, so the gateway must not write it: the same request, sent again after the cluster has grown, would be another
// one. A job that an earlier version took in has none, and stays without a limit.

// bounded is a spec with its memory; a spec that names its own is answered as it is. It fails where what else the job
// asks for does not go with the default.
func (s *Scheduler) bounded(spec *messages.JobSpec) (*messages.JobSpec, *messages.SubmitReply) {
	if spec.GetEach().GetMemoryBytes() > 0 || spec.GetGang().GetTotal().GetMemoryBytes() > 0 {
		return spec, nil
	}
	memory := topology.MemoryByShare(s.view.Fabric(), messages.GangOf(spec))
	if memory == 0 {
		return spec, nil
	}
	with := actors.CopyOf(spec)
	if total := with.GetGang().GetTotal(); total != nil {
		total.MemoryBytes = memory
	} else if with.Each.MemoryBytes = memory; spec.ShmBytes > memory {
		return nil, submitReply("", messages.Code_CODE_INVALID, "spec.shm_bytes", fmt.Sprintf(
			"is %d, and the task asks for no memory, so that it gets its share of a machine's, %d", spec.ShmBytes, memory),
			"ask for memory")
	}
	if err := with.Validate(); err != nil { // it is longer by a few bytes
		return nil, submitReply("", messages.Code_CODE_INVALID, "spec", "with the memory that it does not ask for: "+
			err.Error(), "ask for memory")
	}
	return with, nil
}
