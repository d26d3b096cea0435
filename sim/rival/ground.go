package rival

// This file places the gangs of a policy for comparison: by the rules of published simulators, or as Synapse places
// them.

import (
	"cmp"
	"slices"

	"github.com/yi-json/synapse/topology"
)

// Ground is the cluster as a policy for comparison sees it.
type Ground interface {
	look(view *topology.Tree)
	free() int
	fits(g *waiter) bool
	choose(g *waiter) Place // for a gang that fits
	// both returns a place for a gang that is free here and on a later ground, or false if there is none.
	both(later Ground, g *waiter) (Place, bool)
	take(p Place)
	give(p Place)
	clone() Ground
}

// Place is the place of a gang: parts of a Room, or a placement of Synapse.
type Place struct {
	parts []Part
	ids   []topology.NodeID
	given topology.Placement
}

// placement returns the place as a placement of the tree.
func (p Place) placement(view *topology.Tree, g *topology.Gang) topology.Placement {
	if p.parts == nil {
		return p.given
	}
	parts := slices.SortedFunc(slices.Values(p.parts), func(a, b Part) int { return cmp.Compare(a.Machine, b.Machine) })
	var out topology.Placement
	var units int64
	var given topology.Resources
	for i, part := range parts {
		units += int64(part.GPUs)
		upTo := shareOf(g, units)
		out.Slots = append(out.Slots, topology.Slot{
			Rank: topology.Rank(i), Node: p.ids[part.Machine], Amount: upTo.Minus(given),
		})
		given = upTo
	}
	if len(parts) == 1 {
		out.Level = topology.NodeLevel
	}
	return out
}

// shareOf returns the CPU and memory for this number of a gang's total GPUs.
func shareOf(g *topology.Gang, units int64) topology.Resources {
	all := g.Total.MilliGPU / topology.WholeGPU
	return topology.Resources{
		MilliCPU: g.Total.MilliCPU * units / all, MemoryBytes: g.Total.MemoryBytes / all * units,
		MilliGPU: units * topology.WholeGPU,
	}
}

// Published is the ground of published simulators: a Room, filled from the leader's view.
type Published struct {
	room *Room
	ids  []topology.NodeID
	at   map[topology.NodeID]int
}

// NewPublished returns the ground for nodes in the order of the room.
func NewPublished(room *Room, ids []topology.NodeID) *Published {
	g := &Published{room: room, ids: ids, at: map[topology.NodeID]int{}}
	for i, id := range ids {
		g.at[id] = i
	}
	return g
}

func (g *Published) look(view *topology.Tree) {
	view.Walk(func(m topology.Machine, c topology.Capacity, why string) {
		at, free := g.at[m.ID], int(c.WholeGPUs)
		if why != "" {
			free = 0
		}
		if free != g.room.free[at] {
			g.room.Set(at, free)
		}
	})
}

func (g *Published) free() int           { return g.room.sum }
func (g *Published) fits(w *waiter) bool { return g.room.Fits(w.gpus) }
func (g *Published) choose(w *waiter) Place {
	return Place{parts: g.room.Choose(w.gpus), ids: g.ids}
}

func (g *Published) both(later Ground, w *waiter) (Place, bool) {
	parts := g.room.ChooseBoth(later.(*Published).room, w.gpus)
	return Place{parts: parts, ids: g.ids}, parts != nil
}

func (g *Published) take(p Place)  { g.room.Take(p.parts) }
func (g *Published) give(p Place)  { g.room.Give(p.parts) }
func (g *Published) clone() Ground { return &Published{room: g.room.Clone(), ids: g.ids, at: g.at} }

// Own places gangs as Synapse does.
type Own struct {
	view *topology.Tree
	mine bool // the view is a copy, from which takes are subtracted
}

func (g *Own) look(view *topology.Tree) { g.view = view }

func (g *Own) free() int {
	sum := 0
	g.view.Walk(func(_ topology.Machine, free topology.Capacity, why string) {
		if why == "" {
			sum += int(free.WholeGPUs)
		}
	})
	return sum
}

func (g *Own) fits(w *waiter) bool {
	_, refusal := topology.Place(g.view, w.Gang)
	return refusal == nil
}

func (g *Own) choose(w *waiter) Place {
	p, _ := topology.Place(g.view, w.Gang)
	return Place{given: p}
}

func (g *Own) both(later Ground, w *waiter) (Place, bool) {
	p, refusal := topology.Place(g.view, w.Gang)
	if refusal != nil {
		return Place{}, false
	}
	there := later.(*Own).view
	for _, slot := range p.Slots { // each node has at most one of them
		if c, _ := there.Free(slot.Node); int64(c.WholeGPUs)*topology.WholeGPU < slot.Amount.MilliGPU {
			return Place{}, false
		}
	}
	return Place{given: p}, true
}

// take leaves the leader's own view unchanged, because Queue.Admit subtracts from it.
func (g *Own) take(p Place) {
	if g.mine {
		g.view.Take(p.given)
	}
}

func (g *Own) give(p Place) { g.view.Give(p.given) }

func (g *Own) clone() Ground { return &Own{view: g.view.Clone(), mine: true} }
