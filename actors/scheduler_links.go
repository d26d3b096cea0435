package actors

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the first word to a machine: as long as its link stands, it is
// asked for its Hello until it says it. One Lead that was lost must not leave a
// living machine out for ever.

// greeting is whom this leader has asked and not yet heard.
type greeting struct {
	unheard map[topology.NodeID]bool
	order   []topology.NodeID // the same, in the order they were asked, and some that were heard since
	armed   bool
}

type greetAgain struct{}

// onLinkUp greets a machine: whoever leads asks it for its Hello.
func (s *Scheduler) onLinkUp(ctx actor.Context, m LinkUp) {
	if s.states.in("loading") {
		s.early = append(s.early, m.Node)
		return
	}
	s.greet(ctx, m.Node)
}

func (s *Scheduler) greet(ctx actor.Context, n topology.NodeID) {
	g := &s.greeting
	if g.unheard == nil {
		g.unheard = map[topology.NodeID]bool{}
	}
	if !g.unheard[n] {
		g.unheard[n] = true
		g.order = append(g.order, n)
	}
	s.lead(ctx, n)
	if !g.armed {
		g.armed = true
		s.p.Clock.After(s.p.Constants.ResendCap, ctx.Self(), greetAgain{})
	}
}

// onLinkDown: nothing is resent while the link is down.
func (s *Scheduler) onLinkDown(m LinkDown) { delete(s.greeting.unheard, m.Node) }

func (s *Scheduler) onGreetAgain(ctx actor.Context) {
	g := &s.greeting
	g.armed = false
	asked := g.order
	g.order = nil
	for _, n := range asked {
		if g.unheard[n] {
			delete(g.unheard, n)
			s.greet(ctx, n)
		}
	}
}

func (s *Scheduler) lead(ctx actor.Context, n topology.NodeID) {
	ctx.Request(s.p.Leader.Peers.Node(n), &messages.Lead{Epoch: s.p.Leader.Epoch, ClusterId: s.p.Leader.ClusterID})
}
