package topology

// This file owns the holders: which job has what, by machine and by job. An explanation names the holders of the place
// that a gang wants, and tries which of them have to end; asking every machine for that was most of an explanation.

import (
	"cmp"
	"slices"
)

// Holder is a job that has something on a machine. EndsBy (ns) is when that is free at the
// latest, by the job's time limit; 0 when nobody can say.
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

// Holders are all that have something, on any machine. A nil one has none.
type Holders struct {
	on map[NodeID][]stake
	of map[JobID]*holdings
}

// stake holds the resources of a job on one machine, and their position in its holdings.
type stake struct {
	Holder
	at int
}

// holdings lists the resources of one job, in no order, and when each is free.
type holdings struct {
	sum   Resources
	slots []Slot
	by    []int64
}

// NewHolders makes an empty set.
func NewHolders() *Holders {
	return &Holders{on: map[NodeID][]stake{}, of: map[JobID]*holdings{}}
}

// Set says who has something on a machine now, in place of what was said of it before.
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

// drop takes one stake out of what its job has: the last of those takes its place.
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

// On lists who has something on a machine.
func (h *Holders) On(id NodeID) []Holder {
	var all []Holder
	for _, s := range h.on[id] {
		all = append(all, s.Holder)
	}
	return all
}

// everywhere lists what each job has, the largest holder of GPUs first.
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

// endsBy is when all of it is free that has an end; 0: none has.
func (of *holdings) endsBy() int64 { return slices.Max(of.by) }

// ends lists the jobs of which something is free at a known time, the first to end first.
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
