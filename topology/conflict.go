package topology

// This file has the constraints of a gang. Each of them can be dropped separately. A search finds a minimal set of
// constraints that cannot be met together.

import "slices"

// ConstraintKind is the kind of a constraint.
type ConstraintKind uint8

const (
	// OnExcluded: the gang excludes nodes.
	OnExcluded ConstraintKind = iota
	// OnNamed: the gang may use only the nodes that it names.
	OnNamed
	// OnApart: each task needs a separate node.
	OnApart
	// OnMemory and OnCPU: the memory and CPU of a gang that also requests other resources.
	OnMemory
	OnCPU
	// OnLabel: one label of the selector.
	OnLabel
	// OnGPUType: the type of device.
	OnGPUType
	// OnWhole: the gang needs whole nodes.
	OnWhole
	// OnService: drained, backed off and dead nodes are unavailable.
	OnService
	// OnLevel: all tasks must be in one domain of a level.
	OnLevel
	// OnKept: capacity is reserved for other jobs.
	OnKept
	// OnOthers: other jobs hold resources.
	OnOthers
	// OnSize: the total request. This constraint can never be dropped.
	OnSize
)

// Constraint is one condition that keeps a gang from starting and that could change, such as its required level or the
// resources of other jobs.
type Constraint struct {
	Kind  ConstraintKind
	Label Label  // for OnLabel
	Level string // for OnLevel
	Text  string // for OnGPUType and OnExcluded
}

// String returns the constraint as text.
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

// constraints lists the constraints of a gang in the order in which they are dropped. Constraints that users tend to
// forget come first, so that a conflict consists of those that users expect.
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

// drop returns the supposition without a constraint.
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

// conflict returns a minimal set of constraints that cannot be met together. It drops each constraint in turn, and
// drops it for good if the gang still does not fit. If the gang does not fit without any constraint, the result is
// OnSize.
func (x *explainer) conflict() []Constraint { return x.conflictWithout(nil) }

// conflictWithout returns the conflict that remains after some constraints are dropped.
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

// without returns the supposition without some constraints.
func (x *explainer) without(dropped []Constraint) supposition {
	s := supposition{gang: x.g}
	for _, c := range dropped {
		s = s.drop(c)
	}
	return s
}

// maxConflicts limits the number of conflicts that are searched. Each conflict costs one placement per constraint.
const maxConflicts = 64

// inTheWay finds the smallest sets of constraints without which the gang would start. It returns the size of these
// sets, and all constraints that occur in at least one. It returns 0 if no set helps, or if there are too many sets to
// try.
//
// A set that helps must contain at least one constraint of the conflict. The search therefore drops one constraint of
// the conflict, then one of the remaining conflict, and so on. It tries smaller sets first.
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
					// the same set in another order
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

// among returns the elements of all that are in those, each once.
func among(all, those []Constraint) (out []Constraint) {
	for _, c := range all {
		if slices.Contains(those, c) {
			out = append(out, c)
		}
	}
	return out
}
