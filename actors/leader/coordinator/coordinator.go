// Package coordinator holds the Coordinator, the actor that brings one attempt from its admission to the start barrier.
// The steps are reserve, decide, commit, prepare and start. A Coordinator ends at the barrier, or when the attempt is
// given up.
package coordinator

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// Coordinator owns one attempt from its placement to the start barrier: it reserves, lets the Job decide, commits,
// prepares and starts, or it aborts. It owns the deadlines and repeats of these steps, and nothing durable. The Job
// writes its decisions. After a takeover, a new Coordinator continues from COMMIT.
//
// A Coordinator sends messages to Nodes (Reserve, Commit, Start, Abort) and to the Scheduler (Occupied, Vacated,
// Balked, Launched). It sends one request to the Job (Granted → Decided or Halt).
type Coordinator struct {
	p         *protocol.Ports
	states    actors.States[coordinatorState]
	since     actors.Instant // time at which it entered its state
	job       *actor.PID
	scheduler *actor.PID
	plan      protocol.AttemptPlan
	token     *messages.Token // the plan's token, as orders carry it
	parties   []*party        // in the order of their first ranks
	at        map[topology.NodeID]*party
	reached   [stageAborted + 1]int // number of nodes at each stage
	meeting   *messages.Rendezvous
	roster    rosterSource
	sent      actors.Instant // time of the first Reserve, from which the decision window counts
	decided   actors.Instant // when COMMIT was on disk; 0: an earlier leader wrote it
	prepared  time.Duration  // time from COMMIT until all were prepared
	allowance allowance
	resend    actors.Resend
	phase     uint64 // number of the phase; a deadline of an earlier phase has a lower number
	seq       uint64
	blank     []*messages.Order // allocated in advance for the next orders
}

// party is one node of the attempt.
type party struct {
	protocol.Target
	pid     *actor.PID // of the Node actor
	stage   stage
	version uint64            // ledger version of its last answer
	known   bool              // the node has sent Hello to this leader
	begun   bool              // all its ranks had started at that time
	grants  []*messages.Grant // resources that it has reserved
	address string
	port    int32
	gone    map[int32]bool // ranks that have ended
	roster  partyRoster
}

// stage is the known progress of a node. A later stage implies the earlier ones.
type stage uint8

const (
	stageAsked stage = iota
	stageReserved
	stageCommitted
	stagePrepared
	stageStarted
	stageAborted
)

// deadline is a timer of one phase.
type deadline struct{ Phase uint64 }

func New(p *protocol.Ports, job, scheduler *actor.PID, plan protocol.AttemptPlan) actor.Actor {
	c := &Coordinator{p: p, job: job, scheduler: scheduler, plan: plan}
	c.token, c.states = messages.ToToken(plan.Token), actors.NewStates(&Table, p.Host)
	c.parties, c.at = make([]*party, len(plan.Targets)), make(map[topology.NodeID]*party, len(plan.Targets))
	all := make([]party, len(plan.Targets))
	for i, t := range plan.Targets {
		all[i] = party{Target: t, known: plan.Resumed == nil || t.Incarnation != nil}
		c.parties[i], c.at[t.Node] = &all[i], &all[i]
	}
	c.reached[stageAsked] = len(all)
	c.keepPlaces()
	c.allowance = allowanceOf(&plan)
	return c
}

// Receive dispatches a message. The Job has already fenced the facts that it passes on.
func (c *Coordinator) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		c.onBorn(ctx)
	case *messages.Reserved:
		c.onReserved(ctx, m)
	case *messages.Refused:
		c.onRefused(ctx, m)
	case *messages.Aborted:
		c.onAborted(ctx, m)
	case *messages.Committed:
		c.onReached(ctx, m.Origin, stageCommitted)
	case *messages.Prepared:
		c.onReached(ctx, m.Origin, stagePrepared)
	case *messages.Started:
		c.onReached(ctx, m.Origin, stageStarted)
	case *messages.Lacking:
		c.onLacking(ctx, m)
	case *messages.Expired:
		c.onExpired(ctx, m)
	case protocol.RanksGone:
		c.onRanksGone(ctx, m)
	case protocol.Sighted:
		c.onSighted(ctx, m)
	case protocol.NodeLost:
		c.onNodeLost(ctx, m)
	case protocol.Decided:
		c.onDecided(ctx)
	case protocol.Halt:
		c.onHalt(ctx)
	case deadline:
		c.onDeadline(ctx, m)
	case startByOver:
		c.onStartByOver(ctx, m)
	case actors.ResendDue:
		c.onResend(ctx, m)
	}
}

func (c *Coordinator) onBorn(ctx actor.Context) {
	if c.plan.Resumed != nil {
		c.become("resume", coordinatorCommitting)
		if c.heir() && c.plan.Targets[0].Incarnation != nil {
			c.decided = c.p.Clock.Now()
		}
		c.enter(ctx, c.p.Constants.StartDeadline)
		c.advance(ctx)
		return
	}
	c.become("reserve", coordinatorReserving)
	c.sent = c.p.Clock.Now()
	c.awaitBarrier(ctx)
	c.enter(ctx, c.p.Constants.ReserveDeadline)
}

// enter starts a phase with a command, and sends the command to every node that lags behind.
func (c *Coordinator) enter(ctx actor.Context, limit time.Duration) {
	c.sendPending(ctx)
	c.await(ctx, limit)
}

// await sets the phase's deadline and the timer for repeats of its command.
func (c *Coordinator) await(ctx actor.Context, limit time.Duration) {
	c.phase++
	c.p.Clock.After(limit, ctx.Self(), deadline{c.phase})
	c.resend.Begin(ctx, &c.p.Ports)
}

// move records the stage of a node.
func (c *Coordinator) move(w *party, s stage) {
	c.reached[w.stage]--
	c.reached[s]++
	w.stage = s
}

// party finds the node that sent a fact. Only the node's current incarnation counts.
func (c *Coordinator) party(o *messages.Origin) *party {
	w := c.at[topology.NodeID(o.Node)]
	if w == nil || !w.known || w.MachineID != o.MachineId || !messages.SameIncarnation(w.Incarnation, o.Incarnation) {
		return nil
	}
	w.version = max(w.version, o.LedgerVersion)
	return w
}

// onReserved counts a grant while the phase is reserving. For an attempt that an earlier leader committed, a Reserved
// is an old message. It may contain ranks that have ended in the meantime, so it is ignored.
func (c *Coordinator) onReserved(ctx actor.Context, m *messages.Reserved) {
	w := c.party(m.Origin)
	if w == nil || w.stage != stageAsked || !c.states.In(coordinatorReserving) {
		return
	}
	if why := w.misgranted(m, c.plan.Spec.GpuType); why != "" {
		why = "answer to Reserve: " + why
		ctx.Send(c.scheduler, protocol.Balked{Node: w.Node, Token: c.plan.Token, Detail: why, Untrue: true})
		c.abort(ctx, "refused") // the node may have a reservation, so it gets an Abort like all others
		return
	}
	c.move(w, stageReserved)
	w.grants, w.address, w.port = m.Grants, m.Address, m.RendezvousPort
	if c.behind(stageReserved) > 0 {
		return
	}
	if c.tooLate() || c.untellable(ctx) {
		c.abort(ctx, "refused")
		return
	}
	c.become("all reserved", coordinatorDeciding)
	c.phase++
	c.resend.End()
	c.tellOccupied(ctx)
	ctx.Send(c.job, protocol.Granted{Token: c.plan.Token, Places: c.places(), Meet: c.rendezvous(), DecideBy: c.decideBy(),
		Took: c.p.Clock.Now().Since(c.sent)})
}

// behind counts the nodes that have not reached a stage.
func (c *Coordinator) behind(s stage) int {
	n := 0
	for _, here := range c.reached[:s] {
		n += here
	}
	return n
}

// places returns the placement of every member, as COMMIT records it.
func (c *Coordinator) places() []*messages.Place {
	n := 0
	for _, w := range c.parties {
		n += len(w.grants)
	}
	places := messages.Many[messages.Place](n)
	next := places
	for _, w := range c.parties {
		for _, g := range w.grants {
			p := next[0]
			p.Rank, p.Node, p.MachineId, p.Grant, p.Address = g.Rank, string(w.Node), w.MachineID, g, w.address
			next = next[1:]
		}
	}
	return places
}

// rendezvous returns rank 0's address and the list of members. It is built once, when all nodes have reserved, and
// shared by all messages. Built for each node, it took a fifth of a gang's cost, which grew with the square of its
// size.
func (c *Coordinator) rendezvous() *messages.Rendezvous {
	if c.meeting == nil {
		n := 0
		for _, w := range c.parties {
			n += len(w.Members)
		}
		peers := messages.Many[messages.Peer](n)
		c.meeting = &messages.Rendezvous{Address: c.parties[0].address, Port: c.parties[0].port, Peers: peers}
		for _, w := range c.parties {
			for _, m := range w.Members {
				p := peers[0]
				p.Rank, p.Node, p.Address, p.Rack = m.Rank, string(w.Node), w.address, w.Rack
				peers = peers[1:]
			}
		}
	}
	return c.meeting
}

func (c *Coordinator) tellOccupied(ctx actor.Context) {
	told := protocol.Occupied{Token: c.plan.Token}
	for _, w := range c.parties {
		told.Answers = append(told.Answers, protocol.Answer{Node: w.Node, Incarnation: w.Incarnation, Version: w.version})
	}
	ctx.Send(c.scheduler, told)
}

func (c *Coordinator) onRefused(ctx actor.Context, m *messages.Refused) {
	w := c.party(m.Origin)
	if w == nil {
		return
	}
	switch {
	case c.states.In(coordinatorReserving) && w.stage == stageAsked:
		c.balk(ctx, w, m)
		c.move(w, stageAborted) // the node holds nothing and will not
		c.abort(ctx, "refused")
	case c.states.In(coordinatorCommitting) && w.stage < stageCommitted:
		c.balk(ctx, w, m)
		c.falter(ctx, messages.Cause_CAUSE_EXPIRED, w, "commit refused: "+m.Detail)
	}
}

func (c *Coordinator) balk(ctx actor.Context, w *party, m *messages.Refused) {
	ctx.Send(c.scheduler, protocol.Balked{Node: w.Node, Token: c.plan.Token, Reason: m.Reason, Detail: m.Detail,
		Origin: m.Origin,
		Ledger: m.Ledger})
}

// onReached records that a node has reached a stage, and advances when all have.
func (c *Coordinator) onReached(ctx actor.Context, o *messages.Origin, s stage) {
	w := c.party(o)
	if w == nil || c.states.In(coordinatorReserving, coordinatorDeciding, coordinatorAborting) {
		return
	}
	c.move(w, max(w.stage, s))
	c.advance(ctx)
}

// advance enters the next phases after COMMIT as far as every node has come. It is the start barrier: no task starts
// before all tasks are prepared.
func (c *Coordinator) advance(ctx actor.Context) {
	if c.states.In(coordinatorCommitting) && c.behind(stageCommitted) == 0 {
		c.become("all committed", coordinatorPreparing)
		c.await(ctx, c.prepareTimeout()) // Commit starts the preparation, and is only repeated here
	}
	if c.states.In(coordinatorPreparing) && c.behind(stagePrepared) == 0 && !c.late(ctx) {
		c.become("all prepared", coordinatorStarting)
		if c.decided != 0 {
			c.prepared = c.p.Clock.Now().Since(c.decided)
		}
		c.enter(ctx, c.p.Constants.StartDeadline)
	}
	if c.states.In(coordinatorStarting) && c.behind(stageStarted) == 0 && !c.late(ctx) {
		c.become("all started", coordinatorDone)
		ctx.Send(c.scheduler, protocol.Launched{Nodes: c.nodes()})
		ctx.Send(c.job, protocol.BarrierPassed{Token: c.plan.Token, Prepared: c.prepared})
		ctx.Stop(ctx.Self())
	}
}

func (c *Coordinator) nodes() []topology.NodeID {
	all := make([]topology.NodeID, len(c.parties))
	for i, w := range c.parties {
		all[i] = w.Node
	}
	return all
}

func (c *Coordinator) prepareTimeout() time.Duration {
	if ms := c.plan.Spec.PrepareTimeoutMs; ms > 0 {
		return actors.Millis(ms)
	}
	return c.p.Constants.PrepareTimeout
}

func (c *Coordinator) onExpired(ctx actor.Context, m *messages.Expired) {
	if w := c.party(m.Origin); w != nil && c.states.In(coordinatorCommitting, coordinatorPreparing, coordinatorStarting) {
		// Unless the node is backed off, the next attempt would use it at once and get the same answer.
		ctx.Send(c.scheduler, protocol.Balked{Node: w.Node, Token: c.plan.Token, Detail: "reservation expired"})
		c.falter(ctx, messages.Cause_CAUSE_EXPIRED, w, "reservation expired")
	}
}

// falter reports to the Job that the attempt cannot reach the barrier. The Job writes ENDED and then halts the
// Coordinator. Until then the Coordinator continues, which is harmless.
func (c *Coordinator) falter(ctx actor.Context, cause messages.Cause, w *party, detail string) {
	detail = fmt.Sprintf("%s: %s", w.Node, detail)
	ctx.Send(c.job, protocol.Faltered{Token: c.plan.Token, Cause: cause, Node: w.Node, Detail: detail})
}

// onRanksGone counts members that have ended as past the barrier. If a member failed, the Job ends the attempt.
func (c *Coordinator) onRanksGone(ctx actor.Context, m protocol.RanksGone) {
	w := c.at[m.Node]
	if w == nil {
		return
	}
	if w.gone == nil {
		w.gone = map[int32]bool{}
	}
	for _, r := range m.Ranks {
		w.gone[r] = true
	}
	if w.allGone() && c.states.In(coordinatorCommitting, coordinatorPreparing, coordinatorStarting) {
		c.move(w, stageStarted)
		c.advance(ctx)
	}
}

// onSighted compares the attempt with the ledger in a node's Hello.
func (c *Coordinator) onSighted(ctx actor.Context, m protocol.Sighted) {
	if w := c.at[m.Node]; w != nil && w.MachineID == m.MachineID {
		c.sight(ctx, w, m)
	}
}

func (c *Coordinator) sight(ctx actor.Context, w *party, m protocol.Sighted) {
	first := !w.known
	restarted := !first && !messages.SameIncarnation(w.Incarnation, m.Incarnation)
	answered := w.stage > stageAsked && w.version <= m.Version
	missing := m.Allocation == nil && (restarted || answered || first)
	w.Incarnation, w.Vocabulary, w.known = m.Incarnation, m.Vocabulary, true
	if restarted {
		w.version = m.Version
	}
	if first {
		c.noteHeld(ctx, w, m.Allocation)
	}
	switch {
	case c.states.In(coordinatorReserving):
		if restarted {
			c.move(w, stageAborted) // its reservation was lost with its agent
			c.abort(ctx, "refused")
		}
	case c.states.In(coordinatorDeciding):
		// COMMIT is being written. If the reservation is lost, the node answers Commit with Expired.
	case c.states.In(coordinatorAborting):
		if restarted {
			c.move(w, stageAborted)
			c.abortedAll(ctx)
		}
	case w.allGone():
		// All its members have ended, and the Job knows how.
	case (restarted || first) && w.unversed(c.plan.Spec) &&
		m.Allocation.GetState() < messages.SliceState_SLICE_STATE_STARTED:
		c.falter(ctx, messages.Cause_CAUSE_EXPIRED, w,
			"node returned with an older agent, which would ignore the job's script or network")
	case missing && c.heir() && w.stage < stageCommitted && c.states.In(coordinatorCommitting):
		c.sendTo(ctx, w) // it may still keep the resources of the attempt before
	case missing:
		c.falter(ctx, messages.Cause_CAUSE_EXPIRED, w, "node returned without the allocation")
	case m.Allocation.GetState() > messages.SliceState_SLICE_STATE_STARTED:
		// The Job decides about an ended allocation, and no command changes it.
	case m.Allocation != nil:
		c.resumeAt(ctx, w, m.Allocation.State, restarted)
	}
}

// resumeAt sets a node's stage from the node's own report. After a restart of its agent, the stage may be earlier than
// before, but never later.
func (c *Coordinator) resumeAt(ctx actor.Context, w *party, s messages.SliceState, restarted bool) {
	reached := map[messages.SliceState]stage{
		messages.SliceState_SLICE_STATE_RESERVED:  stageReserved,
		messages.SliceState_SLICE_STATE_COMMITTED: stageCommitted,
		messages.SliceState_SLICE_STATE_PREPARED:  stagePrepared,
	}[s]
	if s == messages.SliceState_SLICE_STATE_STARTED {
		// The node is past the barrier, but only Started proves that its processes run.
		reached = stagePrepared
	}
	if restarted || reached > w.stage {
		c.move(w, reached)
	}
	c.sendTo(ctx, w)
	c.advance(ctx)
}

func (c *Coordinator) onNodeLost(ctx actor.Context, m protocol.NodeLost) {
	w := c.at[m.Node]
	switch {
	case w == nil:
	case c.states.In(coordinatorReserving):
		c.move(w, stageAborted)
		c.abort(ctx, "refused")
	case c.states.In(coordinatorAborting):
		c.move(w, stageAborted)
		c.abortedAll(ctx)
	}
}

func (c *Coordinator) onDecided(ctx actor.Context) {
	if !c.states.In(coordinatorDeciding) {
		return
	}
	c.become("decided", coordinatorCommitting)
	c.decided = c.p.Clock.Now()
	if c.late(ctx) {
		return
	}
	c.enter(ctx, c.p.Constants.StartDeadline)
	c.advance(ctx)
}

func (c *Coordinator) onHalt(ctx actor.Context) {
	switch {
	case c.states.In(coordinatorReserving, coordinatorDeciding):
		c.abort(ctx, "halted")
	case c.states.In(coordinatorCommitting, coordinatorPreparing, coordinatorStarting):
		c.become("halted", coordinatorDone)
		ctx.Stop(ctx.Self())
	}
}

func (c *Coordinator) onDeadline(ctx actor.Context, m deadline) {
	if m.Phase != c.phase {
		return
	}
	switch {
	case c.states.In(coordinatorReserving):
		for _, w := range c.parties {
			if w.stage == stageAsked {
				ctx.Send(c.scheduler, protocol.Balked{Node: w.Node, Token: c.plan.Token,
					Detail: "Reserve not answered in time"})
			}
		}
		c.abort(ctx, "refused")
	case c.states.In(coordinatorAborting):
		c.finishAbort(ctx, "time is over")
	case c.states.In(coordinatorCommitting):
		c.missed(ctx, stageCommitted, messages.Cause_CAUSE_EXPIRED, "allocation not saved in time")
	case c.states.In(coordinatorPreparing):
		c.missed(ctx, stagePrepared, messages.Cause_CAUSE_PREPARE_TIMEOUT, "image or rootfs not ready in time")
	case c.states.In(coordinatorStarting):
		c.missed(ctx, stageStarted, messages.Cause_CAUSE_START_TIMEOUT, "task not started in time")
	}
}
