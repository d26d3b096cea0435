package messages

import "github.com/yi-json/synapse/topology"

// This file defines how one job counts in the usage of its queue and its owner. The scheduler's planner uses the same
// rule, and a test of the simulator compares the two.

// JobUse holds the amounts that one job adds to the usage of its queue. At most one of the three counts is 1.
type JobUse struct {
	Running, Waiting, Held int64
	InUse                  topology.Resources // if the job runs
	Wanted                 topology.Resources // if the job waits
}

// UseOf returns how a job counts. A job is in use from the reservation of its nodes until the end of its attempt is on
// disk. The record of an array counts nothing, because each element that has become a job counts itself.
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
