package topology

// This file has the jobs that hold resources, by node and by job. An explanation lists the holders in the domain that a
// gang needs, and searches the holders that must end. Collecting them from every node took most of the time of an
// explanation.

import (
	"cmp"
	"slices"
)

// Holder is a job that holds resources on a node. EndsBy (ns) is the latest time when they are free, by the job's time
// limit, or 0 if unknown.
type Holder struct {
	Job    JobID
	Amount Resources
	EndsBy int64
}

// Holding holds the resources of one job in a domain.
type Holding struct {
	Holder
	Nodes int
}

// Holders are all jobs with resources on any node. A nil value has none.
type Holders struct {
	on map[NodeID][]stake
	of map[JobID]*holdings
}

// stake holds the resources of a job on one node, and their position in its holdings.
type stake struct {
	Holder
	at int
}

// holdings lists the resources of one job, in no order, with the end of each.
type holdings struct {
	sum   Resources
	slots []Slot
	by    []int64
}

// NewHolders returns an empty set.
func NewHolders() *Holders {
	return &Holders{on: map[NodeID][]stake{}, of: map[JobID]*holdings{}}
}

// Set replaces the holders of a node.
func (h *Holders) Set(id NodeID, all []Holder) {
	old := h.on[id]
	for i := range old {
		h.drop(&old[i])
	}
	if len(all) == 0 {
		delete(h.on, id)
		return
	}
	on := slices.Grow(old[:0], len(all))
	for _, one := range all {
		of := h.of[one.Job]
		if of == nil {
			of = &holdings{}
			h.of[one.Job] = of
		}
		on = append(on, stake{one, len(of.slots)})
		of.slots = append(of.slots, Slot{Node: id, Amount: one.Amount})
		of.by = append(of.by, one.EndsBy)
		of.sum = of.sum.Plus(one.Amount)
	}
	h.on[id] = on
}

// drop removes one stake from the holdings of its job. The last entry takes its position.
func (h *Holders) drop(s *stake) {
	of, last := h.of[s.Job], len(h.of[s.Job].slots)-1
	if last == 0 {
		delete(h.of, s.Job)
		return
	}
	of.sum = of.sum.Minus(s.Amount)
	if moved := of.slots[last]; s.at != last {
		on := h.on[moved.Node]
		at := slices.IndexFunc(on, func(o stake) bool { return o.Job == s.Job && o.at == last })
		on[at].at = s.at
		of.slots[s.at], of.by[s.at] = moved, of.by[last]
	}
	of.slots, of.by = of.slots[:last], of.by[:last]
}

// On returns the holders of a node.
func (h *Holders) On(id NodeID) []Holder {
	var all []Holder
	for _, s := range h.on[id] {
		all = append(all, s.Holder)
	}
	return all
}

// everywhere returns the holding of each job, largest number of GPUs first.
func (h *Holders) everywhere() []Holding {
	all := make([]Holding, 0, len(h.of))
	for job, of := range h.of { //order: sorted below
		all = append(all, Holding{Holder{Job: job, Amount: of.sum, EndsBy: of.endsBy()}, len(of.slots)})
	}
	sortHoldings(all)
	return all
}

func sortHoldings(all []Holding) {
	slices.SortFunc(all, func(a, b Holding) int {
		return cmp.Or(cmp.Compare(b.Amount.MilliGPU, a.Amount.MilliGPU),
			cmp.Compare(b.Amount.MilliCPU, a.Amount.MilliCPU), cmp.Compare(a.Job, b.Job))
	})
}

// endsBy returns the latest known end of the holdings, or 0 if none is known.
func (of *holdings) endsBy() int64 { return slices.Max(of.by) }

// ends returns the jobs with a known end, earliest first.
func (h *Holders) ends() []Holder {
	jobs := make([]Holder, 0, len(h.of))
	for job, of := range h.of { //order: sorted below
		if by := of.endsBy(); by > 0 {
			jobs = append(jobs, Holder{Job: job, EndsBy: by})
		}
	}
	slices.SortFunc(jobs, func(a, b Holder) int {
		return cmp.Or(cmp.Compare(a.EndsBy, b.EndsBy), cmp.Compare(a.Job, b.Job))
	})
	return jobs
}

// freed returns the resources of a job that have a known end.
func (h *Holders) freed(job JobID) []Slot {
	of := h.of[job]
	if slices.Min(of.by) > 0 {
		return of.slots
	}
	var slots []Slot
	for i, by := range of.by {
		if by > 0 {
			slots = append(slots, of.slots[i])
		}
	}
	return slots
}
