package messages

import "github.com/yi-json/synapse/topology"

// This file owns what one job counts for in the usage of its queue and its owner. The scheduler's planner counts by
// the same rule, and a test of the simulator holds them equal.

// JobUse holds the amounts that one job adds to the usage of its queue. At most one of the three counts is 1.
type JobUse struct {
	Running, Waiting, Held int64
	InUse                  topology.Resources // if it runs
	Wanted                 topology.Resources // if it waits
}

// UseOf returns what a job counts for. A job is in use from the moment its nodes are being reserved until the end of
// its attempt is on disk. The record of an array counts for nothing: each of its elements counts once it is a job.
func UseOf(s *JobStatus) (u JobUse) {
	r := s.GetRecord()
	if r.GetSpec().GetArray() != nil && r.GetSpec().GetElement() == nil {
		return u
	}
	all := topology.Resources{
		MilliCPU:    Asked(r.GetSpec(), (*Resources).GetMilliCpu),
		MemoryBytes: Asked(r.GetSpec(), (*Resources).GetMemoryBytes),
		MilliGPU:    Asked(r.GetSpec(), (*Resources).GetMilliGpu),
	}
	switch s.GetPhase() {
	case PhaseHeld:
		u.Held = 1
	case PhaseQueued:
		u.Waiting, u.Wanted = 1, all
	case PhaseReserving, PhaseDeciding:
		u.Running, u.InUse = 1, all
	case PhaseStarting, PhaseRunning, PhaseStopping:
		if s.GetAttempt().GetEnd() == nil {
			u.Running, u.InUse = 1, all
		}
	}
	return u
}
