package scheduler

import (
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors/leader/intake"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns which uid a job's tasks run as if it names no user: one of its own, so that no other job can read its
// files or signal it. A job that names root has one, too: it is root of its containers alone, and that uid in the
// nodes' directories. A waiting job holds no uid. It is given one with its first admission and writes it to its record
// before its first Reserve. From then on the uid is the same on all nodes and in all attempts, and it is held until
// nothing of the job is left: by the record; by each attempt that may be on a node (Lodger of the view); and by each
// node under whose numbers anything lies, as its newest books say. A takeover learns all of that again, so there is no
// second truth about it. A job that an earlier version took in without a uid stays without one.

// uidsReserved is the part of the uids that is reserved for jobs of admins: one in a hundred, and at least one.
const uidsReserved = 100

// CountLimitUIDs is counted when a job is kept out of the queue for want of a uid.
const CountLimitUIDs = "limit.uids"

// uidRetry is how often the Scheduler looks whether jobs that lack a uid can have one.
const uidRetry = time.Second

type uidDue struct{}

// ownUID is a job's uid as the Scheduler knows it.
type ownUID struct {
	uid    uint32 // held for the job; 0: it names a user, or has none yet
	turn   uint64 // the uid's place among those that were given
	toCome bool   // the job needs one, and its record has none
	parked bool   // it is in uidless
}

func ownUIDOf(rec *messages.JobRecord) ownUID {
	return ownUID{uid: rec.Uid, turn: rec.UidTurn, toCome: rec.UidToCome}
}

// uidless are the jobs that are not planned because they can have no uid now. They keep nothing from others.
type uidless struct {
	jobs  []*livingJob
	armed bool // a timer for the next look is set
}

// needsUID reports whether a fresh job gets a uid of its own when it starts. An array never starts: its elements do.
func (s *uidPool) needsUID(spec *messages.JobSpec) bool {
	return spec.Array == nil && spec.NeedsUID() && s.uids.Len() > 0
}

// whyNoUID is why a job that needs a uid can have none now; empty: it can, or needs none.
func (s *uidPool) whyNoUID(e *livingJob) string {
	if !e.toCome || e.uid != 0 {
		return ""
	}
	all, reserved := s.uids.Len(), 0
	if owner := e.rec.GetOwner(); intake.IsBound(owner, e.rec.GetExempt()) && s.p.Owners.UIDPercent > 0 {
		most, has := max(1, all*int(s.p.Owners.UIDPercent)/100), s.uids.HeldBy(owner.GetName())
		if has >= most {
			return fmt.Sprintf("jobs of %s hold %d of %d uids", topology.Cut(owner.GetName(), 20), has, most)
		}
		reserved = (all + uidsReserved - 1) / uidsReserved
	}
	free := all - s.uids.Held()
	if free > reserved {
		return ""
	}
	if free > 0 {
		return fmt.Sprintf("%d of %d uids are free, only for admins", free, all)
	}
	return fmt.Sprintf("0 of %d uids are free", all)
}

// giveUID gives a job that is being admitted its uid, if it needs one and can have it. A job that declines the
// admission has the same uid in the next one.
func (s *uidPool) giveUID(e *livingJob) {
	if e.toCome && e.uid == 0 && s.whyNoUID(e) == "" {
		e.uid, s.uidTurn = s.uids.Next(s.uidTurn + 1)
		e.turn = s.uidTurn
		s.uids.HoldFor(e.uid, e.key.owner)
	}
}

// freeUID ends a job's own hold: nothing is left to do for it.
func (s *uidPool) freeUID(e *livingJob) {
	s.uids.Release(e.uid)
	e.uid = 0
}

// awaitUID keeps a job out of the queue until it can have a uid.
func (s *Scheduler) awaitUID(ctx actor.Context, e *livingJob, wish protocol.Waits, why string) {
	if e.waits = &wish; !e.parked {
		e.parked = true
		s.uidless.jobs = append(s.uidless.jobs, e)
		s.p.Host.Count(CountLimitUIDs, 1)
	}
	s.withdrawn(ctx, e)
	ctx.Send(e.pid, protocol.LacksUID{Why: why})
	s.lookForUIDs(ctx)
}

func (s *uidPool) lookForUIDs(ctx actor.Context) {
	if !s.uidless.armed && len(s.uidless.jobs) > 0 {
		s.uidless.armed = true
		s.p.Clock.After(uidRetry, ctx.Self(), uidDue{})
	}
}

// awaitsUIDNoMore is called when a job is planned, ends or no longer wants to be planned.
func (s *uidPool) awaitsUIDNoMore(e *livingJob) {
	if e.parked {
		e.parked = false
		s.uidless.jobs = slices.DeleteFunc(s.uidless.jobs, func(o *livingJob) bool { return o == e })
	}
}

// onUIDDue puts the jobs that can have a uid back into the queue: whichever can start first takes it, and a job that
// is admitted when none is left comes back here.
func (s *Scheduler) onUIDDue(ctx actor.Context) {
	s.uidless.armed = false
	all := s.uidless.jobs
	s.uidless.jobs = nil
	for _, e := range all {
		if s.whyNoUID(e) != "" {
			s.uidless.jobs = append(s.uidless.jobs, e)
			continue
		}
		e.parked = false
		ctx.Send(e.pid, protocol.LacksUID{})
		s.onWaits(ctx, *e.waits)
	}
	s.lookForUIDs(ctx)
}
