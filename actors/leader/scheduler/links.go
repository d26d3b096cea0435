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

// This file owns the first word to a machine: as long as its link stands, it is
// asked for its Hello until it says it. One Lead that was lost must not leave a
// living machine out for ever. The first is often lost: a link may stand before
// there is a Node behind it.

// greetings are the machines that this leader has asked and not yet heard, each
// with the number of the asking that counts; timers of earlier ones are stale.
type greetings struct {
	unheard map[topology.NodeID]uint64
	seq     uint64
	foreign map[topology.NodeID]string // whose link stands: the other cluster that each belongs to, as the log has it
}

func newGreetings() greetings {
	return greetings{unheard: map[topology.NodeID]uint64{}, foreign: map[topology.NodeID]string{}}
}

// greetAgain asks once more, after a pause that doubles.
type greetAgain struct {
	Node  topology.NodeID
	Seq   uint64
	Pause time.Duration
}

// onLinkUp greets a machine: whoever leads asks it for its Hello.
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

// onLinkDown: nothing is resent while the link is down, nothing is kept of whoever
// was turned away, and nobody is greeted whose link came and went before this
// leader was ready.
func (s *Scheduler) onLinkDown(ctx actor.Context, m actors.LinkDown) {
	delete(s.greetings.unheard, m.Node)
	delete(s.greetings.foreign, m.Node)
	if who := s.machines[m.Node]; who != nil && who.record == nil && who.obeys > 0 { // it was shown, and never ours
		who.obeys = 0
		ctx.Send(s.peers.Mirror, mirror.NodeHidden(m))
	}
	s.early = slices.DeleteFunc(s.early, func(n topology.NodeID) bool { return n == m.Node })
}

func (s *base) lead(ctx actor.Context, n topology.NodeID) {
	ctx.Request(s.p.Peers.Node(n), &messages.Lead{Epoch: s.p.Epoch, ClusterId: s.p.ClusterID})
}
