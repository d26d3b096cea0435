package sim

import "github.com/yi-json/synapse/topology"

// oneOwner is S1: the shares of a GPU sum to at most one GPU, and a whole GPU has one live attempt. This holds in each
// ledger and among the processes. The store may be behind: a GPU is free by its node's exit confirmation, which may
// still be on its way when the next COMMIT is written. S14 compares the store when all is at rest.
type oneOwner struct {
	rule
	sums map[topology.GPUID]int64
}

func newOneOwner() *oneOwner {
	return &oneOwner{rule: rule{"S1 one-owner", on{TaskSpawned, Scanned}}, sums: map[topology.GPUID]int64{}}
}

func (c *oneOwner) Step(w *World, e *Event) {
	if e.Kind == TaskSpawned {
		c.processes(w, e.Machine, e.Task)
		return
	}
	for _, m := range w.machines {
		c.ledger(w, m)
	}
}

// processes checks the GPUs of a process that has just started.
func (c *oneOwner) processes(w *World, m *machine, t *task) {
	for _, g := range t.grant.GetGpus() {
		if m.launcher.used[g.GpuId] > topology.WholeGPU {
			c.violate(w, "processes use %d thousandths of %s after %v of job %s started", m.launcher.used[g.GpuId],
				g.GpuId, t.key, t.job)
		}
	}
}

func (c *oneOwner) ledger(w *World, m *machine) {
	clear(c.sums)
	for _, s := range m.slices() {
		if !s.Holds() {
			continue
		}
		for i := range s.Grants {
			for _, g := range s.Grants[i].GPUs {
				if c.sums[g.GPU] += g.Milli; c.sums[g.GPU] > topology.WholeGPU {
					c.violate(w, "%s: the ledger allocates %d thousandths of %s", m.address, c.sums[g.GPU], g.GPU)
				}
			}
		}
	}
}
