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
	// Kept lists for whom room is kept there, in the order of ids. For is the job that asks: its own kept room is left
	// out.
	Kept []KeptFor
	For  JobID
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
	// NowNs is the time of the explanation, on the clock by which holders end: the text says how far away those ends are.
	NowNs int64
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
	e := Explain(f, g, holders)
	e.For = job
	return e
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

// shownAtMost bounds each list in the text; the fields hold them whole.
const shownAtMost = 4

// String is the answer in one line: what is short and where, which machines are out of service, who has it, when that
// ends, and what would start now.
func (e Explanation) String() string {
	if e.Refusal == nil {
		return e.Refusal.String()
	}
	parts := []string{e.Refusal.String()}
	if e.Never && e.Refusal.Cause != Senseless && e.Refusal.Cause != NoSuchLevel {
		parts = append(parts, "not even an idle cluster could hold it")
	}
	parts = append(parts, e.servicePart()...)
	parts = append(parts, e.lackPart()...)
	parts = append(parts, e.holderPart()...)
	parts = append(parts, e.keptPart()...)
	if e.Ends != nil {
		jobs := make([]string, 0, len(e.Ends.Jobs))
		for _, j := range e.Ends.Jobs {
			jobs = append(jobs, string(j))
		}
		parts = append(parts, "fits when "+listed(jobs)+" ended, in "+Span(max(e.Ends.By-e.NowNs, 1))+" at the latest")
	}
	if len(e.Conflict) > 1 {
		names := make([]string, 0, len(e.Conflict))
		for _, c := range e.Conflict {
			names = append(names, c.String())
		}
		parts = append(parts, "cannot be met together: "+strings.Join(names, ", "))
	}
	if e.AtOnce > 1 && len(e.Relaxations) == 0 {
		names := make([]string, 0, len(e.InTheWay))
		for _, c := range e.InTheWay {
			names = append(names, c.String())
		}
		parts = append(parts, strconv.Itoa(e.AtOnce)+" of these would have to go at once: "+strings.Join(names, ", "))
	}
	if len(e.Relaxations) > 0 {
		texts := make([]string, 0, len(e.Relaxations))
		for _, r := range e.Relaxations {
			texts = append(texts, r.Text)
		}
		parts = append(parts, "would start now "+strings.Join(texts, ", or "))
	}
	return strings.Join(parts, " · ")
}

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

func (e Explanation) servicePart() []string {
	texts := make([]string, 0, len(e.Out))
	for _, o := range e.Out {
		texts = append(texts, string(o.Node)+" "+o.Why)
	}
	if len(texts) == 0 {
		return nil
	}
	return []string{listed(texts)}
}

// lackPart says what the machines of the right kind that are in service lack.
func (e Explanation) lackPart() []string {
	var texts []string
	for _, lack := range []struct {
		n    int
		what string
	}{{e.Best.LackCPU, "CPU"}, {e.Best.LackMemory, "memory"}} {
		if lack.n > 0 {
			texts = append(texts, strconv.Itoa(lack.n)+" of "+count(int64(e.Best.Machines), "machine")+" there with too little "+
				lack.what+" free")
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return []string{strings.Join(texts, ", ")}
}

func (e Explanation) holderPart() []string {
	if e.Never {
		return nil
	}
	texts := make([]string, 0, len(e.Holders))
	for _, h := range e.Holders {
		if what := e.Refusal.share(h.Amount); what != "" {
			texts = append(texts, string(h.Job)+" has "+what)
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return []string{"there " + listed(texts)}
}

// keptPart says for whom room is kept there, free or not.
func (e Explanation) keptPart() []string {
	texts := make([]string, 0, len(e.Kept))
	for _, k := range e.Kept {
		if what := e.Refusal.share(k.Amount); what != "" && string(k.ID) != string(e.For) && !e.Never {
			texts = append(texts, what+" for "+string(k.ID))
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return []string{"kept there are " + listed(texts)}
}

// share writes what somebody has of what the gang is short of.
func (r *Refusal) share(a Resources) string {
	switch {
	case r.rate.gpus > 0 || r.rate.part > 0:
		if a.MilliGPU > 0 {
			return decimal(a.MilliGPU)
		}
	case r.rate.cpu > 0:
		if a.MilliCPU > 0 {
			return decimal(a.MilliCPU) + " cores"
		}
	case a.MemoryBytes > 0:
		return bytes(a.MemoryBytes)
	}
	return ""
}

// listed joins texts, and says how many more there are than a line should show.
func listed(texts []string) string {
	if n := len(texts) - shownAtMost; n > 0 {
		return strings.Join(texts[:shownAtMost], ", ") + " and " + strconv.Itoa(n) + " more"
	}
	return strings.Join(texts, ", ")
}
