package topology

// This file has the oracle: a placer for a few nodes that tries everything and shares no code with the real one. Both
// must agree on feasibility and on the number of racks.

import (
	"slices"
	"strings"
)

// spot is a node of the oracle.
type spot struct {
	m    Machine
	free Capacity
	why  string
}

type oracle struct {
	levels []string
	spots  []spot
}

// candidates returns the nodes that the gang may use.
func (o *oracle) candidates(g Gang) []spot {
	var out []spot
	for _, s := range o.spots {
		ok := s.why == "" && !slices.Contains(g.Exclude, s.m.ID) && (g.Only == nil || slices.Contains(g.Only, s.m.ID))
		ok = ok && (g.GPUType == "" || g.GPUType == s.m.GPUType)
		for _, want := range g.Selector {
			ok = ok && slices.Contains(s.m.Labels, want)
		}
		if ok {
			out = append(out, s)
		}
	}
	return out
}

// domainsAt groups nodes by their domain at a depth. Depth 0 is the complete cluster, and the number of levels plus one
// is the single node.
func (o *oracle) domainsAt(spots []spot, depth int) map[string][]spot {
	groups := map[string][]spot{}
	for _, s := range spots {
		key := strings.Join(s.m.Place[:min(depth, len(o.levels))], "/")
		if depth > len(o.levels) {
			key = string(s.m.ID)
		}
		groups[key] = append(groups[key], s)
	}
	return groups
}

// depthOf returns the depth of a level.
func (o *oracle) depthOf(level string) int {
	switch level {
	case "":
		return 0
	case NodeLevel:
		return len(o.levels) + 1
	}
	return slices.Index(o.levels, level) + 1
}

// place returns the depth of the finest level that holds the gang, or -1.
func (o *oracle) place(g Gang) int {
	spots := o.candidates(g)
	for depth := len(o.levels) + 1; depth >= o.depthOf(g.Required); depth-- {
		for _, group := range o.domainsAt(spots, depth) {
			if holds(group, g) {
				return depth
			}
		}
	}
	return -1
}

// fewestRacks tries every set of racks in a domain.
func (o *oracle) fewestRacks(g Gang, domain []spot) int {
	groups := o.domainsAt(domain, len(o.levels))
	var racks [][]spot
	for _, r := range groups {
		racks = append(racks, r)
	}
	best := len(racks) + 1
	for set := 1; set < 1<<len(racks); set++ {
		var spots []spot
		n := 0
		for i, r := range racks {
			if set>>i&1 == 1 {
				spots, n = append(spots, r...), n+1
			}
		}
		if n < best && holds(spots, g) {
			best = n
		}
	}
	return best
}

// holds tries whether a set of nodes can hold a gang.
func holds(spots []spot, g Gang) bool {
	switch {
	case g.Split == SplitNone:
		return holdsReplicas(spots, g.Each, int(g.Replicas), g.Apart)
	case g.Total.MilliGPU > 0 && g.Total.MilliGPU < WholeGPU, g.Total.MilliGPU == 0 && g.Total.MilliCPU == 0:
		return holdsReplicas(spots, g.Total, 1, false)
	case g.Total.MilliGPU > 0 && g.Split == SplitWhole:
		return holdsWhole(spots, g.Total)
	}
	units := 0
	for _, s := range spots {
		n := 0
		for shareFits(s, g.Total, n+1) {
			n++
		}
		units += n
	}
	return units >= unitsOf(g.Total)
}

func holdsReplicas(spots []spot, each Resources, n int, apart bool) bool {
	for _, s := range spots {
		free := s.free
		for n > 0 && takeOne(&free, each) {
			if n--; apart {
				break
			}
		}
	}
	return n == 0
}

// takeOne takes one task from a node. It tries every device for a share.
func takeOne(free *Capacity, each Resources) bool {
	if each.MilliCPU > free.MilliCPU || each.MemoryBytes > free.MemoryBytes {
		return false
	}
	share := each.MilliGPU % WholeGPU
	if share > 0 {
		part := slices.ContainsFunc(free.Parts, func(p int64) bool { return p >= share })
		if !part && free.WholeGPUs < 1 {
			return false
		}
	} else if int64(free.WholeGPUs)*WholeGPU < each.MilliGPU {
		return false
	}
	free.MilliCPU -= each.MilliCPU
	free.MemoryBytes -= each.MemoryBytes
	free.WholeGPUs -= int32(each.MilliGPU / WholeGPU)
	return true
}

// unitsOf returns the number of units of a total: GPUs, else cores, else milli-CPU.
func unitsOf(total Resources) int {
	switch {
	case total.MilliGPU > 0:
		return int(total.MilliGPU / WholeGPU)
	case total.MilliCPU%1000 == 0:
		return int(total.MilliCPU / 1000)
	}
	return int(total.MilliCPU)
}

// shareFits reports whether n units of a total fit on a node, with a proportional share of all other resources, rounded
// up.
func shareFits(s spot, total Resources, n int) bool {
	all := unitsOf(total)
	if n > all {
		return false
	}
	share := func(amount int64) int64 { return (amount*int64(n) + int64(all) - 1) / int64(all) }
	return share(total.MilliCPU) <= s.free.MilliCPU && share(total.MemoryBytes) <= s.free.MemoryBytes &&
		share(total.MilliGPU) <= int64(s.free.WholeGPUs)*WholeGPU
}

// holdsWhole tries every set of whole nodes, and every other node for the remainder.
func holdsWhole(spots []spot, total Resources) bool {
	return tryWhole(spots, total, unitsOf(total), make([]bool, len(spots)), 0)
}

func tryWhole(spots []spot, total Resources, rest int, taken []bool, i int) bool {
	if rest == 0 {
		return true
	}
	if rest < 0 {
		return false
	}
	if i < len(spots) {
		n := int(spots[i].m.Total.MilliGPU / WholeGPU)
		if n > 0 && n <= rest && int(spots[i].free.WholeGPUs) == n && shareFits(spots[i], total, n) {
			taken[i] = true
			if tryWhole(spots, total, rest-n, taken, i+1) {
				return true
			}
			taken[i] = false
		}
		return tryWhole(spots, total, rest, taken, i+1)
	}
	for j, s := range spots {
		if !taken[j] && shareFits(s, total, rest) {
			return true
		}
	}
	return false
}
