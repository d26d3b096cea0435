package topology

// This file finds the smallest changes with which a refused gang would start now. Each change is tried on the view
// before it is suggested.

import (
	"cmp"
	"slices"
)

// Relaxation is a change with which the gang would start now: another request, or nodes that return to service.
type Relaxation struct {
	Text string
	Gang Gang
	// Return has the nodes that must return to service. The request is then unchanged.
	Return []NodeID
}

// relaxations tries the kinds of changes one after another.
func (x *explainer) relaxations(conflict []Constraint) []Relaxation {
	var out []Relaxation
	add := func(text string, g Gang) bool {
		if !x.fits(supposition{gang: g}) {
			return false
		}
		out = append(out, Relaxation{Text: text, Gang: g})
		return true
	}
	if g, ok := x.fewer(x.g); ok {
		add("with "+sizeText(&g), g)
	}
	x.otherLevel(add)
	if x.g.Split == SplitWhole {
		g := x.g
		g.Split = SplitAny
		add("with split any", g)
	}
	x.otherKind(add)
	x.lessBeside(add)
	if r, ok := x.backInService(); ok {
		out = append(out, r)
	}
	return out
}

// otherLevel tries the required level as a preference, which allows any level, and then the finest level that suffices.
// If a coarser level alone does not suffice, a smaller gang may still fit there.
func (x *explainer) otherLevel(add func(string, Gang) bool) {
	tier, _ := x.f.tierOf(x.g.Required)
	most := int64(0)
	if g, ok := x.fewer(x.g); ok {
		d := demandOf(&g)
		most = d.units
	}
	for t := tier - 1; t >= 0; t-- {
		g := x.g
		g.Required = x.f.levelOf(t)
		text := "with topology required " + g.Required
		if t == 0 {
			g.Preferred = cmp.Or(g.Preferred, x.g.Required)
			text = "with topology preferred " + x.g.Required
		}
		if add(text, g) {
			return
		}
		if less, ok := x.fewer(g); ok {
			if d := demandOf(&less); d.units > most {
				most = d.units
				add("with "+sizeText(&less)+" and "+text[len("with "):], less)
			}
		}
	}
}

// otherKind tries other types of device, and the selector without one label.
func (x *explainer) otherKind(add func(string, Gang) bool) {
	if x.g.GPUType != "" {
		for _, t := range x.gpuTypes() {
			g := x.g
			if g.GPUType = t; t != x.g.GPUType {
				add("with GPU type "+t, g)
			}
		}
	}
	for _, l := range x.g.Selector {
		s := supposition{gang: x.g}.drop(Constraint{Kind: OnLabel, Label: l})
		add("without "+l.words(), s.gang)
	}
	for _, c := range x.constraints() {
		if text := map[ConstraintKind]string{
			OnExcluded: "without excluding nodes", OnNamed: "on other nodes than those named",
			OnApart: "with several tasks on one node",
		}[c.Kind]; text != "" {
			add(text, supposition{gang: x.g}.drop(c).gang)
		}
	}
}

func (x *explainer) gpuTypes() []string {
	var types []string
	for i := range x.f.kinds.all {
		if k := &x.f.kinds.all[i]; k.members > 0 && k.gpuType != "" {
			types = append(types, k.gpuType)
		}
	}
	slices.Sort(types)
	return slices.Compact(types)
}

// lessBeside tries less CPU, and less memory. It finds the largest amount with which the gang fits.
func (x *explainer) lessBeside(add func(string, Gang) bool) {
	for _, c := range x.constraints() {
		if c.Kind != OnCPU && c.Kind != OnMemory {
			continue
		}
		least := supposition{gang: x.g}.drop(c)
		if !x.fits(least) {
			continue
		}
		step, noun := int64(100), "CPU"
		if c.Kind == OnMemory {
			step, noun = 1<<20, "memory"
		}
		low, high := int64(0), *beside(&x.g, c.Kind)/step+1
		for high-low > 1 {
			g := x.g
			*beside(&g, c.Kind) = (low + high) / 2 * step
			if x.fits(supposition{gang: g}) {
				low = (low + high) / 2
			} else {
				high = (low + high) / 2
			}
		}
		if low == 0 {
			continue
		}
		g := x.g
		amount := beside(&g, c.Kind)
		*amount = low * step
		text := bytesText(*amount, c.Kind)
		if g.Split == SplitNone && g.Replicas > 1 {
			noun += " per task"
		}
		add("with "+text+" of "+noun, g)
	}
}

// beside returns a pointer to the CPU or memory that a gang requests.
func beside(g *Gang, kind ConstraintKind) *int64 {
	amount := &g.Each
	if g.Split != SplitNone {
		amount = &g.Total
	}
	if kind == OnCPU {
		return &amount.MilliCPU
	}
	return &amount.MemoryBytes
}

func bytesText(n int64, kind ConstraintKind) string {
	if kind == OnCPU {
		return decimal(n) + " cores"
	}
	return bytes(n)
}

// fewer returns the largest gang of the same rate that fits at the gang's level.
func (x *explainer) fewer(g Gang) (Gang, bool) {
	most := x.most(&g)
	tries := 1
	if g.Split == SplitWhole {
		tries = wholeTries
	}
	for ; most > 0 && tries > 0; most, tries = most-1, tries-1 {
		if less := scaled(g, most); x.fits(supposition{gang: less}) {
			return less, true
		}
	}
	return Gang{}, false
}

// wholeTries limits the sizes that are tried for a total in whole nodes. There, a smaller size may not fit although a
// larger one nearly does.
const wholeTries = 64

// most returns an upper bound of the units that fit in one domain of the gang's level, below the requested number.
func (x *explainer) most(g *Gang) int64 {
	s := x.f.newSearch(g)
	if !s.start(&x.f.work.refusal) {
		return 0
	}
	s.refuse(&x.f.work.refusal)
	most := x.f.work.refusal.Room
	if s.lens.rate.whole {
		most += s.lens.largestLoose()
	}
	return min(most, s.demand.units-1)
}

// scaled returns the gang with fewer units of the same rate.
func scaled(g Gang, units int64) Gang {
	if g.Split == SplitNone {
		g.Replicas = int32(units)
		return g
	}
	d := demandOf(&g)
	total := Resources{
		MilliCPU:    mulDivWide(g.Total.MilliCPU, units, d.units, 0),
		MemoryBytes: mulDivWide(g.Total.MemoryBytes, units, d.units, 0),
		MilliGPU:    d.gpus * units * WholeGPU,
	}
	g.Total = total
	return g
}

// sizeText describes a gang by its size.
func sizeText(g *Gang) string {
	d := demandOf(g)
	r := Refusal{rate: d.rate}
	if g.Split == SplitNone {
		return r.amount(d.units) + " (" + count(d.units, "task") + ")"
	}
	return r.amount(d.units)
}

// backInService tries the nodes that are out of service. It returns those that a placement would use if all of them
// returned.
func (x *explainer) backInService() (Relaxation, bool) {
	s := x.f.newSearch(&x.g)
	s.all = true
	if !s.start(&x.f.work.refusal) {
		return Relaxation{}, false
	}
	if !s.find() {
		return Relaxation{}, false
	}
	r := Relaxation{Gang: x.g}
	var names []string
	for _, slot := range s.placement().Slots {
		if x.f.unusable(slot.Node) != "" && !slices.Contains(r.Return, slot.Node) {
			r.Return = append(r.Return, slot.Node)
			names = append(names, string(slot.Node))
		}
	}
	r.Text = "with " + listed(names) + " back in service"
	return r, true
}

// ending lets jobs end in the order of their time limits until the gang fits, and returns the jobs whose end makes the
// capacity free. On a follower, it rolls its changes back. Otherwise it needs a clone, which costs a visit of every
// node.
func (x *explainer) ending(holders *Holders) *Ending {
	jobs := holders.ends()
	if len(jobs) == 0 {
		return nil
	}
	f := x.f
	if f.follows {
		defer f.Rollback(f.Mark())
		f.lenses.brief = false // the same kind of gang is placed again after each of many changes
	} else {
		f = f.Clone()
	}
	var r Refusal
	for i, job := range jobs {
		f.Give(Placement{Slots: holders.freed(job.Job)})
		if i+1 < len(jobs) && jobs[i+1].EndsBy == job.EndsBy {
			continue
		}
		p, ok := PlaceInto(f, &x.g, &r)
		if !ok {
			continue
		}
		used := map[NodeID]bool{}
		for _, s := range p.Slots {
			used[s.Node] = true
		}
		e := &Ending{}
		for _, ended := range jobs[:i+1] {
			if slices.ContainsFunc(holders.freed(ended.Job), func(s Slot) bool { return used[s.Node] }) {
				e.Jobs = append(e.Jobs, ended.Job)
				e.By = ended.EndsBy
			}
		}
		return e
	}
	return nil
}
