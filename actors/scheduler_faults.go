package actors

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/messages"
)

// This file owns when the leader closes a machine by itself: for what is the
// machine's fault, and never for what a job named.

const (
	// closer is in whose name a machine is closed that closes itself.
	closer = "synapse"
	// poolShare: of so many machines with one GPU type, one may be closed by the leader; and one in any case. When more of them fail
	// it is hardly the machines, and their jobs are told.
	poolShare = 10
	// maxDoubts bounds what is kept of one machine.
	maxDoubts = 32
)

// doubt is a job's failure on a machine that may be the fault of either.
type doubt struct{ spec, owner string }

// onLaunchFailed leaves the machine out, and after some failures closes it.
// Failures in a row that are the machine's fault close it as they did before
// machines said whose fault a failure is. Where the fault is not known they must
// be failures of different jobs, and of different owners where there are several:
// one job's mistyped path fails everywhere, and so do all of one person's.
func (s *Scheduler) onLaunchFailed(ctx actor.Context, m launchFailed) {
	who := s.machines[m.Node]
	if who == nil {
		return
	}
	broken := false
	if m.Fault == messages.Fault_FAULT_MACHINE {
		who.launchFailed++
		broken = who.launchFailed >= s.p.Constants.LaunchFailures
	} else {
		s.doubt(who, doubt{m.Spec, m.Owner})
		broken = s.convicted(who)
	}
	s.bench(ctx, who, m.Detail, m.Rest)
	s.refresh(ctx, who)
	if broken && s.mayClose(who) {
		s.close(ctx, who, "launches fail: "+m.Detail)
	}
}

// doubt notes a failure on a machine. What fails in the same words on a second
// one is the job's, and counts against neither.
func (s *Scheduler) doubt(who *machine, d doubt) {
	elsewhere := false
	for _, other := range s.machines { //order: each is looked at for itself
		if i := slices.Index(other.doubts, d); i >= 0 && other != who {
			other.doubts = slices.Delete(other.doubts, i, i+1)
			elsewhere = true
		}
	}
	if !elsewhere && !slices.Contains(who.doubts, d) && len(who.doubts) < maxDoubts {
		who.doubts = append(who.doubts, d)
	}
}

// convicted reports whether doubts enough of different kinds have met on a machine.
func (s *Scheduler) convicted(who *machine) bool {
	if len(who.doubts) < s.p.Constants.LaunchFailures {
		return false
	}
	first := who.doubts[0].owner
	if slices.ContainsFunc(who.doubts, func(d doubt) bool { return d.owner != first }) {
		return true
	}
	for _, job := range s.jobs { //order: any one will do
		if job.key.owner != first {
			return false
		}
	}
	return true
}

// mayClose reports whether the pool can do without one more machine.
func (s *Scheduler) mayClose(who *machine) bool {
	kind, pool, closed := gpuTypeOf(who), 0, 0
	for _, m := range s.machines { //order: only counted
		if m.record == nil || m.record.Removed != nil || gpuTypeOf(m) != kind { // one that was only seen is nobody's yet
			continue
		}
		pool++
		if m.record.Cordoned.GetBy().GetName() == closer {
			closed++
		}
	}
	return closed < max(pool/poolShare, 1)
}

func gpuTypeOf(m *machine) string {
	if gpus := m.record.GetAnnouncement().GetGpus(); len(gpus) > 0 {
		return gpus[0].Type
	}
	return ""
}
