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

// This file owns the scheduling pass: the admission of gangs, and the claims that follow.

// plan requests a pass. Several requests cause one pass, which runs after the messages that are already in the mailbox.
func (s *planning) plan(ctx actor.Context) {
	if !s.planDue && s.states.In(schedulerLeading) && (s.queue.Len() > 0 || len(s.swaps) > 0) {
		s.planDue = true
		ctx.Send(ctx.Self(), PlanNow{})
	}
}

func (s *Scheduler) onPlan(ctx actor.Context) {
	s.planDue = false
	s.placeSwaps(ctx)
	if s.p.Ahead == nil {
		s.pass(ctx)
	} else {
		s.p.Ahead(func() { s.pass(ctx) })
	}
	s.stopVictims(ctx)
}

// passesInTurn limits the passes that run in one turn.
const passesInTurn = 4

// pass plans and admits. If no UID is left for a chosen job, the job returns its place, and the pass is repeated in the
// same turn. Otherwise more jobs could come back for the next free UID before the next turn, and the capacity of one
// pass after another would go to jobs that find no UID.
func (s *Scheduler) pass(ctx actor.Context) {
	now := s.p.Clock.Now()
	for left := passesInTurn; left > 0 && s.passOnce(ctx, now); left-- {
		s.parkUIDless(ctx)
		s.plan(ctx) // in case this was the last one
	}
	s.tellStarts(ctx)
	s.needLater(ctx)
	s.p.Host.Took(TookPass, s.p.Clock.Now().Since(now))
}

// passOnce runs a pass, and reports whether it chose a job for which no UID is left.
func (s *Scheduler) passOnce(ctx actor.Context, now actors.Instant) (lacking bool) {
	d := s.planner.Plan(s.view.Tree(), s.queue, int64(now))
	s.admitting = true
	for _, a := range d.Admit {
		if why := s.whyNoUID(s.jobs[a.Job]); why != "" {
			s.returnPlace(ctx, a, why)
			lacking = true
		} else {
			s.admit(ctx, a)
		}
	}
	s.settleSpares()
	s.tellFirm(ctx, d.Firm)
	clear(s.foresight.admitted)
	if at := actors.Instant(d.NextAt); at > 0 && (s.wakeAt <= now || at < s.wakeAt) {
		s.wakeAt = at
		s.p.Clock.After(at.Since(now), ctx.Self(), patienceOver{at})
	}
	s.noteWaiting(d.Joined)
	s.tellWaiting(ctx, d.Joined)
	return lacking
}

func (s *planning) onPatienceOver(ctx actor.Context, m patienceOver) {
	if m.At == s.wakeAt {
		s.plan(ctx)
	}
}

// admit sends a placement to the job, and assigns the pass's claim in the view to the attempt.
func (s *Scheduler) admit(ctx actor.Context, a policy.Admission) {
	now := s.p.Clock.Now()
	told := protocol.Admit{
		Token:   s.newToken(),
		Targets: make([]protocol.Target, 0, len(a.Placement.Slots)), // a node usually has one slot
	}
	e := s.jobs[a.Job]
	e.offered = told.Token
	slots, spares := splitSpares(e.spec, a.Placement.Slots)
	s.giveUID(e)
	told.UID, told.UIDTurn = e.uid, e.turn
	s.idles(ctx, e, false)
	s.newRun(ctx, e, &run{
		token: told.Token, nodes: nodesOf(slots, slotNode), spec: e.spec,
		traits: a.Traits, estimate: a.Estimate,
		starts: s.startsBy(e.spec, now, a.StartBy),
	})
	if a.StartBy > 0 {
		told.StartBy, told.Ready = actors.Instant(a.StartBy), actors.Instant(a.StartBy).Since(now)
	}
	who := s.tenant(a.Job, told.Token)
	members := messages.Many[messages.Member](len(slots))
	var amount *messages.Resources // shared by members with equal requests
	for i, slot := range slots {
		if i == 0 || slot.Amount != slots[i-1].Amount {
			amount = messages.ToResources(slot.Amount)
		}
		m := s.machines[slot.Node]
		last := len(told.Targets) - 1
		if last < 0 || told.Targets[last].Node != slot.Node {
			told.Targets = append(told.Targets, s.target(m, nil))
			last++
		}
		members[i].Rank, members[i].Amount = int32(slot.Rank), amount
		there := len(told.Targets[last].Members) + 1 // the slots of a node are adjacent
		told.Targets[last].Members = members[i+1-there : i+1 : i+1]
		m.room.Claim(&who, slot.Amount)
	}
	told.Spares = s.sparesIn(spares)
	s.setSpares(ctx, e, told.Spares)
	told.NoOther = s.indispensable(e.refused)
	told.Told, told.Promised, told.Victims = s.firstTold(e, a.FirstEstimate), a.Promised, toVictims(a.Stops)
	ctx.Send(e.pid, told)
	s.waitsNoMore(ctx, a.Job) // the job may decline, and shows nothing then
	s.doubtLater(ctx, protocol.Claim{Job: a.Job, Token: told.Token, Targets: told.Targets})
}

// newToken returns the token of another attempt.
func (s *base) newToken() topology.Token {
	s.tokens++
	return topology.Token{Epoch: s.p.Epoch, Counter: s.tokens}
}

// indispensable reports whether a gang that one node could not prepare cannot be placed without that node.
func (s *nodeTable) indispensable(rec *messages.JobRecord) bool {
	if on := rec.GetPrepareFailedOn(); len(on) == 1 {
		others := s.view.Tree().Clone()
		others.Remove(topology.NodeID(on[0]))
		possible, _ := topology.Feasible(others, intake.GangFor(s.view.Tree(), rec.GetOwner(), rec.Spec))
		return !possible
	}
	return false
}

// tenant returns the view's entry of an attempt.
func (s *jobTable) tenant(job topology.JobID, t topology.Token) belief.Lodger {
	who := belief.Lodger{Token: t, Job: job}
	if e := s.jobs[job]; e != nil { // for a damaged job, the node's ledger has the amounts
		who.UID = e.uid
		if e.run != nil && e.run.token == t {
			who.Stay = e.run.stay
		}
	}
	return who
}

// onWaits puts a job into the queue. The job may already be there, because a Job repeats Waits in doubt and after a
// change of its position.
func (s *Scheduler) onWaits(ctx actor.Context, m protocol.Waits) {
	id := topology.JobID(m.Record.Id)
	e := s.jobs[id]
	if e == nil || e.remakes {
		return
	}
	e.spec, e.runs, e.had = m.Record.Spec, m.Record.Runs, actors.Millis(m.Record.RanMs)
	e.toCome = m.Record.UidToCome
	if m.Met != e.offered {
		return // it crossed an admission: the job accepts it or sends Waits again
	}
	s.freeSpares(ctx, e.run)
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
		if e.element || e.mayLackUID() {
			e.wish = m
		}
		s.lookAgain(ctx, e) // with another time limit, other nodes close too early
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
	if s.awaitsUIDNoMore(e); e.mayLackUID() {
		e.wish = m
	}
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

// onRests ends the count of a job's last admission as its usage. The job will return to the queue, at any time.
func (s *Scheduler) onRests(ctx actor.Context, m protocol.Rests) {
	if e := s.jobs[m.Job]; e != nil && m.Met == e.offered {
		s.freeSpares(ctx, e.run)
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

// withdrawn removes a job from the queue, with its reserved nodes.
func (s *Scheduler) withdrawn(ctx actor.Context, e *livingJob) {
	s.unqueue(ctx, e.id)
	owed := false
	s.remembers(func(p policy.Rememberer) {
		owed = p.Forgotten(e.id)
		s.plan(ctx) // the nodes reserved for it become free for others
	})
	if (e.promise != nil || owed) && e.pid != nil { // the promise may have been sent after the job's message
		s.setPromise(ctx, e, nil)
		ctx.Send(e.pid, protocol.Promised{})
	}
}

// noteWaiting logs once per job that it must wait, in the words that users know.
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
		} else { // of an earlier start of the agent, which no longer matters
			who.room.Evict(m.Token)
		}
		s.refresh(ctx, who)
	}
}

// onBalked handles a node that did not do what the plan expected. Either the ledger in the answer corrects the view, or
// the node is backed off. Otherwise the next pass would propose the same again.
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
		s.backOff(ctx, who, m.Detail)
	}
	s.refresh(ctx, who)
}

// backOff backs off a node, for longer each time until its next success.
func (s *nodeTable) backOff(ctx actor.Context, m *machine, why string) {
	m.returns = s.p.Clock.Now().Plus(m.room.BackOff(why, s.p.Constants.NodeBackoffFirst, s.p.Constants.NodeBackoffCap))
	s.awaitReturn(ctx, m)
}

// awaitReturn schedules the end of a back-off. A node that fails permanently is backed off permanently, so a running
// timer that is not later is used again; it sets the next one.
func (s *nodeTable) awaitReturn(ctx actor.Context, m *machine) {
	if m.awaited == 0 || m.returns < m.awaited {
		m.awaited = m.returns
		s.p.Clock.After(m.returns.Since(s.p.Clock.Now()), ctx.Self(), endBackOff{m.id})
	}
}

func (s *capacity) onBackOffEnds(ctx actor.Context, m endBackOff) {
	who, now := s.machines[m.Node], s.p.Clock.Now()
	if who == nil || who.awaited == 0 || now < who.awaited {
		return
	}
	who.awaited = 0
	switch {
	case who.room.BackedOff() != "" && now < who.returns:
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

// refresh updates a node in the view, and requests a pass.
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

// showNode sends a node's status to the Mirror.
func (s *nodeTable) showNode(ctx actor.Context, m *machine) {
	status := &messages.NodeStatus{
		Record: m.record, Phase: messages.NodeUp, Closed: m.closed(), Ledger: m.ledger, Users: m.usersShown,
		Suspicion: s.suspicionOf(m),
	}
	if m.record == nil { // it never joined, and is shown because of its messages
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
			if t.Spare {
				continue
			}
			status.Debts = append(status.Debts, messages.ToToken(t.Token))
		}
	}
	ctx.Send(s.peers.Mirror, mirror.NodeShown{
		Status: status, Named: m.usersNamed, Outage: m.outageOf(), Free: m.freeClass(), Untrue: m.untruth != "",
	})
}

// The rest of this file owns the end of claims that no actor returns. Usually the Coordinator returns a claim, and
// later the Job. Either may fail, and an admission may reach a Job that has ended. Therefore each claim is checked
// after its reservations have expired. It stays if COMMIT is on disk or on its way, which only the Job knows.

// doubtLater schedules the check of a claim after its reservations have expired.
func (s *jobTable) doubtLater(ctx actor.Context, c protocol.Claim) {
	s.p.Clock.After(protocol.ClaimTime(&s.p.Constants), ctx.Self(), c)
}

func (s *capacity) onClaim(ctx actor.Context, c protocol.Claim) {
	e := s.jobs[c.Job]
	switch {
	case e == nil:
		s.onDeclined(ctx, protocol.Declined{Job: c.Job, Token: c.Token, Targets: c.Targets})
	case e.pid == nil || e.remakes:
		s.doubtLater(ctx, c)
	default:
		ctx.Send(e.pid, c)
	}
}

// onDeclined removes a claim that the Job does not want, or of which nothing is left.
func (s *capacity) onDeclined(ctx actor.Context, d protocol.Declined) {
	if e := s.jobs[d.Job]; d.Unknown && e != nil && e.run != nil && e.run.token == d.Token {
		s.freeSpares(ctx, e.run) // no node reports anything of them
	}
	for _, t := range d.Targets {
		if m := s.machines[t.Node]; m != nil && m.room.Tenant(d.Token) != nil {
			m.room.Evict(d.Token)
			s.refresh(ctx, m)
		}
	}
}
