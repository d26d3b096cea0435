package scheduler

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/clock/backoff"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the first message to a node. While a node's link is up, the leader repeats Lead until the node sends
// Hello. A single lost Lead must not exclude a working node. The first one is often lost, because a link may be up
// before its Node actor exists.

// greetings holds the nodes that this leader has greeted and not heard, each with the number of its valid timer.
type greetings struct {
	unheard map[topology.NodeID]uint64
	seq     uint64
	foreign map[topology.NodeID]string // nodes of other clusters with a link: the cluster that was logged for each
}

func newGreetings() greetings {
	return greetings{unheard: map[topology.NodeID]uint64{}, foreign: map[topology.NodeID]string{}}
}

// greetAgain is the timer for the next Lead, with a doubling delay.
type greetAgain struct {
	Node  topology.NodeID
	Seq   uint64
	Pause time.Duration
}

// onLinkUp greets a node by a Lead, which asks for its Hello.
func (s *Scheduler) onLinkUp(ctx actor.Context, m actors.LinkUp) {
	if s.states.In(schedulerLoading) {
		s.early = append(s.early, m.Node)
		return
	}
	s.greet(ctx, m.Node)
}

func (s *greeter) greet(ctx actor.Context, n topology.NodeID) {
	s.greetings.seq++
	s.greetings.unheard[n] = s.greetings.seq
	s.onGreetAgain(ctx, greetAgain{Node: n, Seq: s.greetings.seq, Pause: s.p.Constants.ResendFirst})
}

func (s *greeter) onGreetAgain(ctx actor.Context, m greetAgain) {
	if s.greetings.unheard[m.Node] != m.Seq {
		return
	}
	s.lead(ctx, m.Node)
	next := m
	next.Pause = backoff.Next(m.Pause, s.p.Constants.ResendFirst, s.p.Constants.ResendCap)
	s.p.Clock.After(m.Pause, ctx.Self(), next)
}

// onLinkDown stops the repeats to a node, forgets its refusal, and removes it from the links that came before this
// leader was ready.
func (s *Scheduler) onLinkDown(ctx actor.Context, m actors.LinkDown) {
	delete(s.greetings.unheard, m.Node)
	delete(s.greetings.foreign, m.Node)
	if who := s.machines[m.Node]; who != nil && who.record == nil && who.obeys > 0 { // it was shown, but never joined
		who.obeys = 0
		ctx.Send(s.peers.Mirror, mirror.NodeHidden(m))
	}
	s.early = slices.DeleteFunc(s.early, func(n topology.NodeID) bool { return n == m.Node })
}

func (s *base) lead(ctx actor.Context, n topology.NodeID) {
	ctx.Request(s.p.Peers.Node(n), &messages.Lead{Epoch: s.p.Epoch, ClusterId: s.p.ClusterID})
}
