package topology

// This file owns explanations: the complete answer to why a gang waits. A refusal gives only the one number that is
// short; an explanation gives all that stands in the way: the best place and what it lacks, who has it, machines that
// are out of service, a minimal set of constraints that cannot be met together, and the smallest changes with which the
// gang would start now, each of them tried before it is named. Nothing here changes the view.

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// OutOfService is a machine that might serve the gang, and why it may not.
type OutOfService struct {
	Node NodeID
	Why  string
}

// KeptFor is the room that is kept for one promise in the best place.
type KeptFor struct {
	ID     KeepID
	Amount Resources
}

// Census counts the machines of the best place.
type Census struct {
	Machines, WrongKind, OutOfService, Excluded int
	// Of the others, Useful hold a part of the gang; the rest hold none of it because they have too few devices, or too
	// little CPU or memory free (a machine may lack several).
	Useful, LackGPU, LackCPU, LackMemory int
}

// Explanation is the complete answer to "why is it pending?".
type Explanation struct {
	// Refusal is the short answer; nil when the gang fits now.
	Refusal *Refusal
	// Never: not even an idle cluster could hold it.
	Never bool
	// Best counts the machines of the place that the refusal speaks of.
	Best Census
	// Out lists the machines of the right kind there that are out of service.
	Out []OutOfService
	// Holders lists the jobs that have something there, the largest holder of what is asked for first.
	Holders []Holding
	// Kept lists for whom room is kept there, in the order of ids.
	Kept []KeptFor
	// Conflict is a set of constraints that cannot be met together, while any of
	// them dropped would let the others be met.
	Conflict []Constraint
	// InTheWay are the constraints in any of the smallest sets without which the gang would start now; each such set has
	// AtOnce of them. None: nothing would help, or too many would have to go at once.
	InTheWay []Constraint
	AtOnce   int
	// Ends is how the wait ends by itself: the jobs whose time limits end first and whose room lets the gang fit; nil when
	// that is not known.
	Ends *Ending
	// Relaxations are changes with each of which the gang would start now.
	Relaxations []Relaxation
}

// Ending is the earliest set of endings after which a gang fits.
type Ending struct {
	By   int64 // ns: the last of them has ended by then, by its time limit
	Jobs []JobID
}

// Explain lists everything that stands in a gang's way. holders may be nil: then nobody is named.
func Explain(f *Fabric, g Gang, holders *Holders) Explanation {
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
	ever.Avoid, ever.Closing = nil, nil // for a while only
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

// ExplainTo is Explain to a job for which room may be kept: that is not in its way. Where nobody plans on the fabric it
// is given back on a mark, else on a clone.
func ExplainTo(f *Fabric, g Gang, job JobID, holders *Holders) Explanation {
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

// explainer asks the fabric one question after another.
type explainer struct {
	f *Fabric
	g Gang
}

// supposition is a gang, and what else is supposed to be different.
type supposition struct {
	gang            Gang
	idle, all, lent bool
}

// fits reports whether a supposition would be placed.
func (x *explainer) fits(s supposition) bool {
	q := x.f.newSearch(&s.gang)
	q.idle, q.all, q.lent.All = s.idle, s.all, s.lent
	if !q.start(&x.f.work.refusal) {
		return false
	}
	return q.find()
}

// visit looks at every machine of the place that the refusal speaks of.
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

// held adds what one more machine holds.
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

// keep adds what is kept for one promise on one more machine.
func (e *Explanation) keep(id KeepID, amount Resources) {
	id = KeepID(id.Job())
	at, known := slices.BinarySearchFunc(e.Kept, id, func(k KeptFor, id KeepID) int { return cmp.Compare(k.ID, id) })
	if !known {
		e.Kept = slices.Insert(e.Kept, at, KeptFor{ID: id})
	}
	e.Kept[at].Amount = e.Kept[at].Amount.Plus(amount)
}

// within reports whether a rack lies in the place that a refusal speaks of.
func (x *explainer) within(rack *domain, r *Refusal) bool {
	tier, _ := x.f.tierOf(r.Level)
	for t := len(x.f.levels); t > tier; t-- {
		rack = rack.parent
	}
	return tier == 0 || tier > len(x.f.levels) || rack.path == r.Domain
}

// census counts one machine.
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

// shownAtMost bounds the names in a text.
const shownAtMost = 4

// Span writes a time as people say it, in whole minutes where it is some; never less than it is.
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

// listed joins texts, and says how many more there are than a line should show.
func listed(texts []string) string {
	if n := len(texts) - shownAtMost; n > 0 {
		return strings.Join(texts[:shownAtMost], ", ") + " and " + strconv.Itoa(n) + " more"
	}
	return strings.Join(texts, ", ")
}
