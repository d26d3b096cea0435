package policy

// This file has the bursts. A burst is a group of similar jobs that were submitted shortly after each other, and the
// planner examines only its first job. An array is a burst. A burst must not keep a job that no longer waits longer
// than its other jobs wait.

import (
	"slices"

	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// The longest time between two submissions of one burst. namelessGap applies to jobs without owner and name that fit on
// one node: only their submission time shows that they are similar.
const (
	burstGap    = 600 * second
	namelessGap = 10 * second
)

// standing holds a Judgement's data of one waiting job.
type standing struct {
	left     bool  // an earlier pass has left it waiting
	declined int64 // time when it could first have started, but spread too widely; 0: never
	promised *promise
	slips    int    // number of times that capacity lent on an estimate was returned late
	loans    []loan // backfilled capacity without a hard end
	// Job without a known end, because of which the job's reserved nodes were released; "": none.
	given topology.JobID
	told  *foretold
}

// burstKey holds the properties that the jobs of a burst share.
type burstKey struct {
	shape              groupKey
	owner, queue, name string
	limit              int64
	priority           int32
}

// burst is a group of similar jobs.
type burst struct {
	key    burstKey
	traits estimate.Traits
	line   *estimate.Line
	gang   bool     // each job is larger than a node
	tried  bool     // one of its jobs has been started
	weight int64    // weight of the size in the order, in thousandths
	jobs   []*entry // in order; some may have left the queue
	head   *entry   // the first waiting job; nil: none
	last   int64    // time of the latest submission

	estimate int64 // in this pass
	rank     int64
	probes   bool // its first job may have an earlier turn than the others: see probe.go

	turn  int         // index of the job whose turn it is, if there are queues
	at    inTree      // position in the tree of queues
	needs []int64     // needs of its jobs by amount
	over  *share.Over // the limit that stopped it last
	asked uint64      // the pass that computed over

	hunted int64 // no search for victims before this time
	fewer  int64 // no search for a placement on fewer nodes before this time
	vain   vain
}

// waits finds the first waiting job of the burst, and removes the jobs before it. It reports whether there is one.
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

// burstID returns the number of a waiting job's burst, or 0.
func (e *entry) burstID() uint64 {
	if e.burst == nil {
		return 0
	}
	return e.burst.traits.Burst
}

// bursts has all bursts.
type bursts struct {
	open map[burstKey]*burst // burst that the next similar job joins
	list []*burst            // in the order of their creation
	made uint64
	came []*entry // jobs to add, in addition to the jobs that entered the queue after the last pass
}

func newBursts() bursts { return bursts{open: map[burstKey]*burst{}} }

// take adds the new jobs to their bursts, earliest first. It also removes bursts that are empty and closed.
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

// enter adds a job to its burst. A job that is in a burst already stays there.
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

// gap returns the longest time after the last submission in which a job may join.
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

// measure computes the pool and the size of a burst's jobs.
func (j *Judgement) measure(b *burst, g *topology.Gang) {
	pool := j.pools.of.Of(g)
	b.traits.Pool, b.traits.Size = pool.Name, pool.SizeOf(g)
	b.gang, b.weight = b.traits.Size > pool.Whole(), rootOf(b.traits.Size)
}

// orderOf returns the order of the queue in which a burst waits.
func (j *Judgement) orderOf(b *burst) share.Order {
	if j.shares == nil {
		return j.settings.Order
	}
	return j.leafOf(b).Order
}

// gangBoost divides the rank of gangs, so that jobs that are hard to place get an early turn.
const gangBoost = 20

// ordered returns the waiting bursts in the order of their turns. Bursts with the least expected work come first. The
// work is the expected run time, weighted by the square root of the size relative to a node.
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

// expected returns the expected run time of a burst's jobs.
func (j *Judgement) expected(b *burst) int64 {
	if !j.settings.lacks.learning {
		return b.line.Estimate(j.now)
	}
	if b.traits.Limit > 0 {
		return min(estimate.Unlearned, b.traits.Limit)
	}
	return estimate.Unlearned
}
