package sim

import (
	"slices"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns brute force: whether a gang fits, counted from the machines
// themselves. It is slow and simple, and knows nothing of how placing is done.

// core reports whether a machine is one that liveness may count on.
func (m *machine) core() bool { return m.powered && !m.gone && m.proc != nil }

// serves reports whether a machine's agent and the leader, as they are now, know what a job names that earlier
// versions did not. A leader of such a version has read nothing of it in what machines announced.
func (w *World) serves(m *machine, spec *messages.JobSpec) bool {
	news := &messages.JobSpec{Script: spec.GetScript(), Warn: spec.GetWarn()}
	own := len(messages.NetworkLabels(spec.GetNetwork())) == 0
	if !own {
		news.Network = spec.Network
	}
	switch {
	case m.proc.lacks(news), w.leader().lacks(news), m.old && w.oldVersion().Strip(copyOf(news)),
		spec.GetScript() != nil && m.earlier, spec.GetWarn() != nil && m.unversed:
		return false
	}
	return own || !m.unversed && slices.Contains(m.announcement.Networks, spec.GetNetwork())
}

// empty is what a machine would have free if nothing ran there.
func (m *machine) empty() topology.Capacity {
	a := m.announcement
	return topology.Capacity{MilliCPU: a.Total.MilliCpu, MemoryBytes: a.Total.MemoryBytes,
		WholeGPUs: int32(len(a.Gpus) - len(m.launcher.faulted))}
}

// members is how many members of this size a machine can take.
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

// fits reports whether a gang has room on these machines, one domain of its
// required level at a time.
func (w *World) fits(spec *messages.JobSpec, room func(*machine) (topology.Capacity, bool)) bool {
	level := spec.GetTopology().GetRequired()
	byPlace := map[string]int64{}
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
		if spec.Each != nil {
			n := members(c, messages.FromResources(spec.Each))
			if spec.GetGang().GetApart() {
				n = min(n, 1)
			}
			byPlace[place] += n
		} else {
			byPlace[place] += int64(c.WholeGPUs) * topology.WholeGPU
		}
	}
	want := int64(spec.GetGang().GetReplicasMin())
	if spec.Each == nil {
		want = spec.GetGang().GetTotal().GetMilliGpu()
	}
	for _, n := range byPlace { //order: any place will do
		if n >= want {
			return true
		}
	}
	return false
}

// feasible reports whether the core could hold a gang if it were idle.
func (w *World) feasible(spec *messages.JobSpec) bool {
	return w.fits(spec, func(m *machine) (topology.Capacity, bool) {
		if !m.core() {
			return topology.Capacity{}, false
		}
		return m.empty(), true
	})
}

// feasibleWithout reports whether the machines of the cluster, dead ones among them,
// could hold a gang without these.
func (w *World) feasibleWithout(spec *messages.JobSpec, nodes []string) bool {
	return w.fits(spec, func(m *machine) (topology.Capacity, bool) {
		n := w.books.nodes[string(m.id)]
		return m.empty(), n != nil && n.Removed == nil && !slices.Contains(nodes, string(m.id))
	})
}

// fitsNow reports whether a gang has room on what is free and open at this moment.
func (w *World) fitsNow(job *messages.JobRecord) bool {
	return w.fits(job.Spec, func(m *machine) (topology.Capacity, bool) {
		if !w.open(m) {
			return topology.Capacity{}, false
		}
		return w.unkept(w.leader(), m, job), true
	})
}

// open reports whether new work of any length may go to a machine, as far as the store
// and the machine itself know.
func (w *World) open(m *machine) bool {
	if !m.core() || m.proc.node == nil || !m.proc.node.Member() {
		return false
	}
	n := w.books.nodes[string(m.id)]
	return m.launcher.fit() && n != nil && n.Cordoned == nil && n.Drained == nil && n.Closing == nil && n.Removed == nil
}
