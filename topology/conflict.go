package topology

// This file owns constraints: the parts of "no" that could be different, each of
// which can be dropped on its own, and the search for a minimal set of them that
// cannot be met together.

import "slices"

// ConstraintKind names what could be different.
type ConstraintKind uint8

const (
	// OnExcluded: machines that the gang leaves out.
	OnExcluded ConstraintKind = iota
	// OnNamed: the only machines that the gang may go to.
	OnNamed
	// OnApart: each task on a machine of its own.
	OnApart
	// OnMemory and OnCPU: the amounts beside the devices.
	OnMemory
	OnCPU
	// OnLabel: one label of the selector.
	OnLabel
	// OnGPUType: the type of device.
	OnGPUType
	// OnWhole: machines taken whole.
	OnWhole
	// OnService: machines that are drained, benched, dead.
	OnService
	// OnLevel: how close together.
	OnLevel
	// OnKept: what is kept for others, who were promised it.
	OnKept
	// OnOthers: what other jobs have.
	OnOthers
	// OnSize: how much is asked for at all. It can never be dropped.
	OnSize
)

// Constraint is one thing that could be different.
type Constraint struct {
	Kind  ConstraintKind
	Label Label  // of OnLabel
	Level string // of OnLevel
	Text  string // of OnGPUType and OnExcluded
}

// String names the constraint for people.
func (c Constraint) String() string {
	switch c.Kind {
	case OnExcluded:
		return "excluded nodes"
	case OnNamed:
		return "named nodes"
	case OnApart:
		return "one task per node"
	case OnMemory:
		return "memory"
	case OnCPU:
		return "CPU"
	case OnLabel:
		return c.Label.words()
	case OnGPUType:
		return "GPU type " + c.Text
	case OnWhole:
		return "whole nodes"
	case OnService:
		return "unavailable nodes"
	case OnLevel:
		return "one " + c.Level
	case OnKept:
		return "nodes reserved for other jobs"
	case OnOthers:
		return "resources of other jobs"
	}
	return "the size of the gang"
}

// constraints lists what a gang could do without, in the order in which it is
// tried: what people forget first comes first, so that what remains in a
// conflict is what they think of.
func (x *explainer) constraints() []Constraint {
	g := &x.g
	amount := g.Each
	if g.Split != SplitNone {
		amount = g.Total
	}
	var all []Constraint
	if len(g.Exclude) > 0 {
		all = append(all, Constraint{Kind: OnExcluded})
	}
	if len(g.Only) > 0 {
		all = append(all, Constraint{Kind: OnNamed})
	}
	if g.Apart && g.Split == SplitNone && g.Replicas > 1 {
		all = append(all, Constraint{Kind: OnApart})
	}
	if amount.MemoryBytes > 0 && (amount.MilliCPU > 0 || amount.MilliGPU > 0) {
		all = append(all, Constraint{Kind: OnMemory})
	}
	if amount.MilliCPU > 0 && amount.MilliGPU > 0 {
		all = append(all, Constraint{Kind: OnCPU})
	}
	for _, l := range g.Selector {
		all = append(all, Constraint{Kind: OnLabel, Label: l})
	}
	if g.GPUType != "" {
		all = append(all, Constraint{Kind: OnGPUType, Text: g.GPUType})
	}
	if g.Split == SplitWhole && amount.MilliGPU >= WholeGPU {
		all = append(all, Constraint{Kind: OnWhole})
	}
	all = append(all, Constraint{Kind: OnService})
	if g.Required != "" {
		all = append(all, Constraint{Kind: OnLevel, Level: g.Required})
	}
	if x.f != nil && len(x.f.kept.by) > 0 {
		all = append(all, Constraint{Kind: OnKept})
	}
	return append(all, Constraint{Kind: OnOthers})
}

// drop is the supposition without a constraint.
func (s supposition) drop(c Constraint) supposition {
	switch c.Kind {
	case OnExcluded:
		s.gang.Exclude = nil
	case OnNamed:
		s.gang.Only = nil
	case OnApart:
		s.gang.Apart = false
	case OnMemory:
		s.gang.Each.MemoryBytes, s.gang.Total.MemoryBytes = 0, 0
	case OnCPU:
		s.gang.Each.MilliCPU, s.gang.Total.MilliCPU = 0, 0
	case OnLabel:
		s.gang.Selector = slices.DeleteFunc(slices.Clone(s.gang.Selector), func(l Label) bool { return l == c.Label })
	case OnGPUType:
		s.gang.GPUType = ""
	case OnWhole:
		s.gang.Split = SplitAny
	case OnService:
		s.all, s.gang.Avoid, s.gang.Closing = true, nil, nil
	case OnLevel:
		s.gang.Required = ""
	case OnKept:
		s.lent = true
	case OnOthers:
		s.idle = true
	}
	return s
}

// conflict finds a minimal set of constraints that cannot be met together: a constraint is dropped for good if the gang
// still does not fit without it. If it does not fit without all of them, its size alone is the conflict.
func (x *explainer) conflict() []Constraint { return x.conflictWithout(nil) }

// conflictWithout is conflict where some constraints are dropped already.
func (x *explainer) conflictWithout(dropped []Constraint) []Constraint {
	now := x.without(dropped)
	var kept []Constraint
	for _, c := range x.constraints() {
		if slices.Contains(dropped, c) {
			continue
		}
		if without := now.drop(c); x.fits(without) {
			kept = append(kept, c)
		} else {
			now = without
		}
	}
	if len(kept) == 0 {
		return []Constraint{{Kind: OnSize}}
	}
	return kept
}

// without is the supposition without some constraints.
func (x *explainer) without(dropped []Constraint) supposition {
	s := supposition{gang: x.g}
	for _, c := range dropped {
		s = s.drop(c)
	}
	return s
}

// maxConflicts bounds how many conflicts are looked for: each costs a question for every constraint.
const maxConflicts = 64

// inTheWay finds the smallest sets of constraints without which the gang would start. It returns how many constraints
// are in such a set, and all that are in any of them; 0 where none would help, or where the sets are too large to try
// them all.
//
// A set that helps must contain a constraint of the conflict, or the conflict would still stand. So one of its
// constraints is dropped, then one of the conflict that is left, and so on; sets of one come before sets of two.
func (x *explainer) inTheWay(conflict []Constraint) (size int, all []Constraint) {
	type dropping struct{ dropped, conflict []Constraint }
	level := []dropping{{nil, conflict}}
	for looked := 0; len(level) > 0; {
		var next []dropping
		for _, at := range level {
			for _, c := range at.conflict {
				dropped := among(x.constraints(), append(slices.Clone(at.dropped), c))
				switch {
				case c.Kind == OnSize:
				case slices.ContainsFunc(next, func(d dropping) bool { return slices.Equal(d.dropped, dropped) }):
					// in another order
				case x.fits(x.without(dropped)):
					size, all = len(dropped), append(all, dropped...)
				default:
					next = append(next, dropping{dropped: dropped})
				}
			}
		}
		if len(all) > 0 {
			return size, among(x.constraints(), all)
		}
		if looked += len(next); looked > maxConflicts {
			return 0, nil
		}
		for i := range next {
			next[i].conflict = x.conflictWithout(next[i].dropped)
		}
		level = next
	}
	return 0, nil
}

// among lists those that are in all, each once.
func among(all, those []Constraint) (out []Constraint) {
	for _, c := range all {
		if slices.Contains(those, c) {
			out = append(out, c)
		}
	}
	return out
}
