// Package rival holds the policies that Synapse's own policy is compared with. They run in the simulator and never in a
// cluster, because most of them know how long each job will run. Rules and ties are those of published simulators, so
// that results are comparable.
package rival

import "slices"

// This file models the cluster as published simulators do: equal nodes in racks, of which only the number of free GPUs
// counts.

// Room holds the free GPUs of each node. A gang that fits on one node goes to one node. A larger gang takes whole empty
// nodes, and its remainder goes to one more node.
type Room struct {
	gpus   int   // GPUs of each node
	rack   []int // rack of each node
	free   []int // free GPUs of each node
	counts []int // number of nodes by their free GPUs
	spare  []int // free GPUs of each rack
	sum    int   // free GPUs in total
}

// NewRoom returns an idle room with this many nodes in each rack.
func NewRoom(racks []int, gpus int) *Room {
	r := &Room{gpus: gpus, counts: make([]int, gpus+1), spare: make([]int, len(racks))}
	for i, machines := range racks {
		for range machines {
			r.rack, r.free = append(r.rack, i), append(r.free, gpus)
		}
		r.spare[i] = machines * gpus
		r.sum += machines * gpus
	}
	r.counts[gpus] = len(r.free)
	return r
}

// Part holds the share of a gang on one node.
type Part struct{ Machine, GPUs int }

// Free returns the number of free GPUs.
func (r *Room) Free() int { return r.sum }

// FreeOf returns the free GPUs of a node.
func (r *Room) FreeOf(machine int) int { return r.free[machine] }

// Machines returns the number of nodes.
func (r *Room) Machines() int { return len(r.free) }

// Rack returns the rack of a node.
func (r *Room) Rack(machine int) int { return r.rack[machine] }

// Set sets the free GPUs of a node.
func (r *Room) Set(machine, free int) {
	was := r.free[machine]
	r.counts[was]--
	r.counts[free]++
	r.spare[r.rack[machine]] += free - was
	r.sum += free - was
	r.free[machine] = free
}

// Take allocates a gang's parts, and Give frees them.
func (r *Room) Take(parts []Part) {
	for _, p := range parts {
		r.Set(p.Machine, r.free[p.Machine]-p.GPUs)
	}
}

// Give frees a gang's parts.
func (r *Room) Give(parts []Part) {
	for _, p := range parts {
		r.Set(p.Machine, r.free[p.Machine]+p.GPUs)
	}
}

// Clone returns a copy.
func (r *Room) Clone() *Room {
	c := *r
	c.free, c.counts, c.spare = slices.Clone(r.free), slices.Clone(r.counts), slices.Clone(r.spare)
	return &c
}

// Fits reports whether a gang fits now.
func (r *Room) Fits(gang int) bool {
	if gang > r.sum {
		return false
	}
	if gang <= r.gpus {
		return r.anyFrom(gang)
	}
	whole, rest := gang/r.gpus, gang%r.gpus
	empty := r.counts[r.gpus]
	return empty > whole || empty == whole && (rest == 0 || r.anyBelow(rest))
}

// anyFrom reports whether any node has this many free GPUs. anyBelow considers only nodes that are not empty.
func (r *Room) anyFrom(gpus int) bool { return r.counts[r.gpus] > 0 || r.anyBelow(gpus) }

func (r *Room) anyBelow(gpus int) bool {
	return slices.ContainsFunc(r.counts[gpus:r.gpus], func(n int) bool { return n > 0 })
}

// Choose returns the place of a gang that fits. A small gang goes to the node that it fills best. A larger gang goes to
// the rack that it fills best, or else to the fewest racks.
func (r *Room) Choose(gang int) []Part {
	if gang <= r.gpus {
		return []Part{{r.tightest(gang, func(int) bool { return true }), gang}}
	}
	whole, rest := gang/r.gpus, gang%r.gpus
	empty := r.emptyByRack()
	var parts []Part
	used := map[int]bool{}
	take := func(rack, most int) {
		for m := 0; m < len(r.free) && most > 0; m++ {
			if r.rack[m] == rack && r.free[m] == r.gpus {
				parts, most = append(parts, Part{m, r.gpus}), most-1
				used[rack] = true
			}
		}
	}
	if rack := r.oneRack(empty, whole, rest); rack >= 0 {
		take(rack, whole)
	} else {
		for len(parts) < whole {
			left := whole - len(parts)
			next := nextRack(empty, used, left)
			take(next, left)
		}
	}
	if rest > 0 {
		parts = append(parts, Part{r.remainder(rest, parts, used), rest})
	}
	return parts
}

// remainder returns the node for a gang's remainder, in the same racks if possible.
func (r *Room) remainder(rest int, parts []Part, used map[int]bool) int {
	spare := func(m int) bool {
		return !slices.ContainsFunc(parts, func(p Part) bool { return p.Machine == m })
	}
	if m := r.tightest(rest, func(m int) bool { return used[r.rack[m]] && spare(m) }); m >= 0 {
		return m
	}
	return r.tightest(rest, spare)
}

// tightest returns the allowed node with the fewest sufficient GPUs, or -1. Among equal nodes it prefers the one in the
// rack with the fewest GPUs.
func (r *Room) tightest(gpus int, allowed func(machine int) bool) int {
	best := -1
	for m, free := range r.free {
		if free < gpus || !allowed(m) {
			continue
		}
		if best < 0 || free < r.free[best] || free == r.free[best] && r.spare[r.rack[m]] < r.spare[r.rack[best]] {
			best = m
		}
	}
	return best
}

// emptyByRack returns the number of empty nodes in each rack.
func (r *Room) emptyByRack() []int {
	empty := make([]int, len(r.spare))
	for m, free := range r.free {
		if free == r.gpus {
			empty[r.rack[m]]++
		}
	}
	return empty
}

// oneRack returns the rack with the fewest empty nodes that holds the whole gang, or -1.
func (r *Room) oneRack(empty []int, whole, rest int) int {
	best := -1
	for rack, n := range empty {
		if n < whole || n == whole && rest > 0 && !r.brokenIn(rack, rest) {
			continue
		}
		if best < 0 || n < empty[best] {
			best = rack
		}
	}
	return best
}

// brokenIn reports whether a partly used node of a rack has this many free GPUs.
func (r *Room) brokenIn(rack, gpus int) bool {
	for m, free := range r.free {
		if r.rack[m] == rack && free >= gpus && free < r.gpus {
			return true
		}
	}
	return false
}

// nextRack returns the next rack for a gang that needs several racks: the one with the most empty nodes, or for the
// last part the one that is filled best.
func nextRack(empty []int, used map[int]bool, left int) int {
	most, best := -1, -1
	for rack, n := range empty {
		if used[rack] {
			continue
		}
		if most < 0 || n > empty[most] {
			most = rack
		}
		if n >= left && (best < 0 || n < empty[best]) {
			best = rack
		}
	}
	if best >= 0 {
		return best
	}
	return most
}

// ChooseBoth returns a place for a gang that is free now and in a later room, or nil.
func (r *Room) ChooseBoth(later *Room, gang int) []Part {
	if !later.Fits(gang) {
		return nil
	}
	if gang <= r.gpus {
		if m := r.tightest(gang, func(m int) bool { return later.free[m] >= gang }); m >= 0 {
			return []Part{{m, gang}}
		}
		return nil
	}
	whole, rest := gang/r.gpus, gang%r.gpus
	need := whole
	if rest > 0 {
		need++ // the remainder also needs an empty node
	}
	return r.emptyInBoth(later, need, whole, rest)
}

func (r *Room) emptyInBoth(later *Room, need, whole, rest int) []Part {
	byRack := make([][]int, len(r.spare))
	sum := 0
	for m, free := range r.free {
		if free == r.gpus && later.free[m] == r.gpus {
			byRack[r.rack[m]] = append(byRack[r.rack[m]], m)
			sum++
		}
	}
	if sum < need {
		return nil
	}
	var chosen []int
	best := -1
	for rack, machines := range byRack {
		if len(machines) >= need && (best < 0 || len(machines) < len(byRack[best])) {
			best = rack
		}
	}
	if best >= 0 {
		chosen = byRack[best]
	} else {
		slices.SortStableFunc(byRack, func(a, b []int) int { return len(b) - len(a) })
		chosen = slices.Concat(byRack...)
	}
	parts := make([]Part, need)
	for i := range parts {
		parts[i] = Part{chosen[i], r.gpus}
	}
	if rest > 0 {
		parts[whole].GPUs = rest
	}
	return parts
}
