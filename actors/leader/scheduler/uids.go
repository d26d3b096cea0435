package scheduler

import (
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors/leader/intake"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// This file owns the UIDs of jobs that name no user, or root. Each such job gets its own UID, so that no other job can
// read its files or signal it. A job that names root is root inside its containers only. Its files on the nodes belong
// to its UID.
//
// A waiting job holds no UID. It gets one with its first admission and writes it to its record before its first
// Reserve. From then on the UID is the same on all nodes and in all attempts. The UID is held until nothing of the job
// is left. It is held by the record, by each attempt that may be on a node (Lodger of the view), and by each node whose
// newest ledger lists it as in use. A takeover derives all of that again, so there is no second record of it. A job
// that an earlier version accepted without a UID stays without one.

// uidsReserved is the fraction of the UIDs that is reserved for jobs of admins: one in a hundred, and at least one.
const uidsReserved = 100

// CountLimitUIDs counts the jobs that are kept out of the queue because no UID is free.
const CountLimitUIDs = "limit.uids"

// uidRetry is how often the Scheduler checks whether jobs without a UID can get one.
const uidRetry = time.Second

type uidDue struct{}

// ownUID holds the Scheduler's data of a job's UID.
type ownUID struct {
	uid    uint32 // held for the job; 0: it names a user, or has none yet
	turn   uint64 // the UID's position among the assigned ones
	toCome bool   // the job needs one, and its record has none
	parked bool   // it is in uidless
}

func ownUIDOf(rec *messages.JobRecord) ownUID {
	return ownUID{uid: rec.Uid, turn: rec.UidTurn, toCome: rec.UidToCome}
}

// uidless holds the jobs that are not planned because no UID is free for them. They reserve nothing.
type uidless struct {
	jobs  []*livingJob
	armed bool // a timer for the next check is set
}

// needsUID reports whether a new job gets its own UID when it starts. An array never starts: its elements do.
func (s *uidPool) needsUID(spec *messages.JobSpec) bool {
	return spec.Array == nil && spec.NeedsUID() && s.uids.Len() > 0
}

// mayLackUID reports whether a job needs a UID and has none.
func (e *livingJob) mayLackUID() bool { return e.toCome && e.uid == 0 }

// whyNoUID returns why a job that needs a UID cannot get one now. It returns the empty string if it can, or if it needs
// none.
func (s *uidPool) whyNoUID(e *livingJob) string {
	if !e.mayLackUID() {
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

// giveUID assigns a UID to a job that is being admitted, if it needs one and one is free. A job that declines the
// admission keeps its UID for the next one.
func (s *uidPool) giveUID(e *livingJob) {
	if e.mayLackUID() && s.whyNoUID(e) == "" {
		e.uid, s.uidTurn = s.uids.Next(s.uidTurn + 1)
		e.turn = s.uidTurn
		s.uids.HoldFor(e.uid, e.key.owner)
		if !e.element {
			e.wish = protocol.Waits{}
		}
	}
}

// freeUID ends the job's own hold on its UID, because nothing is left to do for the job.
func (s *uidPool) freeUID(e *livingJob) {
	s.uids.Release(e.uid)
	e.uid = 0
}

// awaitUID keeps a job out of the queue until it can get a UID.
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

// returnPlace gives the place of an admission back, because no UID is left for the job, and keeps the job out of the
// queue.
func (s *Scheduler) returnPlace(ctx actor.Context, a policy.Admission, why string) {
	s.view.Tree().Give(a.Placement)
	for _, n := range a.Placement.Nodes() {
		s.endsChanged(s.machines[n]) // the horizon has an end of the job there
	}
	s.awaitUID(ctx, s.jobs[a.Job], s.jobs[a.Job].wish, why)
	s.waitsNoMore(ctx, a.Job)
}

// parkUIDless keeps the other jobs out of the queue for which no UID is left. Otherwise one pass after another would
// choose them.
func (s *Scheduler) parkUIDless(ctx actor.Context) {
	lacking := func(job topology.JobID) bool { return s.whyNoUID(s.jobs[job]) != "" }
	for _, job := range s.queue.Select(lacking) {
		e := s.jobs[job]
		s.awaitUID(ctx, e, e.wish, s.whyNoUID(e))
	}
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

// uidHopeful is how many jobs return to the queue for each free UID.
const uidHopeful = 8

// onUIDDue returns jobs to the queue that can get a UID. The first to start gets it. A job that is chosen when none is
// left returns here. Only a few return for each UID, because a pass that chooses jobs without a UID is repeated.
func (s *Scheduler) onUIDDue(ctx actor.Context) {
	s.uidless.armed = false
	all, left := s.uidless.jobs, uidHopeful*(s.uids.Len()-s.uids.Held())
	s.uidless.jobs = nil
	for _, e := range all {
		if left <= 0 || s.whyNoUID(e) != "" {
			s.uidless.jobs = append(s.uidless.jobs, e)
			continue
		}
		left--
		e.parked = false
		ctx.Send(e.pid, protocol.LacksUID{})
		s.onWaits(ctx, *e.waits)
	}
	s.lookForUIDs(ctx)
}
