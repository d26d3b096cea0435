package coordinator

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
)

// This file owns how the nodes of a gang get the list of members. The list is packed once and sent to each node once,
// in parts that fit any link. The first part goes with Start. Each further part follows when the node reports how much
// it has. A repeated Start carries no part. With the entire list in every Start, the cost of a gang would grow with the
// square of its size. A very large list would not fit into a message. A node with an older agent gets the members one
// by one, in every Start.

// rosterSource holds the packed list and the common parts of every Start.
type rosterSource struct {
	where  *messages.Rendezvous // address of rank 0
	digest uint64
	data   []byte
	first  *messages.Roster // the part that goes with Start
	bare   *messages.Roster // without a part
	plain  int              // size of the same list for older agents; 0: unknown
}

// partyRoster notes which part of the roster a node was sent.
type partyRoster struct {
	begun bool // the first part was sent
	until int  // end of the last part sent after the last Start; requests below it are already answered
}

// pack builds the list once.
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

// part returns a section of the list.
func (r *rosterSource) part(from, most int) *messages.Roster {
	data := r.data[from:min(from+most, len(r.data))]
	return &messages.Roster{Digest: r.digest, SizeBytes: int32(len(r.data)), OffsetBytes: int32(from), Data: data}
}

// start sends Start. It adds the beginning of the list if the node has not been sent it.
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

// onLacking sends a node the next part of the list. Parts that were sent after the last Start are not repeated before
// the next Start, however often the node requests them.
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

// untellable reports whether an older agent cannot receive a list of this size. Its link would drop the message
// repeatedly. Such a node is backed off, with the reason.
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

// overlong returns why a node cannot receive the list. It returns the empty string if the node can.
func (c *Coordinator) overlong(w *party) string {
	if w.Vocabulary >= messages.VocabularyRoster {
		return ""
	}
	meet := c.meet()
	if c.roster.plain == 0 {
		c.roster.plain = messages.Size(c.startWith(w, meet, nil)) + messages.MaxIDBytes // the longest node name
	}
	if c.roster.plain <= messages.MaxMessageBytes {
		return ""
	}
	return fmt.Sprintf(
		"agent is too old for a gang of %d tasks: upgrade the agent, or make the gang smaller",
		len(meet.GetPeers()))
}
