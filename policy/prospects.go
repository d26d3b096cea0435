package policy

// This file has the public information about starts. It has the promises, and the positions of other jobs in the order
// of turns with the expected work ahead of them. It makes no decisions and does not guess: a job without a promise gets
// no time.

import (
	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/topology"
)

// Foreteller is a planner that can estimate when jobs start.
type Foreteller interface {
	Planner
	// Prospects returns the current estimates. It is called between passes.
	Prospects() Prospects
}

// Prospects holds the estimates of all waiting jobs.
type Prospects struct {
	Promises []Promise // firm ones first, each in the order of creation
	Lines    []InLine  // in the order of turns
}

// Promise holds the published part of a waiting job's reservation.
type Promise struct {
	Job   topology.JobID
	Where topology.Placement
	At    int64 // expected start
	Bound int64 // latest start; topology.Never: unknown
	// Latest is the latest start by the current limits. It is later than Bound while a raised limit applies.
	Latest int64
	By     int64 // time by which 9 of 10 jobs with a similar estimate had started; 0: too few
	Until  int64 // end of the reservation in any case; topology.Never: the start of the job
	Firm   bool
	OnLoan bool // its queue borrows for it: the reservation yields to a queue that reclaims its quota
	Slips  int
	// Endless is a job without a hard end on one of these nodes, which prevents a bound.
	Endless topology.JobID
	// Given is a running job without a hard end, because of which the last reservation of this job was released.
	// The job gets no new turn from the guard before that job has ended.
	Given topology.JobID
}

// InLine is the position of a burst's jobs among the jobs of their pool. Work is in milli-GPU-seconds.
type InLine struct {
	Burst   uint64 // as in Traits
	Ahead   int    // number of jobs with an earlier turn than its first
	Work    int64  // their expected work
	Each    int64  // expected work of each of its own jobs
	Pace    int64  // work that the pool has done per second recently; 0: unknown
	NoGPUs  bool   // its pool is the nodes without GPUs, whose size counts as a number of GPUs
	Endless topology.JobID
	Given   topology.JobID // as in Promise, of its first job
	// Why is the reason that keeps its first job waiting although capacity may be free: Headroom, Locality, or
	// Withholdings for none of these. For Locality, Within is the level of the place that it waits for, and Until
	// is the end of that wait.
	Why    Withholding
	Within string
	Until  int64
	// Over describes the limit that keeps its first job waiting, with a suggestion; "": none. Share describes the
	// usage of its queue relative to its quota; "": no quota.
	Over, Share string
	Limit       string // short form of Over
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
	ahead := map[string]*InLine{} // by pool: the sums before the next burst
	shares := map[inTree]string{} // by queue and pool: the text for Share
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

// tellable returns the published part of a promise.
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

// givenFor returns a job that still runs and because of which the reservation of another job was released, or "".
func (j *Judgement) givenFor(e *entry) topology.JobID {
	if e.given == "" || !j.ends.Runs(e.given) {
		return ""
	}
	return e.given
}

// endlessIn returns a job without a hard end that a promise in this pool waits for.
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
	// paceHours is the number of hours in the mean rate of a pool.
	paceHours = 24
	// paceLeast is the minimum time of measurement before a rate is published.
	paceLeast = 600 * second
	oneHour   = 3600 * second
)

// pace is the work done in a pool, by hour.
type pace struct {
	since int64            // start of the measurement; 0: not started
	hour  int64            // the current hour
	done  [paceHours]int64 // in milli-GPU-seconds
}

// did adds the measured part of an ended job's work.
func (p *pace) did(size, ran, now int64) {
	if p.since > 0 {
		p.turn(now)
		p.done[p.hour%paceHours] += topology.Scaled(size, min(ran, now-p.since), second)
	}
}

// turn removes hours that are older than a day.
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

// now returns the mean rate of the last day, or of the measured part of it, in milli-GPUs; 0: unknown.
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
