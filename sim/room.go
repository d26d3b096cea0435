package sim

import (
	"cmp"
	"slices"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file checks by brute force whether a gang fits on the nodes. It is slow and simple, and independent of the code
// for placement.

// core reports whether the liveness checks may count on a node.
func (m *machine) core() bool { return m.powered && !m.gone && m.proc != nil }

// serves reports whether a node's present agent and the present leader know the features of a job that earlier versions
// lack. A leader of an earlier version ignores these features in a node's announcement.
func (w *World) serves(m *machine, spec *messages.JobSpec) bool {
	news := &messages.JobSpec{Script: spec.GetScript(), Warn: spec.GetWarn(), Checkpoint: spec.GetCheckpoint()}
	own := len(messages.NetworkLabels(spec.GetNetwork())) == 0
	if !own {
		news.Network = spec.Network
	}
	switch {
	case m.proc.lacks(news), w.leader().lacks(news), m.old && w.oldVersion().Strip(copyOf(news)),
		spec.GetScript() != nil && m.earlier, spec.IsAnnounced() && m.unversed:
		return false
	}
	return own || !m.unversed && slices.Contains(m.announcement.Networks, spec.GetNetwork())
}

// empty returns the capacity of a node on which nothing runs.
func (m *machine) empty() topology.Capacity {
	a := m.announcement
	return topology.Capacity{MilliCPU: a.Total.MilliCpu, MemoryBytes: a.Total.MemoryBytes,
		WholeGPUs: int32(len(a.Gpus) - len(m.launcher.faulted))}
}

// members returns how many members of this size fit on a node.
func members(c topology.Capacity, each topology.Resources) int64 {
	n := int64(1) << 40
	if each.MilliCPU > 0 {
		n = min(n, c.MilliCPU/each.MilliCPU)
	}
	if each.MemoryBytes > 0 {
		n = min(n, c.MemoryBytes/each.MemoryBytes)
	}
	switch {
	case each.MilliGPU >= topology.WholeGPU:
		n = min(n, int64(c.WholeGPUs)*topology.WholeGPU/each.MilliGPU)
	case each.MilliGPU > 0:
		fit := int64(c.WholeGPUs) * (topology.WholeGPU / each.MilliGPU)
		for _, part := range c.Parts {
			fit += part / each.MilliGPU
		}
		n = min(n, fit)
	}
	return n
}

// fits reports whether a gang fits on these nodes, in one domain of its required level.
func (w *World) fits(spec *messages.JobSpec, room func(*machine) (topology.Capacity, bool)) bool {
	return w.fitsOn(len(w.machines), spec, room)
}

// fitsOn reports whether a gang fits on at most so many of these nodes.
func (w *World) fitsOn(most int, spec *messages.JobSpec, room func(*machine) (topology.Capacity, bool)) bool {
	level, one := spec.GetTopology().GetRequired(), memberOf(spec)
	byPlace := map[string][]spot{}
	for _, m := range w.machines {
		c, usable := room(m)
		id := string(m.id)
		named := len(spec.GetNodes()) == 0 || slices.Contains(spec.GetNodes(), id)
		if !usable || !named || !w.serves(m, spec) || slices.Contains(spec.GetExclude(), id) {
			continue
		}
		place := ""
		if level != "" {
			place = w.placeOf(string(m.id), level)
		}
		byPlace[place] = append(byPlace[place], spot{members(c, one), int64(m.empty().WholeGPUs)})
	}
	for _, spots := range byPlace { //order: any place will do
		if holds(spec, spots, most) {
			return true
		}
	}
	return false
}

// memberOf returns the indivisible part of a gang: a member. For a total, it is one GPU with its part of the rest, or a
// core if there is no GPU.
func memberOf(spec *messages.JobSpec) topology.Resources {
	if spec.Each != nil {
		return messages.FromResources(spec.Each)
	}
	total, pieces := messages.FromResources(spec.GetGang().GetTotal()), piecesOf(spec.GetGang().GetTotal())
	return topology.Resources{MilliCPU: total.MilliCPU / pieces, MemoryBytes: total.MemoryBytes / pieces,
		MilliGPU: total.MilliGPU / pieces}
}

// piecesOf returns the maximum number of parts of a total.
func piecesOf(total *messages.Resources) int64 {
	if gpus := total.GetMilliGpu() / topology.WholeGPU; gpus > 0 {
		return gpus
	}
	return max(total.GetMilliCpu()/1000, 1)
}

// spot describes a node for one gang: how many members fit, and how many GPUs are free in all.
type spot struct{ members, gpus int64 }

// holds reports whether a gang fits on at most so many of these nodes.
func holds(spec *messages.JobSpec, spots []spot, most int) bool {
	gang := spec.GetGang()
	want, sum := int64(gang.GetReplicasMin()+spec.GetRestart().GetSpares()), int64(0)
	if spec.Each == nil {
		want = piecesOf(gang.GetTotal())
	}
	if gang.GetSplit() == messages.Split_SPLIT_WHOLE && gang.GetTotal().GetMilliGpu() > topology.WholeGPU {
		return holdsWhole(want, spots, most)
	}
	for i := range spots {
		if gang.GetApart() || spec.GetRestart().GetSpares() > 0 {
			spots[i].members = min(spots[i].members, 1)
		}
	}
	slices.SortFunc(spots, func(a, b spot) int { return cmp.Compare(b.members, a.members) })
	for _, s := range spots[:max(min(most, len(spots)), 0)] {
		sum += s.members
	}
	return sum >= want
}

// holdsWhole reports whether a total fits on whole nodes and a part of at most one more node.
func holdsWhole(want int64, spots []spot, most int) bool {
	for i, last := range spots {
		fewest := make([]int, want+1) // fewest whole nodes besides the last one, by their sum
		for n := range fewest[1:] {
			fewest[n+1] = len(spots)
		}
		for k, s := range spots {
			if k == i || s.gpus == 0 || s.members < s.gpus {
				continue
			}
			for n := want; n >= s.gpus; n-- {
				fewest[n] = min(fewest[n], fewest[n-s.gpus]+1)
			}
		}
		for n := max(want-last.members, 0); n < want; n++ {
			if fewest[n] < min(most, len(spots)) {
				return true
			}
		}
	}
	return false
}

// feasible reports whether the core nodes could hold a gang if they were idle.
func (w *World) feasible(spec *messages.JobSpec) bool {
	return w.fits(spec, func(m *machine) (topology.Capacity, bool) {
		if !m.core() {
			return topology.Capacity{}, false
		}
		return m.empty(), true
	})
}

// feasibleWithout reports whether the nodes of the cluster, including dead ones, could hold a gang without these nodes.
func (w *World) feasibleWithout(spec *messages.JobSpec, nodes []string) bool {
	return w.fits(spec, func(m *machine) (topology.Capacity, bool) {
		n := w.books.nodes[string(m.id)]
		return m.empty(), n != nil && n.Removed == nil && !slices.Contains(nodes, string(m.id))
	})
}

// fitsNow reports whether a gang fits on the free capacity of schedulable nodes at this moment, and of nodes that only
// rest if resting is true.
func (w *World) fitsNow(job *messages.JobRecord, resting bool) bool {
	p := w.leader()
	return w.fits(job.Spec, func(m *machine) (topology.Capacity, bool) {
		rests := p != nil && p.leader != nil && p.leader.Resting(m.id)
		if !w.open(m) || rests && !resting || !m.accepts(job.Owner, job.Spec.User) {
			return topology.Capacity{}, false
		}
		return w.unkept(p, m, job), true
	})
}

// open reports whether a node may get new work of any length, according to the store and the node.
func (w *World) open(m *machine) bool {
	if !m.core() || m.proc.node == nil || !m.proc.node.Member() {
		return false
	}
	n := w.books.nodes[string(m.id)]
	return m.launcher.fit() && n != nil && n.Cordoned == nil && n.Drained == nil && n.Closing == nil && n.Removed == nil
}
