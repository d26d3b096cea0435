package link

import (
	"slices"
	"strings"

	"github.com/yi-json/synapse/topology"
)

// This file owns which stream belongs to which node at a scheduler.
//
// A name belongs to the first node that uses it, until the actors decide otherwise. A second node with the same name,
// such as a cloned disk, does not displace the first one. It gets its own address, node-ID~MACHINE, so that it can be
// asked for its Hello and gets the reason of its refusal. The link cannot know which of the two is the right one. The
// right one is the node that the leader welcomes. That may be the second one, if the first was removed or if the clone
// dialed first after a restart. The name then moves to it with the Welcome.

// namedStreams holds all streams under one node's name.
type namedStreams struct {
	holder *machine
	others []*machine
}

// machine is a scheduler's end of a stream.
type machine struct {
	caller
	line *line
}

// own returns the node's address while it does not hold the name.
func (m *machine) own() string { return nodePrefix + string(m.node) + second + m.machine }

func nameOf(id topology.NodeID) string { return nodePrefix + string(id) }

// places maps node names to streams. The Server's lock guards it.
type places map[topology.NodeID]*namedStreams

// find returns which node has an address now, and whether it holds the name.
func (p places) find(address string) (m *machine, holds bool) {
	name, ok := strings.CutPrefix(address, nodePrefix)
	if !ok {
		return nil, false
	}
	id, which, ok := strings.Cut(name, second)
	here := p[topology.NodeID(id)]
	switch {
	case here == nil:
		return nil, false
	case !ok || here.holder != nil && here.holder.machine == which:
		return here.holder, true
	}
	for _, m := range here.others {
		if m.machine == which {
			return m, false
		}
	}
	return nil, false
}

// admit gives a new stream its address. The stream replaces an older stream of the same node, which admit returns. It
// returns false if too many nodes have come under the name, or if the older stream has another authenticated key. A
// machine ID is no secret, so it must not suffice to end the node's stream.
func (p places) admit(m *machine) (older *machine, ok bool) {
	here := p[m.node]
	if here == nil {
		here = &namedStreams{}
		p[m.node] = here
	}
	if here.holder == nil {
		older = here.dismiss(m.machine)
		here.holder = m
		return older, true
	}
	if here.holder.machine == m.machine {
		if here.holder.key != m.key {
			return nil, false
		}
		older, here.holder = here.holder, m
		return older, true
	}
	older = here.dismiss(m.machine)
	if len(here.others) >= maxMachines-1 {
		return older, false
	}
	here.others = append(here.others, m)
	own := m.own()
	m.line.known.Store(&own)
	return older, true
}

// dismiss removes a node from the others.
func (h *namedStreams) dismiss(machineID string) *machine {
	for i, m := range h.others {
		if m.machine == machineID {
			h.others = slices.Delete(h.others, i, i+1)
			return m
		}
	}
	return nil
}

// leave removes a stream from its place, and reports whether it had one. None of the others moves up. The right node
// takes the name when it returns, and any other node only if it is welcomed.
func (p places) leave(m *machine) bool {
	here := p[m.node]
	if here == nil {
		return false
	}
	left := false
	if here.holder == m {
		here.holder, left = nil, true
	} else if i := slices.Index(here.others, m); i >= 0 {
		here.others, left = slices.Delete(here.others, i, i+1), true
	}
	if here.holder == nil && len(here.others) == 0 {
		delete(p, m.node)
	}
	return left
}

// promote gives the name to one of the others, and returns the node that had it.
func (p places) promote(m *machine) (demoted *machine) {
	here := p[m.node]
	here.dismiss(m.machine)
	demoted, here.holder = here.holder, m
	name := nameOf(m.node)
	m.line.known.Store(&name)
	if demoted != nil {
		here.others = append(here.others, demoted)
		own := demoted.own()
		demoted.line.known.Store(&own)
	}
	return demoted
}

// holds reports whether another stream of the same node has the name.
func (p places) holds(m *machine) bool {
	here := p[m.node]
	return here != nil && here.holder != nil && here.holder != m && here.holder.machine == m.machine
}
