// Package scheduler holds the Scheduler, the actor that owns the queue and the view of free capacity. The Scheduler
// accepts submits, admits gangs in passes, and admits nodes. The planner decides which jobs start and which nodes are
// reserved.
package scheduler

import (
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/clock/backoff"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// Scheduler owns the queue and the view of free capacity, and admits gangs (plan.go). It decides and never waits. Its
// memory follows from the store and from the reports of nodes, so the next leader recreates it.
//
// The Scheduler sends messages to Jobs (Admit, Sighted, NodeLost, …), Racks (Expect, Enrol, Expel), Nodes (Lead,
// Rejected, and Stop and Forget for finished jobs) and the Mirror. It sends requests to the Journal (Write → Written)
// and to the store (Load, Find).
type Scheduler struct {
	*base
	*nodeTable
	*jobTable
	*uidPool
	*waitCounts
	*storeQueries
	*evidence
	*greeter
	*learner
	*planning
	*lookahead
	*capacity
	*shares
	*drains
	*promises
	*teller
	arrival uint64 // number of jobs so far, in order of arrival
}

type (
	// PlanNow is the message that starts a requested pass.
	PlanNow    struct{}
	recovered  struct{}
	retryLoad  struct{}
	endBackOff struct{ Node topology.NodeID }
	drainDue   struct {
		Node topology.NodeID
		Seq  uint64
	}
	patienceOver struct{ At actors.Instant }
	lookAgain    struct {
		Job topology.JobID
		Seq uint64
	}
	remake struct{ Job topology.JobID }
)

func (s *Scheduler) onStarted(ctx actor.Context) {
	s.self = ctx.Self()
	s.view.Tree().Lead()
	s.peers = protocol.JobPeers{Scheduler: s.self, Journal: actors.At(s.self, actors.JournalPath),
		Mirror: actors.At(s.self, actors.MirrorPath)}
	s.load(ctx)
}

func (s *base) load(ctx actor.Context) { s.p.Store.Load(s.p.Epoch, ctx.Self()) }

// onLoaded restores all state from disk: nodes first, because jobs need them.
func (s *Scheduler) onLoaded(ctx actor.Context, m actors.Loaded) {
	switch {
	case !s.states.In(schedulerLoading):
		s.onReread(ctx, m)
		return
	case m.Deposed:
		s.p.Host.Deposed(s.p.Epoch)
		return
	case m.Err != "":
		s.p.Log.Info("The store cannot be read yet: %s", m.Err)
		s.p.Clock.After(s.p.Constants.JournalRetry, ctx.Self(), retryLoad{})
		return
	}
	s.states.Become("loaded", schedulerRecovering)
	s.arrival, s.uidTurn = m.Arrival, m.UIDTurn
	s.behind.trial.open(m, s.p.Epoch)
	ctx.Send(s.peers.Mirror, mirror.PlanningShown{Reason: messages.WaitRecovering.Because(
		"the new leader waits up to " + s.p.Constants.RecoveryWait.String() + " for its nodes")})
	s.recallGPUTime(ctx, m)
	for _, rec := range m.Nodes {
		if rec.Removed == nil {
			s.expectMachine(ctx, rec)
			continue
		}
		// The name may return as another machine, whose record follows this one.
		gone := s.machine(topology.NodeID(rec.Id))
		gone.record, gone.everUp = rec, true
	}
	s.setAside(ctx, m)
	s.recall(ctx, m)
	s.recallQueues(ctx, m.Queues)
	s.recollect(m)
	attempts := map[string][]*messages.AttemptRecord{}
	for _, a := range m.Attempts {
		attempts[a.Job] = append(attempts[a.Job], a)
	}
	for _, rec := range m.Jobs {
		s.adopt(ctx, rec, attempts[rec.Id])
	}
	for _, rec := range m.Jobs { // all of them are in the table by now
		s.await(ctx, s.jobs[topology.JobID(rec.Id)], rec)
		s.tellArray(ctx, s.jobs[topology.JobID(rec.Id)])
	}
	for _, rec := range m.Jobs {
		s.toldAll(ctx, s.jobs[topology.JobID(rec.Id)], false)
	}
	s.endOrphans(ctx)
	for _, e := range m.Ended {
		s.owners.see(e.Job.GetOwner().GetName())
		ctx.Send(s.peers.Mirror, mirror.JobRecalled(e))
	}
	s.recallSuspects(ctx, m)
	for _, n := range s.early {
		s.greet(ctx, n)
	}
	s.early = nil
	s.p.Clock.After(s.p.Constants.RecoveryWait, ctx.Self(), recovered{})
	s.heardAll(ctx)
}

// adopt restores a job from disk.
func (s *Scheduler) adopt(ctx actor.Context, rec *messages.JobRecord, attempts []*messages.AttemptRecord) {
	e := &livingJob{
		jobRecord: jobRecord{id: topology.JobID(rec.Id), key: requestKey{rec.Owner.GetName(), rec.RequestId},
			hash: rec.RequestHash, rec: rec},
		ownUID: ownUIDOf(rec),
	}
	s.uids.HoldFor(e.uid, e.key.owner)
	s.owners.see(e.key.owner)
	s.jobs[e.id] = e
	e.element = rec.Spec.Element != nil
	s.keepsPlace(e)
	s.idles(ctx, e, rec.State == messages.JobState_JOB_STATE_QUEUED)
	if rec.RequestId != "" {
		s.requests[e.key] = e
	}
	s.embody(ctx, e, rec, attempts)
}

// embody creates a job's actor, and records the nodes that may hold its attempts.
func (s *Scheduler) embody(ctx actor.Context, e *livingJob, rec *messages.JobRecord,
	attempts []*messages.AttemptRecord) {
	e.read, e.stopped = e.read[:0], victimOf{}
	s.noteOutranked(e, rec.Outranked)
	e.had = actors.Millis(rec.RanMs)
	for _, a := range attempts {
		token := messages.FromToken(a.Token)
		e.read = append(e.read, token)
		if token == messages.FromToken(rec.Attempt) && (e.run == nil || e.run.token != token) {
			s.newRun(ctx, e, &run{token: token, nodes: nodesOf(a.Places, placeNode), spec: rec.Spec,
				ended: a.End != nil && !isKept(rec, a), kept: isKept(rec, a)})
		}
		s.lodge(e, rec, a)
		if r := e.run; r != nil && r.token == token && (a.End == nil || isKept(rec, a)) {
			s.setSpares(ctx, e, a.Spares)
		}
	}
	s.lives++
	life := s.lives
	if rec.Spec.Array != nil {
		s.onAllows(ctx, protocol.Allows{Array: e.id, Most: rec.Spec.Array.Most})
		e.pid = actors.Spawn(ctx, &s.p.Ports, actors.KindArray, actors.JobName(e.id), func() actor.Actor {
			return s.makers.Array(s.p, s.peers, life, rec)
		})
		if rec.State.Terminal() {
			s.conclude(ctx, e.id, rec.State, rec.Since())
		}
		return
	}
	e.offered = topology.Token{} // the last actor received that admission
	e.pid = actors.Spawn(ctx, &s.p.Ports, actors.KindJob, actors.JobName(e.id), func() actor.Actor {
		return s.makers.Job(s.p, s.peers, life, rec, attempts)
	})
	s.bury(ctx, e, attempts)
	s.tellDrains(ctx, e, attempts)
	e.idleAfter = 0
	s.tellIdle(ctx, e)
	s.inherit(ctx, e, rec)
	if rec.State.Terminal() {
		s.conclude(ctx, e.id, rec.State, rec.Since())
	}
}

// lodge records where an attempt may hold resources. They stay occupied on a node until its last member there has
// exited.
func (s *evidence) lodge(e *livingJob, rec *messages.JobRecord, a *messages.AttemptRecord) {
	amounts := map[string][]topology.Resources{}
	for _, p := range a.Places {
		amounts[p.Node] = append(amounts[p.Node], messages.FromResources(p.Grant.GetAmount()))
	}
	who := s.tenant(e.id, messages.FromToken(a.Token))
	nodes := protocol.Debtors(a)
	if isKept(rec, a) {
		nodes = nil // all its exits may be on disk
		for _, n := range nodesOf(a.Places, placeNode) {
			nodes = append(nodes, string(n))
		}
	}
	for _, n := range nodes {
		if m := s.machines[topology.NodeID(n)]; m != nil && a.Inherited != nil {
			m.room.Inherit(messages.FromToken(a.Inherited.From), &who, amounts[n]...)
		} else if m != nil {
			m.room.Lodge(&who, amounts[n]...)
		}
	}
}

// bury reports removed nodes to a job, because the leader that removed them may have died before the job's record
// included it.
func (s *nodeTable) bury(ctx actor.Context, e *livingJob, attempts []*messages.AttemptRecord) {
	for _, a := range attempts {
		for _, p := range a.Places {
			if m := s.machines[topology.NodeID(p.Node)]; p.Exit == nil &&
				(m == nil || m.record.GetRemoved() != nil || m.record.GetMachineId() != p.MachineId) {
				ctx.Send(e.pid, protocol.NodeGone{Node: topology.NodeID(p.Node), MachineID: p.MachineId})
			}
		}
	}
}

// heardAll ends the recovery early when all nodes have been heard.
func (s *Scheduler) heardAll(ctx actor.Context) {
	if s.awaited == 0 {
		s.recover(ctx, "all heard")
	}
}

func (s *Scheduler) recover(ctx actor.Context, event string) {
	if s.states.In(schedulerRecovering) {
		s.states.Become(event, schedulerLeading)
		s.occupy()
		ctx.Send(s.peers.Mirror, mirror.PlanningShown{Reason: s.haltReason()})
		s.plan(ctx)
	}
}

// onJobBroke recreates a Job that panicked from disk, with growing delays, so that a job that always fails does not
// occupy the leader.
func (s *Scheduler) onJobBroke(ctx actor.Context, m *actor.Terminated) {
	name := strings.TrimPrefix(m.Who.Id, actors.JobPath(""))
	if e := s.jobs[topology.JobID(name)]; e != nil && e.pid != nil && !e.remakes {
		e.remakes = true
		s.unqueue(ctx, e.id) // an admission now would reach no actor
		s.later(ctx, e)
	}
}

func (s *jobTable) later(ctx actor.Context, e *livingJob) {
	e.breaks++
	wait := backoff.After(e.breaks, s.p.Constants.NodeBackoffFirst, s.p.Constants.NodeBackoffCap)
	s.p.Clock.After(wait, ctx.Self(), remake{e.id})
}

// onStale stops a Job whose record on disk was written by another actor.
func (s *Scheduler) onStale(ctx actor.Context, m protocol.Stale) {
	if e := s.jobs[m.Job]; e != nil && e.pid != nil {
		ctx.Stop(e.pid) // Terminated follows, as after a panic
	}
}

func (s *Scheduler) onRemake(ctx actor.Context, m remake) {
	if e := s.jobs[m.Job]; e != nil && e.remakes {
		s.ask(find{job: e.id}, actors.Query{Job: e.id})
	}
}

// onSettled ends a job's actor, because nothing of the job is left to do.
func (s *Scheduler) onSettled(ctx actor.Context, m protocol.Settled) {
	e := s.jobs[m.Job]
	if e == nil {
		return
	}
	s.dropRun(ctx, e)
	s.setPromise(ctx, e, nil)
	s.remembers(func(p policy.Rememberer) {
		p.Forgotten(m.Job)
		p.Written(m.Job) // its end is on disk
	})
	delete(s.jobs, m.Job)
	delete(s.throttles, m.Job)
	s.idles(ctx, e, false)
	delete(s.requests, e.key)
	s.unqueue(ctx, m.Job)
	s.leavesPlace(ctx, e)
	s.awaitsUIDNoMore(e)
	s.freeUID(e)
	ctx.Stop(e.pid)
}

// toJob passes a client's request to the Job, which answers it.
func (s *jobTable) toJob(ctx actor.Context, id string, none any) {
	if e := s.jobs[topology.JobID(id)]; e != nil && e.pid != nil && !e.remakes {
		ctx.Forward(e.pid)
		return
	} else if a := s.arrayFor(id); e == nil && a != nil && a.pid != nil && !a.remakes {
		ctx.Forward(a.pid)
		return
	}
	ctx.Respond(none)
}

// The rest of this section owns the states of the Scheduler and their transitions.

// schedulerState is the progress of a leader's takeover.
type schedulerState string

const (
	schedulerLoading    schedulerState = "loading"
	schedulerRecovering schedulerState = "recovering"
	schedulerLeading    schedulerState = "leading"
)

// Table lists the legal transitions.
var Table = actors.Table[schedulerState]{Kind: actors.KindScheduler, Edges: []actors.Edge[schedulerState]{
	{schedulerLoading, "loaded", schedulerRecovering},
	{schedulerRecovering, "all heard", schedulerLeading},
	{schedulerRecovering, "waited", schedulerLeading},
}}

// The rest of this section owns the Scheduler's keys of live jobs.

// requestKey names a client's request.
type requestKey struct{ owner, id string }

// The rest of this file owns the constructors of the actors that a Scheduler creates.

// Makers holds the constructors of the actors that a Scheduler creates. No actor's package imports that of another.
type Makers struct {
	Rack  func(p *protocol.Ports, name string, scheduler *actor.PID) actor.Actor
	Array func(p *protocol.Ports, peers protocol.JobPeers, life uint64, rec *messages.JobRecord) actor.Actor
	Job   func(p *protocol.Ports, peers protocol.JobPeers, life uint64, rec *messages.JobRecord,
		attempts []*messages.AttemptRecord) actor.Actor
}
