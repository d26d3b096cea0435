package policy

// This file owns what waiting jobs can be told of the time: what is promised to which, and where the others stand in
// the order in which the planner looks at them, with the work that is expected of those ahead. Nothing is decided by
// it, and nothing is said that is not known: a job without a promise is told no time.

import (
	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/topology"
)

// Foreteller is a planner that can say when jobs start.
type Foreteller interface {
	Planner
	// Prospects are what can be told now. It is asked between passes.
	Prospects() Prospects
}

// Prospects holds the estimates of all waiting jobs.
type Prospects struct {
	Promises []Promise // firm ones first, each in the order in which they were made
	Lines    []InLine  // the burst that has its turn first, first
}

// Promise holds the published part of a waiting job's reservation.
type Promise struct {
	Job   topology.JobID
	Where topology.Placement
	At    int64 // when it is expected to start
	Bound int64 // by when it will; topology.Never: no bound can be given
	// Latest is the bound that holds by the limits of now: later than Bound where one was raised since, for as long.
	Latest int64
	By     int64 // nine of ten that were told as it was first started by then; 0: too few were
	Until  int64 // until when it is kept, whatever happens; topology.Never: until it starts
	Firm   bool
	OnLoan bool // its queue borrows for it: another one that takes that back comes before it
	Slips  int
	// Endless is a job without a hard end on one of these machines, because of which no bound can be given.
	Endless topology.JobID
	// Given is a job that runs without a hard end, because of which what was kept for this one in its turn was given back:
	// it has no other turn before that has ended.
	Given topology.JobID
}

// InLine is where the jobs of a burst stand among those of their pool. Work is in milli-GPU-seconds.
type InLine struct {
	Burst   uint64 // as in Traits
	Ahead   int    // jobs that have their turn before its first
	Work    int64  // that is expected of those
	Each    int64  // that is expected of each of its own
	Pace    int64  // how much of that the pool has done in a second, of late; 0: not known
	NoGPUs  bool   // its pool is that of machines without GPUs: work is of machines that count for some
	Endless topology.JobID
	Given   topology.JobID // as in Promise, of its first job
	// Why is what keeps its first job waiting though there may be room: Headroom, Locality, or Withholdings where it
	// is neither. Within is the level that Locality waits for one place of, and Until is when that wait ends.
	Why    Withholding
	Within string
	Until  int64
	// Over is the limit that keeps its first job waiting, and the way out; "": none does. Share is how its queue stands to
	// what it is assured; "": nothing is.
	Over, Share string
	Limit       string // Over in a few words
}

// Prospects returns the current estimates.
func (j *Judgement) Prospects() (all Prospects) {
	if j.queue == nil {
		return all
	}
	for n := range len(j.firm) + len(j.moving) {
		if p := j.lender(n); !p.e.gone {
			all.Promises = append(all.Promises, j.tellable(p))
		}
	}
	ahead := map[string]*InLine{} // by pool: what stands before the next burst
	shares := map[inTree]string{} // what is said of a queue to those of one pool
	for _, b := range j.lineUp {
		if !b.waits() {
			continue
		}
		pool := j.pool(b)
		before := ahead[pool.Name]
		if before == nil {
			before = &InLine{NoGPUs: pool.Name == estimate.NoGPUs, Pace: pool.pace.now(j.now)}
			before.Endless = j.endlessIn(pool.Name, all.Promises)
			ahead[pool.Name] = before
		}
		line := *before
		line.Burst, line.Each = b.traits.Burst, topology.Scaled(b.traits.Size, b.estimate, second)
		if line.Why, line.Until = j.holding(b); line.Why == Locality {
			line.Within = j.closest(b.head.group)
		}
		line.Given = j.givenFor(b.head)
		if j.shares != nil {
			if over := j.overOf(b, b.head); over != nil {
				line.Over, line.Limit = over.Words(), over.Short()
			}
			j.leafOf(b)
			text, known := shares[b.at]
			if !known {
				text = j.Share(b.head.Job)
				shares[b.at] = text
			}
			line.Share = text
		}
		all.Lines = append(all.Lines, line)
		jobs := 0
		for _, e := range b.jobs {
			if !e.gone {
				jobs++
			}
		}
		before.Ahead += jobs
		before.Work += topology.Scaled(line.Each, int64(jobs), 1)
	}
	return all
}

// tellable is as much of a promise as people are told.
func (j *Judgement) tellable(p *promise) Promise {
	t := Promise{
		Job: p.e.Job, Where: p.place, At: p.at, Bound: p.bound, Latest: p.latest(), Until: topology.Never,
		Firm: p.firm, OnLoan: p.onLoan, Slips: p.e.slips, Endless: j.ends.Endless(p.place),
	}
	if p.firm {
		t.Until = j.keptUntil(p)
	} else {
		t.Given = j.givenFor(p.e)
	}
	if p.e.told != nil {
		t.By = p.e.told.by
	}
	return t
}

// givenFor is a job that still runs, because of which what was kept for another was given back; "": nothing was.
func (j *Judgement) givenFor(e *entry) topology.JobID {
	if e.given == "" || !j.ends.Runs(e.given) {
		return ""
	}
	return e.given
}

// endlessIn is a job without a hard end that one in this pool waits for.
func (j *Judgement) endlessIn(pool string, promises []Promise) topology.JobID {
	for i := range promises {
		if e := j.queue.jobs[promises[i].Job]; promises[i].Endless != "" && e.burst.traits.Pool == pool {
			return promises[i].Endless
		}
	}
	return ""
}

// holding returns the reason why the first job of a burst may not use free capacity.
func (j *Judgement) holding(b *burst) (Withholding, int64) {
	switch why := j.withholding(b); {
	case why == Headroom:
		return why, 0
	case why == Locality && b.head.declined > 0:
		return why, j.patientUntil(b.head, b.head.declined)
	}
	return Withholdings, 0
}

const (
	// paceHours are the hours of which the pace of a pool is the mean.
	paceHours = 24
	// paceLeast is for how long work must have been watched before its pace is told.
	paceLeast = 600 * second
	oneHour   = 3600 * second
)

// pace is how much work was done in a pool, hour by hour.
type pace struct {
	since int64            // when watching began; 0: not yet
	hour  int64            // that goes on
	done  [paceHours]int64 // in milli-GPU-seconds
}

// did counts work of what has ended, as much of it as was watched.
func (p *pace) did(size, ran, now int64) {
	if p.since > 0 {
		p.turn(now)
		p.done[p.hour%paceHours] += topology.Scaled(size, min(ran, now-p.since), second)
	}
}

// turn forgets what is a day old.
func (p *pace) turn(now int64) {
	if p.since == 0 {
		p.since, p.hour = now, now/oneHour
	}
	for last := now / oneHour; p.hour < last; {
		p.hour++
		p.done[p.hour%paceHours] = 0
		if p.hour+paceHours < last {
			p.hour, p.done = last, [paceHours]int64{}
		}
	}
}

// now is the mean of the last day, or of what was watched of it, in milli-GPUs; 0: not known.
func (p *pace) now(now int64) int64 {
	watched := min(now-p.since, (paceHours-1)*oneHour+now%oneHour)
	if p.since == 0 || watched < paceLeast {
		return 0
	}
	sum := int64(0)
	for _, done := range p.done {
		sum += done
	}
	return sum / (watched / second)
}
