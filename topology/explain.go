package topology

// This file explains in full why a gang waits.
//
// A refusal gives only the one number that is short. An explanation gives every fact: the best domain and what it
// lacks, the holders of its resources, and the unavailable nodes. It also gives a minimal set of constraints that
// cannot be met together, and the smallest changes with which the gang would start now. Each change is tried before it
// is named. Nothing here changes the view.

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// OutOfService is a node that matches the gang, and the reason why the gang may not use it.
type OutOfService struct {
	Node NodeID
	Why  string
}

// KeptFor holds the amount that is reserved for one promise in the best domain.
type KeptFor struct {
	ID     KeepID
	Amount Resources
}

// Census counts the nodes of the best domain.
type Census struct {
	Machines, WrongKind, OutOfService, Excluded int
	// Useful nodes can hold a part of the gang. The others have too little free of the resources below. A node may
	// lack several.
	Useful, LackGPU, LackCPU, LackMemory int
}

// Explanation holds every fact about why a gang waits.
type Explanation struct {
	// Refusal is the short answer. It is nil if the gang fits now.
	Refusal *Refusal
	// Never is true if the gang would not fit even if every node were idle.
	Never bool
	// Best counts the nodes of the refusal's domain.
	Best Census
	// Out lists the unavailable nodes of that domain that match the gang.
	Out []OutOfService
	// Holders lists the jobs that use resources of that domain. The job with the most of the requested resource is
	// first.
	Holders []Holding
	// Kept lists the promises with reservations in that domain, ordered by ID.
	Kept []KeptFor
	// Conflict is a minimal set of constraints that cannot be met together: without any one of them, the rest can
	// be met.
	Conflict []Constraint
	// InTheWay holds the members of all smallest sets of constraints without which the gang would start now. AtOnce
	// is the size of such a set. It is empty if no set helps, or if a set would be too large.
	InTheWay []Constraint
	AtOnce   int
	// Ends holds the jobs whose time limits end first and whose resources let the gang fit. It is nil if they are
	// not known.
	Ends *Ending
	// Relaxations lists changes. With each one the gang would start now.
	Relaxations []Relaxation
}

// Ending is the earliest set of job ends after which a gang fits.
type Ending struct {
	By   int64 // ns: the latest end of these jobs, by their time limits
	Jobs []JobID
}

// Explain explains why a gang waits. If holders is nil, it names no jobs.
func Explain(f *Tree, g Gang, holders *Holders) Explanation {
	f.lenses.brief = true
	defer func() { f.lenses.brief = false }()
	var e Explanation
	var ok bool
	var r Refusal
	if _, ok = PlaceInto(f, &g, &r); ok {
		return e
	}
	e.Refusal = &r
	x := explainer{f: f, g: g}
	x.detail(&r, false)
	if r.Cause == Senseless || r.Cause == NoSuchLevel {
		e.Never = true
		return e
	}
	ever := g
	ever.Avoid, ever.Closing = nil, nil // these exclusions are temporary
	e.Never = !x.fits(supposition{gang: ever, idle: true, all: true})
	e.Conflict = x.conflict()
	e.AtOnce, e.InTheWay = x.inTheWay(e.Conflict)
	e.Relaxations = x.relaxations(e.Conflict)
	x.visit(&r, holders, &e)
	if holders != nil && !e.Never {
		e.Ends = x.ending(holders)
	}
	return e
}

// ExplainTo is like Explain, but the job's own reservation does not block it. On a follower, the reservation is
// released and then restored. On any other tree, which a planner may use, it is released in a clone.
func ExplainTo(f *Tree, g Gang, job JobID, holders *Holders) Explanation {
	own := KeepID(job)
	if f.Keeps(job) {
		if f.follows {
			defer f.Rollback(f.Mark())
		} else {
			f = f.Clone()
		}
		f.Unkeep(own)
		f.Unkeep(own.Former())
	}
	return Explain(f, g, holders)
}

// explainer tries placements on the tree.
type explainer struct {
	f *Tree
	g Gang
}

// supposition is a gang, with the assumptions about the tree.
type supposition struct {
	gang            Gang
	idle, all, lent bool
}

// fits reports whether a gang could be placed under the assumptions.
func (x *explainer) fits(s supposition) bool {
	q := x.f.newSearch(&s.gang)
	q.idle, q.all, q.lent.All = s.idle, s.all, s.lent
	if !q.start(&x.f.work.refusal) {
		return false
	}
	return q.find()
}

// visit examines every node of the refusal's domain.
func (x *explainer) visit(r *Refusal, holders *Holders, e *Explanation) {
	d := demandOf(&x.g)
	tier, _ := x.f.tierOf(r.Level)
	everywhere := tier == 0 && !r.Named
	if holders != nil && everywhere {
		e.Holders = holders.everywhere()
	}
	byJob := map[JobID]int{}
	for _, sh := range x.f.plan.shelves {
		if !x.within(sh.rack, r) {
			continue
		}
		for i, s := range sh.seats {
			if r.Level == NodeLevel && string(s.id) != r.Domain || r.Named && !slices.Contains(x.g.Only, s.id) {
				continue
			}
			x.census(&d, &sh.rooms[i], s, e)
			x.f.EachKept(s.id, e.keep)
			if holders != nil && !everywhere {
				e.held(holders.on[s.id], byJob)
			}
		}
	}
	sortHoldings(e.Holders)
}

// held adds the resources that jobs hold on one more node.
func (e *Explanation) held(on []stake, byJob map[JobID]int) {
	for _, s := range on {
		at, ok := byJob[s.Job]
		if !ok {
			at = len(e.Holders)
			byJob[s.Job] = at
			e.Holders = append(e.Holders, Holding{Holder: Holder{Job: s.Job}})
		}
		to := &e.Holders[at]
		to.Amount, to.EndsBy = to.Amount.Plus(s.Amount), max(to.EndsBy, s.EndsBy)
		to.Nodes++
	}
}

// keep adds the amount that is reserved for one promise on one more node.
func (e *Explanation) keep(id KeepID, amount Resources) {
	id = KeepID(id.Job())
	at, known := slices.BinarySearchFunc(e.Kept, id, func(k KeptFor, id KeepID) int { return cmp.Compare(k.ID, id) })
	if !known {
		e.Kept = slices.Insert(e.Kept, at, KeptFor{ID: id})
	}
	e.Kept[at].Amount = e.Kept[at].Amount.Plus(amount)
}

// within reports whether a rack belongs to the refusal's domain.
func (x *explainer) within(rack *domain, r *Refusal) bool {
	tier, _ := x.f.tierOf(r.Level)
	for t := len(x.f.levels); t > tier; t-- {
		rack = rack.parent
	}
	return tier == 0 || tier > len(x.f.levels) || rack.path == r.Domain
}

// census counts one node.
func (x *explainer) census(d *demand, r *room, s *seat, e *Explanation) {
	c := &e.Best
	c.Machines++
	switch {
	case !x.matches(s):
		c.WrongKind++
		return
	case s.why != "":
		c.OutOfService++
		e.Out = append(e.Out, OutOfService{s.id, s.why})
		return
	case slices.Contains(x.g.Exclude, s.id):
		c.Excluded++
		return
	case slices.Contains(x.g.Avoid, s.id):
		c.OutOfService++
		e.Out = append(e.Out, OutOfService{s.id, "the job failed there"})
		return
	case slices.Contains(x.g.Closing, s.id):
		c.OutOfService++
		e.Out = append(e.Out, OutOfService{s.id, "drains before the job would end"})
		return
	}
	need := d.need(1)
	has := d.offer(r)
	lacksGPU, lacksCPU, lacksMemory := need.MilliGPU > has.MilliGPU, need.MilliCPU > has.MilliCPU,
		need.MemoryBytes > has.MemoryBytes
	c.LackGPU += tick(lacksGPU)
	c.LackCPU += tick(lacksCPU)
	c.LackMemory += tick(lacksMemory)
	c.Useful += tick(!lacksGPU && !lacksCPU && !lacksMemory)
}

func tick(b bool) int {
	if b {
		return 1
	}
	return 0
}

// shownAtMost limits the number of names in a text.
const shownAtMost = 4

// Span formats a duration: in seconds up to one minute, and otherwise in hours and minutes. It rounds up.
func Span(ns int64) string {
	const second, minute, hour = 1_000_000_000, 60_000_000_000, 3600_000_000_000
	if ns <= minute {
		return strconv.FormatInt((ns+second-1)/second, 10) + "s"
	}
	ns += minute - 1
	text := strconv.FormatInt(ns%hour/minute, 10) + "m"
	if ns >= hour {
		text = strconv.FormatInt(ns/hour, 10) + "h" + text
	}
	return text
}

// listed joins texts. It shows at most shownAtMost of them and the number of the others.
func listed(texts []string) string {
	if n := len(texts) - shownAtMost; n > 0 {
		return strings.Join(texts[:shownAtMost], ", ") + " and " + strconv.Itoa(n) + " more"
	}
	return strings.Join(texts, ", ")
}
