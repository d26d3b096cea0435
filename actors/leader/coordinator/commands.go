package coordinator

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the commands that a Coordinator sends and repeats. Every node that lags behind gets the phase's
// command, with growing pauses, until the phase's deadline. No other actor repeats these commands.

func (c *Coordinator) onResend(ctx actor.Context, m actors.ResendDue) {
	if c.resend.Again(ctx, &c.p.Ports, m) {
		c.sendPending(ctx)
	}
}

func (c *Coordinator) sendPending(ctx actor.Context) {
	for _, w := range c.parties {
		c.sendTo(ctx, w)
	}
}

// sendTo sends a node the command of the phase, unless the node is past it.
func (c *Coordinator) sendTo(ctx actor.Context, w *party) {
	if !w.known {
		return // not heard since the takeover: the node needs reconciliation before commands
	}
	var command any
	switch {
	case c.states.In(coordinatorReserving) && w.stage == stageAsked:
		command = c.reserve(w)
	case c.states.In(coordinatorAborting) && w.stage != stageAborted:
		command = &messages.Abort{Order: c.order(w)}
	case c.states.In(coordinatorCommitting, coordinatorPreparing, coordinatorStarting) && w.stage < stagePrepared:
		command = &messages.Commit{
			Order: c.order(w), Spec: c.plan.Spec, Uid: c.plan.UID, Members: w.Members,
			Owner: c.plan.Owner.GetName(), OwnerProven: c.plan.Owner.GetProven(),
			Inherited: c.plan.Inherited,
		}
	case c.states.In(coordinatorStarting) && w.stage == stagePrepared:
		if !c.overdue() {
			c.start(ctx, w)
		}
		return
	default:
		return
	}
	c.send(ctx, w, command)
}

func (c *Coordinator) send(ctx actor.Context, w *party, command any) {
	if w.pid == nil {
		w.pid = c.p.Peers.Node(w.Node)
	}
	ctx.Request(w.pid, command)
}

func (c *Coordinator) order(w *party) *messages.Order {
	if len(c.blank) == 0 {
		c.blank = messages.Many[messages.Order](min(len(c.parties), 16))
	}
	c.seq++
	o := c.blank[0]
	c.blank = c.blank[1:]
	o.Epoch, o.Token, o.Job = c.p.Epoch, c.token, string(c.plan.Job)
	o.Node, o.Incarnation, o.Seq = string(w.Node), w.Incarnation, c.seq
	return o
}

func (c *Coordinator) reserve(w *party) *messages.Reserve {
	return &messages.Reserve{
		Order: c.order(w), Members: w.Members, Rendezvous: w.Members[0].Rank == 0,
		TtlMs: c.p.Constants.ReservationTTL.Milliseconds(), GpuType: c.plan.Spec.GpuType,
		DespiteUnwell: w.DespiteUnhealthy,
	}
}

// heir reports whether the attempt continues another one in place.
func (c *Coordinator) heir() bool { return c.plan.Inherited != nil }

// keepPlaces makes the kept nodes of the attempt before count as reserved, with the same grants. They are not asked,
// because they keep the resources until COMMIT passes them on.
func (c *Coordinator) keepPlaces() {
	for _, p := range c.plan.Before.GetPlaces() {
		w := c.at[topology.NodeID(p.Node)]
		if w == nil || !w.Kept {
			continue
		}
		if w.stage == stageAsked {
			c.move(w, stageReserved)
			w.address = p.Address
		}
		if p.Rank == 0 {
			w.port = c.plan.Meet
		}
		w.grants = append(w.grants, p.Grant)
	}
}

// meet returns the rendezvous. If an earlier leader committed the attempt, it comes from COMMIT.
func (c *Coordinator) meet() *messages.Rendezvous {
	if c.plan.Resumed != nil {
		return c.plan.Resumed.Rendezvous
	}
	return c.rendezvous()
}

// abort gives up an attempt that has no COMMIT. The Job returns to the queue at once. The Coordinator stays until every
// node is known to hold nothing, because the claims must stay in the view until then.
func (c *Coordinator) abort(ctx actor.Context, event string) {
	c.become(event, coordinatorAborting)
	ctx.Send(c.job, protocol.Aborted{Token: c.plan.Token})
	for _, w := range c.parties {
		if w.Kept {
			c.move(w, stageAborted) // it was not asked, and keeps the resources for another heir
		}
	}
	// A reservation expires at its TTL, counted from a Reserve that was sent no later than now.
	c.enter(ctx, c.p.Constants.ReservationTTL+c.p.Constants.DecisionMargin)
	c.abortedAll(ctx)
}

func (c *Coordinator) onAborted(ctx actor.Context, m *messages.Aborted) {
	if w := c.party(m.Origin); w != nil && c.states.In(coordinatorAborting) {
		c.move(w, stageAborted)
		c.abortedAll(ctx)
	}
}

func (c *Coordinator) abortedAll(ctx actor.Context) {
	if c.states.In(coordinatorAborting) && c.behind(stageAborted) == 0 {
		c.finishAbort(ctx, "all aborted")
	}
}

func (c *Coordinator) finishAbort(ctx actor.Context, event string) {
	c.become(event, coordinatorDone)
	told := protocol.Vacated{Token: c.plan.Token}
	for _, w := range c.parties {
		a := protocol.Answer{Node: w.Node, Incarnation: w.Incarnation}
		if w.stage == stageAborted {
			a.Version = w.version
		}
		told.Answers = append(told.Answers, a)
	}
	ctx.Send(c.scheduler, told)
	ctx.Stop(ctx.Self())
}

// missed ends the attempt because of the first late node, and backs off all late nodes. A node that was not heard after
// the takeover is left to its Rack, because it may be joining or may follow another leader.
func (c *Coordinator) missed(ctx actor.Context, s stage, cause messages.Cause, detail string) {
	first := true
	for _, w := range c.parties {
		if w.stage >= s || !w.known {
			continue
		}
		ctx.Send(c.scheduler, protocol.Balked{Node: w.Node, Token: c.plan.Token, Detail: detail})
		if first {
			c.falter(ctx, cause, w, detail)
			first = false
		}
	}
	if first {
		c.await(ctx, c.p.Constants.StartDeadline)
	}
}
