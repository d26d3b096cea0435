package policy

// This file owns bursts: jobs alike that were submitted one soon after the other, of which the first stands for all. An
// array is a burst. It must never hold a job that waits no more for longer than others of its burst wait.

import (
	"slices"

	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// The longest time between two submissions of one burst, and of one of jobs that name neither an owner nor themselves
// and are no gangs: nothing says that they are of one kind but that they come together.
const (
	burstGap    = 600 * second
	namelessGap = 10 * second
)

// standing holds a Judgement's data of one waiting job.
type standing struct {
	left     bool  // a pass has left it waiting
	declined int64 // when it first could have started, but spread wider than it might be (0: never)
	promised *promise
	slips    int            // what its lender lent on an estimate came back late so often
	loans    []loan         // of which no hard end holds
	given    topology.JobID // what was kept for it was given back, for this one has no end; "": not so
	told     *foretold
}

// burstKey holds the properties that the jobs of a burst share.
type burstKey struct {
	shape              groupKey
	owner, queue, name string
	limit              int64
	priority           int32
}

// burst is jobs alike.
type burst struct {
	key    burstKey
	traits estimate.Traits
	line   *estimate.Line
	gang   bool     // each is larger than a machine
	tried  bool     // one of them has been started
	weight int64    // of their size in the order, in thousandths
	jobs   []*entry // in order; some may be gone
	head   *entry   // the first that waits; nil: none does
	last   int64    // when the last one was submitted

	estimate int64 // in this pass
	rank     int64
	probes   bool // its first job may have its turn before the others: see probe.go

	turn  int         // which of the jobs has its turn, where there are queues
	at    inTree      // among the queues
	needs []int64     // of each amount that they count, likewise
	over  *share.Over // the limit that stopped it last
	asked uint64      // the pass that looked whether one does

	hunted int64 // until then nobody looks for whom to stop for it
	fewer  int64 // until then no pass looks for a placement on fewer nodes for it
	vain   vain
}

// waits finds the first job of the burst that still waits, and lets go of those before it.
func (b *burst) waits() bool {
	n := slices.IndexFunc(b.jobs, func(e *entry) bool { return !e.gone })
	if n < 0 {
		n, b.head = len(b.jobs), nil
	} else {
		b.head = b.jobs[n]
	}
	clear(b.jobs[:n])
	if b.jobs = b.jobs[n:]; len(b.jobs) == 0 {
		b.jobs = nil
	}
	return b.head != nil
}

// burstID names the burst of a waiting job; 0: it is in none.
func (e *entry) burstID() uint64 {
	if e.burst == nil {
		return 0
	}
	return e.burst.traits.Burst
}

// bursts are all of them.
type bursts struct {
	open map[burstKey]*burst // that the next job alike joins
	list []*burst            // in the order in which they were made
	made uint64
	came []*entry // that are to be entered, beside those that came since the last pass
}

func newBursts() bursts { return bursts{open: map[burstKey]*burst{}} }

// take enters the jobs that came, the first to come first.
func (s *bursts) take(j *Judgement) {
	for _, e := range j.queue.entered {
		if j.queue.jobs[e.Job] == e {
			s.came = append(s.came, e)
		}
	}
	slices.SortFunc(s.came, entryOrder)
	for _, e := range slices.Compact(s.came) {
		s.enter(j, e)
	}
	clear(s.came)
	s.came = s.came[:0]
	s.list = slices.DeleteFunc(s.list, func(b *burst) bool {
		if b.waits() {
			b.estimate = j.expected(b)
			return false
		}
		if s.open[b.key] == b && j.now <= b.last+b.gap() {
			return false
		}
		if s.open[b.key] == b {
			delete(s.open, b.key)
		}
		b.line.Close()
		return true
	})
}

// enter puts a job into its burst. One that was patient until now stays where it is.
func (s *bursts) enter(j *Judgement, e *entry) {
	if e.burst != nil {
		return
	}
	key := burstKey{e.group.key, e.Owner, e.Queue, estimate.WithoutDigits(e.Name), e.Limit, e.Priority}
	key.shape.patient = false
	b := s.open[key]
	if b == nil || e.Since > b.last+b.gap() {
		b = s.make(j, key, e)
	}
	b.last = max(b.last, e.Since)
	at, _ := slices.BinarySearchFunc(b.jobs, e, entryOrder)
	b.jobs = slices.Insert(b.jobs, at, e)
	e.burst = b
}

// gap is how long after the last one a job may come to be in a burst.
func (b *burst) gap() int64 {
	if b.key.owner == "" && b.key.name == "" && !b.gang {
		return namelessGap
	}
	return burstGap
}

func (s *bursts) make(j *Judgement, key burstKey, e *entry) *burst {
	s.made++
	b := &burst{key: key}
	b.traits = estimate.Traits{Queue: e.Queue, Owner: e.Owner, Name: e.Name, Limit: e.Limit, Burst: s.made}
	j.measure(b, &e.Gang)
	b.line = j.cells.Of(b.traits)
	s.open[key] = b
	s.list = append(s.list, b)
	return b
}

// measure finds the pool and the size of a burst's jobs.
func (j *Judgement) measure(b *burst, g *topology.Gang) {
	pool := j.pools.of.Of(g)
	b.traits.Pool, b.traits.Size = pool.Name, pool.SizeOf(g)
	b.gang, b.weight = b.traits.Size > pool.Whole(), rootOf(b.traits.Size)
}

// orderOf is the order of the queue that a burst waits in.
func (j *Judgement) orderOf(b *burst) share.Order {
	if j.shares == nil {
		return j.settings.Order
	}
	return j.leafOf(b).Order
}

// gangBoost is by how much the work of a gang counts for less than that of others: what is hard to place goes early.
const gangBoost = 20

// ordered are the bursts that wait, in the order in which they have their turn: those first that are expected to need
// the least, by the time, and by the root of what of a machine they want.
func (s *bursts) ordered(j *Judgement) []*burst {
	var all []*burst
	for _, b := range s.list {
		if !b.waits() {
			continue
		}
		switch b.rank = b.estimate; {
		case j.orderOf(b) == share.FIFO:
			b.rank = 0
		case b.gang:
			b.rank /= gangBoost
		case !j.settings.lacks.sizes:
			b.rank = topology.Scaled(b.rank, b.weight, 1000)
		}
		b.probes = b.rank > 0 && b.isUntried(j)
		all = append(all, b)
	}
	slices.SortFunc(all, (*burst).before)
	return all
}

// expected is how long the jobs of a burst are expected to run.
func (j *Judgement) expected(b *burst) int64 {
	if !j.settings.lacks.learning {
		return b.line.Estimate(j.now)
	}
	if b.traits.Limit > 0 {
		return min(estimate.Unlearned, b.traits.Limit)
	}
	return estimate.Unlearned
}
