package scheduler

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
	"github.com/yi-json/synapse/topology/belief"
)

// This file owns swaps: other nodes replace the nodes of a gang that are lost or must not be used again, while the rest
// of the gang keeps its nodes. A swap comes before every waiting job, but it never uses capacity that is reserved for
// one. The ranks of a node stay together. If there is no capacity, the swap is tried again in every pass, until the
// job gives it up.

// swaps are the gangs that wait for other nodes, in the order of their requests.
type swaps []protocol.Inherit

// dropSwap forgets the request of a job.
func (s *planning) dropSwap(job topology.JobID) {
	s.swaps = slices.DeleteFunc(s.swaps, func(m protocol.Inherit) bool { return m.Job == job })
}

// placeSwaps answers each gang for which there are nodes now.
func (s *Scheduler) placeSwaps(ctx actor.Context) {
	s.swaps = slices.DeleteFunc(s.swaps, func(m protocol.Inherit) bool {
		e := s.jobs[m.Job]
		return e == nil || e.remakes || e.pid == nil || s.placeSwap(ctx, e, m)
	})
}

// placeSwap places the members of one gang that lost their nodes, and claims the new nodes. It reports whether the
// gang got its answer.
func (s *Scheduler) placeSwap(ctx actor.Context, e *livingJob, m protocol.Inherit) bool {
	kept, gone := s.splitTargets(m)
	if len(kept) == 0 {
		ctx.Send(e.pid, protocol.Heir{From: m.From, Why: "no node can be used again"})
		return true
	}
	if len(gone) == 0 { // a node can be used again
		ctx.Send(e.pid, protocol.Heir{From: m.From, Token: s.newToken()})
		return true
	}
	nodes := s.replacements(e, m, kept, gone)
	if nodes == nil {
		return false
	}
	who := belief.Lodger{Token: s.newToken(), Job: e.id, UID: e.uid}
	if e.run != nil {
		who.Stay = e.run.stay
	}
	told := protocol.Heir{From: m.From, Token: who.Token, Targets: kept, Spares: sparesOf(e)}
	var fresh []protocol.Target
	for i, t := range gone {
		who.Over = overSpare(e, nodes[i].id, &told.Spares)
		for _, member := range t.Members {
			nodes[i].room.Claim(&who, messages.FromResources(member.Amount))
		}
		s.refresh(ctx, nodes[i])
		fresh = append(fresh, s.target(nodes[i], t.Members))
	}
	told.Targets = append(told.Targets, fresh...)
	slices.SortFunc(told.Targets, func(a, b protocol.Target) int {
		return int(a.Members[0].Rank) - int(b.Members[0].Rank)
	})
	ctx.Send(e.pid, told)
	s.doubtLater(ctx, protocol.Claim{Job: e.id, Token: who.Token, Targets: fresh})
	return true
}

// replacements returns another node for each node that is gone, or nil if there is none for one of them. The spares of
// the gang come first.
func (s *Scheduler) replacements(e *livingJob, m protocol.Inherit, kept, gone []protocol.Target) (nodes []*machine) {
	spares := s.heldSpares(e)
	for _, sp := range spares { // so that they can be placed on
		s.loosenSpare(sp)
		defer s.tightenSpare(e, sp)
	}
	gang, _ := s.avoiding(e, e.rec.Spec)
	gang.Closing, _ = s.closingFor(e.rec.Spec)
	gang.Exclude = slices.Clone(gang.Exclude)
	for _, t := range m.Kept {
		gang.Exclude = append(gang.Exclude, t.Node)
	}
	for _, t := range gone {
		n, ok := s.replaceBySpare(gang, spares, kept, t.Members)
		if !ok {
			n, ok = s.replace(gang, kept, t.Members)
		}
		if !ok {
			return nil
		}
		gang.Exclude = append(gang.Exclude, n)
		nodes = append(nodes, s.machines[n])
	}
	return nodes
}

// splitTargets returns the nodes that the gang keeps, and those that must be replaced.
func (s *nodeTable) splitTargets(m protocol.Inherit) (kept, gone []protocol.Target) {
	gone = slices.Clone(m.Gone)
	for _, t := range m.Kept {
		if s.barsAgain(t.Node) != "" {
			gone = append(gone, t)
			continue
		}
		t = s.target(s.machines[t.Node], t.Members)
		t.Kept = true
		kept = append(kept, t)
	}
	return kept, gone
}

// replaceBySpare returns the spare that takes over the ranks of another node.
func (s *Scheduler) replaceBySpare(gang topology.Gang, spares []*spare, kept []protocol.Target,
	members []*messages.Member,
) (topology.NodeID, bool) {
	if len(spares) == 0 {
		return "", false
	}
	gang.Only = nil
	for _, sp := range spares {
		gang.Only = append(gang.Only, sp.node)
	}
	return s.replace(gang, kept, members)
}

// replace returns the node that takes over the ranks of another node. It is as close to the kept nodes as possible, and
// in their domain of the required level.
func (s *Scheduler) replace(gang topology.Gang, kept []protocol.Target, members []*messages.Member) (
	topology.NodeID, bool,
) {
	gang.Replicas, gang.Each = int32(len(members)), messages.FromResources(members[0].Amount)
	gang.Total, gang.Split, gang.Apart = topology.Resources{}, topology.SplitNone, false
	required := slices.Index(s.levels, gang.Required) + 1
	domain := s.domainOf(kept)
	gang.Required, gang.Preferred = topology.NodeLevel, ""
	selector := gang.Selector
	for depth := len(domain); depth >= min(required, len(domain)); depth-- {
		gang.Selector = slices.Concat(selector, domain[:depth])
		place, no := topology.Place(s.view.Tree(), gang)
		if no == nil && s.inSameDomain(kept[0].Node, place.Slots[0].Node, required) {
			return place.Slots[0].Node, true
		}
	}
	return "", false
}

// domainOf returns the labels of the finest domain that holds all kept nodes, from the coarsest level down. It stops at
// a level whose domain has no name.
func (s *nodeTable) domainOf(kept []protocol.Target) (domain []topology.Label) {
	for i, level := range s.levels {
		at := topology.Label{Key: level, Value: placeAt(s.machines[kept[0].Node].record.GetAnnouncement(), level)}
		for _, t := range kept {
			if !s.inSameDomain(kept[0].Node, t.Node, i+1) {
				return domain
			}
		}
		if !slices.Contains(messages.FromLabels(s.machines[kept[0].Node].record.GetAnnouncement().GetPlace()), at) {
			return domain
		}
		domain = append(domain, at)
	}
	return domain
}

// inSameDomain reports whether two nodes are in the same domain of each of the first levels.
func (s *nodeTable) inSameDomain(a, b topology.NodeID, levels int) bool {
	for _, level := range s.levels[:levels] {
		if placeAt(s.machines[a].record.GetAnnouncement(), level) !=
			placeAt(s.machines[b].record.GetAnnouncement(), level) {
			return false
		}
	}
	return true
}

// target describes a node for an attempt.
func (s *nodeTable) target(m *machine, members []*messages.Member) protocol.Target {
	return protocol.Target{
		Node: m.id, MachineID: m.record.MachineId, Incarnation: m.incarnation, Vocabulary: m.vocabulary,
		Rack: m.finest, DespiteUnhealthy: m.health == healthExcused, Announced: m.record.Announcement, Members: members,
	}
}
