package coordinator

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
)

// This file owns how the machines of a gang are told who is in it. The list is
// packed once and sent to each machine once, in parts that any link carries: the first with
// Start, each further one when the machine says how much it has. A Start that is sent again
// carries none of it. With all of the list in each, what a gang costs would grow with its square at
// every resend, and beyond some size it would never arrive. A machine with an agent
// of an earlier version gets the peers one by one, in every Start, as ever.

// rosterSource is the list, and what every Start has in common.
type rosterSource struct {
	where  *messages.Rendezvous // where rank 0 is
	digest uint64
	data   []byte
	first  *messages.Roster // the part that goes with Start
	bare   *messages.Roster // none
	plain  int              // bytes of the same list for earlier versions; 0: not known yet
}

// partyRoster notes which part of the roster a node was sent.
type partyRoster struct {
	begun bool // the first part
	until int  // the end of the last part since Start was sent last: what is asked for before that is on its way
}

// pack makes the list, once.
func (c *Coordinator) pack() *rosterSource {
	r := &c.roster
	if r.first == nil {
		meet := c.meet()
		r.where = &messages.Rendezvous{Address: meet.GetAddress(), Port: meet.GetPort()}
		r.data = messages.PackRoster(meet.GetPeers())
		r.digest = messages.RosterDigest(r.data)
		r.first = r.part(0, c.p.Constants.RosterPart)
		r.bare = r.part(0, 0)
	}
	return r
}

// part is so much of the list, from there on.
func (r *rosterSource) part(from, most int) *messages.Roster {
	data := r.data[from:min(from+most, len(r.data))]
	return &messages.Roster{Digest: r.digest, SizeBytes: int32(len(r.data)), OffsetBytes: int32(from), Data: data}
}

// start sends Start, with the beginning of the list where the machine has not been sent it.
func (c *Coordinator) start(ctx actor.Context, w *party) {
	if w.Vocabulary < messages.VocabularyRoster {
		if why := c.overlong(w); why != "" {
			c.falter(ctx, messages.Cause_CAUSE_START_TIMEOUT, w, why)
			return
		}
		c.send(ctx, w, c.startWith(w, c.meet(), nil))
		return
	}
	r := c.pack()
	part := r.bare
	if !w.roster.begun {
		part = r.first
	}
	w.roster = partyRoster{begun: true, until: len(part.Data)}
	c.send(ctx, w, c.startWith(w, r.where, part))
}

func (c *Coordinator) startWith(w *party, meet *messages.Rendezvous, part *messages.Roster) *messages.Start {
	return &messages.Start{Order: c.order(w), Rendezvous: meet, JobName: c.plan.Spec.Name, Run: c.plan.Run, Roster: part}
}

// onLacking sends a machine the next part of the list. What was sent since the
// last Start is not sent again before the next, however often it is asked for.
func (c *Coordinator) onLacking(ctx actor.Context, m *messages.Lacking) {
	w := c.party(m.Origin)
	if w == nil || !c.states.In(coordinatorStarting) || w.stage != stagePrepared ||
		w.Vocabulary < messages.VocabularyRoster {
		return
	}
	r, from := c.pack(), int(m.HaveBytes)
	if m.Digest != r.digest || from < w.roster.until || from >= len(r.data) {
		return
	}
	part := r.part(from, c.p.Constants.RosterPart)
	w.roster.until = from + len(part.Data)
	c.send(ctx, w, c.startWith(w, r.where, part))
}

// untellable looks for a machine whose agent is of an earlier version, and could
// not be told of so large a gang: its link would drop the message, again and again. The machine is left
// out for a while, with the reason.
func (c *Coordinator) untellable(ctx actor.Context) bool {
	found := false
	for _, w := range c.parties {
		if why := c.overlong(w); why != "" {
			ctx.Send(c.scheduler, protocol.Balked{Node: w.Node, Token: c.plan.Token, Detail: why})
			found = true
		}
	}
	return found
}

// overlong says why a machine cannot be told of the gang; empty: it can.
func (c *Coordinator) overlong(w *party) string {
	if w.Vocabulary >= messages.VocabularyRoster {
		return ""
	}
	meet := c.meet()
	if c.roster.plain == 0 {
		c.roster.plain = messages.Size(c.startWith(w, meet, nil)) + messages.MaxIDBytes // the longest node's name
	}
	if c.roster.plain <= messages.MaxMessageBytes {
		return ""
	}
	return fmt.Sprintf(
		"agent is too old for a gang of %d tasks: upgrade the agent, or make the gang smaller",
		len(meet.GetPeers()))
}
