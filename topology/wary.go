package topology

import "slices"

// This file makes big gangs avoid suspected nodes if they can.

const (
	// bigGPUs and bigTasks are the sizes from which a gang is big. The failure of one node costs the work of all others.
	bigGPUs  = 16
	bigTasks = 16
)

// SetSuspects sets the nodes that are suspected to cause failures.
func (f *Tree) SetSuspects(nodes []NodeID) { f.suspects = slices.Clone(nodes) }

// big reports whether a gang is big.
func (g *Gang) big() bool {
	if g.Split != SplitNone {
		return g.Total.MilliGPU >= bigGPUs*WholeGPU
	}
	return int64(g.Replicas)*g.Each.MilliGPU >= bigGPUs*WholeGPU || g.Replicas >= bigTasks
}

// PlaceWary is PlaceLent, but a big gang avoids suspected nodes. This is only a preference: the gang gets suspected
// nodes if it does not fit without them now, or if only they are in one domain of its preferred level.
func PlaceWary(f *Tree, g *Gang, lent Lent, r *Refusal) (p Placement, ok bool) {
	if len(f.suspects) == 0 || !g.big() {
		return PlaceLent(f, g, lent, r)
	}
	wary := *g
	wary.Avoid = slices.Concat(g.Avoid, f.suspects)
	var unread Refusal
	without, fits := PlaceLent(f, &wary, lent, &unread)
	if fits && f.IsWithin(without, g.Preferred) {
		return without, true
	}
	p, ok = PlaceLent(f, g, lent, r)
	if fits && !f.IsWithin(p, g.Preferred) {
		return without, true
	}
	return p, ok
}
