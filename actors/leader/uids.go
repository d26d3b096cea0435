package leader

import (
	"github.com/yi-json/synapse/messages"
)

// This file owns which uid a job's tasks run as, where it names no user: one of its own, so that no other job may
// read its files or signal it. One that names root has it, too: it is root of its containers alone, and that uid in
// the machines' directories. It is given with the submit, stands in the job's record, and is the same on all machines
// and in all runs. It is held from then on until nothing of the job is left: by its record; by each attempt that may
// be on a machine (Tenant of the view); and by each machine under the numbers of which anything lies there, as its
// newest books say. All of that is known again after a takeover, so that there is no second truth about it. A job
// without a uid, which an earlier version took in, stays without one.

// giveUID gives a fresh job its own, and its place in the order of arrival, from which that follows.
func (s *Scheduler) giveUID(e *livingJob, spec *messages.JobSpec) {
	if s.arrival++; spec.NeedsUID() && s.uids.Len() > 0 {
		e.uid, s.arrival = s.uids.Next(s.arrival)
		s.uids.HoldFor(e.uid, e.key.owner)
	}
}

// freeUID ends a job's own hold: nothing is left to do for it.
func (s *Scheduler) freeUID(e *livingJob) {
	s.uids.Release(e.uid)
	e.uid = 0
}
