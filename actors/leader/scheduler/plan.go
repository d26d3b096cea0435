package scheduler

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/intake"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
	"github.com/yi-json/synapse/topology/belief"
)

// This file owns the pass: where a gang is admitted, and the claims that follow.

// plan asks for a pass. Many changes at once cost one: it comes after what is
// already in the mailbox.
func (s *planning) plan(ctx actor.Context) {
	if !s.planDue && s.states.In(schedulerLeading) && s.queue.Len() > 0 {
		s.planDue = true
		ctx.Send(ctx.Self(), PlanNow{})
	}
}

func (s *Scheduler) onPlan(ctx actor.Context) {
	s.planDue = false
	if s.p.Ahead == nil {
		s.pass(ctx)
	} else {
		s.p.Ahead(func() { s.pass(ctx) })
	}
	s.stopVictims(ctx)
}

func (s *Scheduler) pass(ctx actor.Context) {
	now := s.p.Clock.Now()
	d := s.planner.Plan(s.view.Fabric(), s.queue, int64(now))
	for _, a := range d.Admit {
		s.admit(ctx, a)
	}
	s.tellFirm(ctx, d.Firm)
	clear(s.foresight.admitted)
	if at := actors.Instant(d.NextAt); at > 0 && (s.wakeAt <= now || at < s.wakeAt) {
		s.wakeAt = at
		s.p.Clock.After(at.Since(now), ctx.Self(), patienceOver{at})
	}
	s.noteWaiting(d.Joined)
	s.tellWaiting(ctx, d.Joined)
	s.tellStarts(ctx)
	s.p.Host.Took(TookPass, s.p.Clock.Now().Since(now))
}

func (s *planning) onPatienceOver(ctx actor.Context, m patienceOver) {
	if m.At == s.wakeAt {
		s.plan(ctx)
	}
}

// admit hands a placement to the job, and says in the view whose the claim is that the pass took there.
func (s *Scheduler) admit(ctx actor.Context, a policy.Admission) {
	s.tokens++
	now := s.p.Clock.Now()
	told := protocol.Admit{
		Token:   topology.Token{Epoch: s.p.Epoch, Counter: s.tokens},
		Targets: make([]protocol.Target, 0, len(a.Placement.Slots)), // most often a machine has one slot
	}
	members := messages.Many[messages.Member](len(a.Placement.Slots))
	e := s.jobs[a.Job]
	e.offered = told.Token
	s.giveUID(e)
	told.UID, told.UIDTurn = e.uid, e.turn
	s.idles(ctx, e, false)
	s.newRun(e, &run{
		token: told.Token, nodes: nodesOf(a.Placement.Slots, slotNode), spec: e.spec,
		traits: a.Traits, estimate: a.Estimate,
		starts: s.startsBy(e.spec, now, a.StartBy),
	})
	if a.StartBy > 0 {
		told.StartBy, told.Ready = actors.Instant(a.StartBy), actors.Instant(a.StartBy).Since(now)
	}
	who := s.tenant(a.Job, told.Token)
	var amount *messages.Resources // shared by members that ask for the same
	for i, slot := range a.Placement.Slots {
		if i == 0 || slot.Amount != a.Placement.Slots[i-1].Amount {
			amount = messages.ToResources(slot.Amount)
		}
		m := s.machines[slot.Node]
		last := len(told.Targets) - 1
		if last < 0 || told.Targets[last].Node != slot.Node {
			told.Targets = append(told.Targets, protocol.Target{
				Node: slot.Node, MachineID: m.record.MachineId, Incarnation: m.incarnation, Vocabulary: m.vocabulary,
				Rack: m.finest, DespiteUnwell: m.health == healthExcused,
				Announced: m.record.Announcement,
			})
			last++
		}
		members[i].Rank, members[i].Amount = int32(slot.Rank), amount
		there := len(told.Targets[last].Members) + 1 // a machine's slots follow each other
		told.Targets[last].Members = members[i+1-there : i+1 : i+1]
		m.room.Claim(&who, slot.Amount)
	}
	told.NoOther = s.indispensable(e.refused)
	told.Told, told.Promised, told.Victims = s.firstTold(e, a.Told), a.Promised, toVictims(a.Stops)
	ctx.Send(e.pid, told)
	s.waitsNoMore(ctx, a.Job) // it may decline, and shows nothing then
	s.doubtLater(ctx, protocol.Claim{Job: a.Job, Token: told.Token, Targets: told.Targets})
}

// indispensable reports whether a gang that one machine could not prepare can never
// be placed without that machine.
func (s *nodeTable) indispensable(rec *messages.JobRecord) bool {
	if on := rec.GetPrepareFailedOn(); len(on) == 1 {
		others := s.view.Fabric().Clone()
		others.Remove(topology.NodeID(on[0]))
		possible, _ := topology.Feasible(others, intake.GangFor(s.view.Fabric(), rec.GetOwner(), rec.Spec))
		return !possible
	}
	return false
}

// tenant is an attempt as the view knows it.
func (s *jobTable) tenant(job topology.JobID, t topology.Token) belief.Lodger {
	who := belief.Lodger{Token: t, Job: job}
	if e := s.jobs[job]; e != nil { // of one that is damaged the machine says it
		who.UID = e.uid
		if e.run != nil && e.run.token == t {
			who.Stay = e.run.stay
		}
	}
	return who
}

// onWaits puts a job into the queue. It may be there: a Job says it whenever it might
// not, and when its place there has changed.
func (s *Scheduler) onWaits(ctx actor.Context, m protocol.Waits) {
	id := topology.JobID(m.Record.Id)
	e := s.jobs[id]
	if e == nil || e.remakes {
		return
	}
	e.spec, e.runs, e.had = m.Record.Spec, m.Record.Runs, actors.Millis(m.Record.RanMs)
	e.toCome = m.Record.UidToCome
	if m.Met != e.offered {
		return // it crossed with an admission: the job takes that, or says again that it waits
	}
	released := e.heldBack
	e.heldBack = false
	s.idles(ctx, e, true)
	if released {
		s.tellArray(ctx, e)
	}
	limit := int64(actors.Millis(e.spec.GetTimeLimitMs()))
	if there, ok := s.queue.Get(id); ok {
		if there.Priority != e.spec.Priority || there.Limit != limit {
			there.Priority, there.Limit = e.spec.Priority, limit
			s.queue.Replace(there)
			s.plan(ctx)
		}
		if e.element {
			e.wish = m
		}
		s.lookAgain(ctx, e) // with another time limit, other machines close too early
		return
	}
	if e.waits = nil; e.withheld > 0 {
		e.waits = &m
		return
	}
	if why := s.whyNoUID(e); why != "" {
		s.awaitUID(ctx, e, m, why)
		return
	}
	s.awaitsUIDNoMore(e)
	if !s.takesPlace(e, m) {
		return
	}
	if s.jobs[id].refused = nil; len(m.Record.PrepareFailedOn) > 0 {
		s.jobs[id].refused = m.Record
	}
	spec := m.Record.Spec
	s.remembers(func(p policy.Rememberer) { p.Returned(id) })
	s.queue.Add(policy.Waiting{
		Job: id, Gang: s.gangOf(ctx, e, spec), Priority: spec.Priority, Arrived: arrivedOf(m.Record),
		Since: int64(s.p.Clock.Now()), Patience: int64(actors.Millis(spec.GetTopology().GetPatienceMs())),
		Owner: m.Record.GetOwner().Known(), Queue: spec.GetQueue(), Name: spec.GetName(),
		Limit: limit, Grace: int64(actors.GraceOf(spec, s.p.Constants)), Lent: int64(m.Lent),
		Had: int64(e.had), Fixed: spec.GetNotPreemptible(),
	})
	s.plan(ctx)
}

// onRests counts what a job was given no more: it comes back to the queue, but that may take it as long as it likes.
func (s *planning) onRests(ctx actor.Context, m protocol.Rests) {
	if e := s.jobs[m.Job]; e != nil && m.Met == e.offered {
		s.remembers(func(p policy.Rememberer) { p.Returned(m.Job) })
		s.plan(ctx)
	}
}

func (s *Scheduler) onWithdraws(ctx actor.Context, m protocol.Withdraws) {
	if e := s.jobs[m.Job]; e != nil {
		e.waits = nil
		s.awaitsUIDNoMore(e)
		s.withdrawn(ctx, e)
		s.leavesPlace(ctx, e)
	}
}

// withdrawn takes a job out of the queue, with what it was promised.
func (s *Scheduler) withdrawn(ctx actor.Context, e *livingJob) {
	s.unqueue(ctx, e.id)
	owed := false
	s.remembers(func(p policy.Rememberer) {
		owed = p.Forgotten(e.id)
		s.plan(ctx) // what was kept for it is others' now, or will be
	})
	if (e.promise != nil || owed) && e.pid != nil { // it may have been told after it had said so
		s.setPromise(ctx, e, nil)
		ctx.Send(e.pid, protocol.Promised{})
	}
}

// noteWaiting says once of each job that it has to wait, in the words users know.
func (s *planning) noteWaiting(joined []policy.Joined) {
	for _, j := range joined {
		if e := s.jobs[j.Job]; e != nil && !e.noted {
			e.noted = true
			s.p.Log.Info("Job %s added to PENDING queue (Insufficient Resources)", j.Job)
		}
	}
}

func (s *capacity) onOccupied(ctx actor.Context, m protocol.Occupied) {
	for _, a := range m.Answers {
		who := s.machines[a.Node]
		if who == nil {
			continue
		}
		who.room.DidWell()
		if messages.SameIncarnation(a.Incarnation, who.incarnation) && who.room.Answered(m.Token, a.Version) {
			s.refresh(ctx, who)
		}
	}
}

func (s *capacity) onVacated(ctx actor.Context, m protocol.Vacated) {
	for _, a := range m.Answers {
		who := s.machines[a.Node]
		if who == nil || who.room.Tenant(m.Token) == nil {
			continue
		}
		if who.up && messages.SameIncarnation(a.Incarnation, who.incarnation) {
			who.room.Vacated(m.Token, a.Version)
		} else { // of an earlier start: what it tells of went with that, at the latest
			who.room.Evict(m.Token)
		}
		s.refresh(ctx, who)
	}
}

// onBalked: either the ledger that came with it corrects the view, or the
// machine is left out for a while; else the next pass would propose the same again.
func (s *Scheduler) onBalked(ctx actor.Context, m protocol.Balked) {
	s.p.Host.Count(CountRefused+refusalName(m.Reason), 1)
	who := s.machines[m.Node]
	if who == nil || !who.up {
		return
	}
	corrected := false
	if m.Ledger != nil && messages.SameIncarnation(who.incarnation, m.Origin.GetIncarnation()) &&
		m.Ledger.Version > who.room.Version() {
		s.overhaul(ctx, who, m.Ledger)
		corrected = m.Reason == messages.RefusalReason_REFUSAL_REASON_SHORTAGE && !who.contradicts(m.Token) ||
			who.health == healthClosed
	}
	switch {
	case m.Untrue:
		s.disbelieve(ctx, who, m.Detail)
	case !corrected:
		s.bench(ctx, who, m.Detail)
	}
	s.refresh(ctx, who)
}

// bench leaves a machine out, longer each time until it does well again.
func (s *nodeTable) bench(ctx actor.Context, m *machine, why string) {
	m.returns = s.p.Clock.Now().Plus(m.room.Bench(why, s.p.Constants.BenchFirst, s.p.Constants.BenchCap))
	s.awaitReturn(ctx, m)
}

// awaitReturn has the Scheduler look when a bench ends. A machine that misbehaves all the time is benched all the time,
// so no timer is set while one runs that comes no later: that sets the next.
func (s *nodeTable) awaitReturn(ctx actor.Context, m *machine) {
	if m.awaited == 0 || m.returns < m.awaited {
		m.awaited = m.returns
		s.p.Clock.After(m.returns.Since(s.p.Clock.Now()), ctx.Self(), unbench{m.id})
	}
}

func (s *capacity) onUnbench(ctx actor.Context, m unbench) {
	who, now := s.machines[m.Node], s.p.Clock.Now()
	if who == nil || who.awaited == 0 || now < who.awaited {
		return
	}
	who.awaited = 0
	switch {
	case who.room.Benched() != "" && now < who.returns:
		s.awaitReturn(ctx, who)
	case who.room.Return():
		s.refresh(ctx, who)
	}
}

func (s *nodeTable) onLaunched(_ actor.Context, m protocol.Launched) {
	for _, n := range m.Nodes {
		if who := s.machines[n]; who != nil {
			who.launchFailed, who.doubts, who.untrue = 0, nil, 0
			who.room.DidWell()
		}
	}
}

// refresh carries what is known of a machine into the view, and has a pass look at it.
func (s *capacity) refresh(ctx actor.Context, m *machine) {
	if n := actors.OutOfService(m.record.GetAnnouncement(), m.ledger); n != m.withdrawn {
		m.withdrawn = n
		s.view.Join(m.room, m.describe(s.levels), m.standing())
	}
	s.view.Settle(m.room, m.standing())
	s.endsChanged(m)
	s.showNode(ctx, m)
	s.plan(ctx)
}

// showNode tells the Mirror what people may see of a machine.
func (s *nodeTable) showNode(ctx actor.Context, m *machine) {
	status := &messages.NodeStatus{
		Record: m.record, Phase: messages.NodeUp, Closed: m.closed(), Ledger: m.ledger, Users: m.usersShown,
	}
	if m.record == nil { // it is none of ours, and is shown for what it says
		status.Record = &messages.NodeRecord{Id: string(m.id)}
	}
	switch {
	case !m.everUp:
		status.Phase = messages.NodeUnknown
	case !m.up:
		status.Phase = messages.NodeDead
	}
	if !m.up {
		for _, t := range m.room.Tenants() {
			status.Debts = append(status.Debts, messages.ToToken(t.Token))
		}
	}
	ctx.Send(s.peers.Mirror, mirror.NodeShown{
		Status: status, Named: m.usersNamed, Outage: m.outageOf(), Free: m.freeClass(), Untrue: m.untruth != "",
	})
}

// What follows owns the end of a claim that nobody gives back. The Coordinator does, and later the Job; but both end
// when one of them breaks, and an admission may find a Job that has ended. So a claim is called in question once the
// reservations are over: it stays where COMMIT is on disk or about to be, and that only the Job knows.

// doubtLater has a claim called in question when its reservations are over.
func (s *jobTable) doubtLater(ctx actor.Context, c protocol.Claim) {
	s.p.Clock.After(protocol.ClaimTime(&s.p.Constants), ctx.Self(), c)
}

func (s *capacity) onClaim(ctx actor.Context, c protocol.Claim) {
	e := s.jobs[c.Job]
	switch {
	case e == nil:
		s.onDeclined(ctx, protocol.Declined{Token: c.Token, Targets: c.Targets})
	case e.pid == nil || e.remakes:
		s.doubtLater(ctx, c)
	default:
		ctx.Send(e.pid, c)
	}
}

// onDeclined takes back what the Job does not want, or what nothing is left of.
func (s *capacity) onDeclined(ctx actor.Context, d protocol.Declined) {
	for _, t := range d.Targets {
		if m := s.machines[t.Node]; m != nil && m.room.Tenant(d.Token) != nil {
			m.room.Evict(d.Token)
			s.refresh(ctx, m)
		}
	}
}
