package policy

// This file owns what is counted of each pool: how much of it works for long, what the guard may spend, and which
// promises it has. And so the headroom, which long work leaves to short work.

import (
	"cmp"
	"slices"

	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/topology"
)

const (
	// longWork is what is expected to run longer.
	longWork = 24 * 3600 * second
	// recountEvery is how often the machines are counted; what most of them have is not another thing from one minute to
	// the next.
	recountEvery = 60 * second
	// hoard is for how much time, in seconds, credit is saved up at most.
	hoard = 3600
)

// pool is a pool of machines.
type pool struct {
	estimate.Pool
	long     int64 // milli-GPUs of jobs that run and are expected to do so for long
	credit   int64 // of the guard, in milli-GPU-seconds
	creditAt int64 // until when it has grown
	waits    bool  // something waits since the last pass
	firm     *promise
	moving   [2]int // promises of this pass: to jobs that one machine can hold, and to others
	pace     pace
	asked    uint64 // the pass over queues in which awaited is counted
	awaited  [2]int // bursts of either class that have yet to have their turn in it
}

// pools are all of them.
type pools struct {
	of      estimate.Pools
	all     []pool
	counted int64 // when they were
	len     int   // machines then
}

// work is a job that was started, until it has ended.
type work struct {
	pool    string
	size    int64
	long    bool
	charged int64 // to the guard, in milli-GPU-seconds
}

// count counts the machines again where it is time to, and lets credit grow.
func (s *pools) count(j *Judgement) {
	if s.len != j.view.Len() || j.now >= s.counted+recountEvery || s.all == nil {
		s.recount(j)
	}
	for i := range s.all {
		p := &s.all[i]
		p.moving = [2]int{}
		passed := (j.now - p.creditAt) / second
		p.creditAt += passed * second
		p.pace.turn(j.now)
		if p.waits {
			gain := topology.Scaled(p.Size, j.settings.GuardPercent, 100)
			p.credit = min(p.credit+topology.Scaled(gain, min(passed, hoard), 1), topology.Scaled(gain, hoard, 1))
		}
	}
}

func (s *pools) recount(j *Judgement) {
	was := s.all
	s.of, s.counted, s.len = estimate.PoolsOf(j.view), j.now, j.view.Len()
	s.all = make([]pool, 0, len(s.of))
	for _, p := range s.of {
		s.all = append(s.all, pool{Pool: p, creditAt: j.now})
		if old := find(was, p.Name); old != nil {
			s.all[len(s.all)-1] = *old
			s.all[len(s.all)-1].Pool = p
		}
	}
	for i := range was { // without machines, and still somebody's
		if find(s.all, was[i].Name) == nil && (was[i].long > 0 || was[i].firm != nil || was[i].waits || was[i].credit != 0) {
			was[i].Size = 0
			s.all = append(s.all, was[i])
		}
	}
	slices.SortFunc(s.all, func(a, b pool) int { return cmp.Compare(a.Name, b.Name) })
	for _, b := range j.bursts.list {
		b.jobs = slices.DeleteFunc(b.jobs, func(e *entry) bool { return e.gone }) // those in the middle too
		if b.waits() {
			j.measure(b, &b.head.Gang)
		}
	}
	for _, g := range j.queue.list {
		g.close = nearness{}
	}
}

func find(all []pool, name string) *pool {
	if i := slices.IndexFunc(all, func(p pool) bool { return p.Name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

// pool is that of a burst.
func (j *Judgement) pool(b *burst) *pool { return j.poolNamed(b.traits.Pool) }

func (j *Judgement) poolNamed(name string) *pool {
	p := find(j.pools.all, name)
	if p == nil { // of a type that no machine here has
		j.pools.all = append(j.pools.all, pool{Pool: estimate.Pool{Name: name}, creditAt: j.now})
		slices.SortFunc(j.pools.all, func(a, b pool) int { return cmp.Compare(a.Name, b.Name) })
		p = find(j.pools.all, name)
	}
	return p
}

// heldBack reports whether a burst waits for headroom: it is expected to run for long, too much of the pool does
// already, and it is none of those that take most of a pool anyway.
func (j *Judgement) heldBack(b *burst) bool {
	p := j.pool(b)
	most := topology.Scaled(p.Size, 100-j.settings.HeadroomPercent, 100)
	return j.settings.HeadroomPercent > 0 && b.estimate > longWork &&
		p.long+b.traits.Size > most && 2*b.traits.Size <= most
}

// charge counts a job that was started.
func (j *Judgement) charge(b *burst, e *entry, guarded bool) {
	p := j.pool(b)
	w := &work{pool: p.Name, size: b.traits.Size, long: b.estimate > longWork}
	if guarded {
		w.charged = topology.Scaled(w.size, b.estimate, second)
		p.credit -= w.charged
	}
	j.count(e.Job, w)
}

// Resumed says that a job runs which an earlier leader started.
func (j *Judgement) Resumed(job topology.JobID, traits estimate.Traits, estimate int64) {
	if j.work[job] == nil {
		j.count(job, &work{pool: traits.Pool, size: traits.Size, long: estimate > longWork})
	}
}

func (j *Judgement) count(job topology.JobID, w *work) {
	if w.long {
		j.poolNamed(w.pool).long += w.size
	}
	j.work[job] = w
}

// Returned says that an attempt came to nothing. A firm promise outlives that.
func (j *Judgement) Returned(job topology.JobID) { j.undo(job, 0) }

// Forgotten says that nobody waits for a job.
func (j *Judgement) Forgotten(job topology.JobID) (owed bool) {
	j.undo(job, 0)
	if p := j.firmOf(job); p != nil {
		j.leave(job, p.place)
		j.release(job)
	}
	return len(j.unwritten[job]) > 0
}

// Ended says that a job which was started holds nothing any more, and for how long (ns) it ran; 0: it never did.
// What the guard paid for it is corrected by that.
func (j *Judgement) Ended(job topology.JobID, ran int64) {
	j.undo(job, ran)
	j.Committed(job)
}

// undo counts a job no longer that was started.
func (j *Judgement) undo(job topology.JobID, ran int64) {
	j.changes++
	if j.shares != nil { // of an earlier leader's attempt nobody may have said more than that it was there
		j.ended = append(j.ended, endedJob{job, ran == 0})
	}
	w := j.work[job]
	if w == nil {
		return
	}
	delete(j.work, job)
	p := j.poolNamed(w.pool)
	if w.long {
		p.long -= w.size
	}
	p.pace.did(w.size, ran, j.now)
	if w.charged > 0 {
		p.credit += w.charged - topology.Scaled(w.size, ran, second)
	}
}
