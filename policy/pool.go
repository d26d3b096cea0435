package policy

// This file counts for each pool: the long jobs that run, the credit of the guard, and the promises. It also has the
// share for short jobs, which limits the capacity of long jobs. The code calls it headroom.

import (
	"cmp"
	"slices"

	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/topology"
)

const (
	// longWork is the expected run time above which a job is long.
	longWork = 24 * 3600 * second
	// recountEvery is the interval between counts of the nodes. The usual size of a node rarely changes.
	recountEvery = 60 * second
	// hoard is the time, in seconds, for which credit is saved at most.
	hoard = 3600
)

// pool is a pool of nodes.
type pool struct {
	estimate.Pool
	long     int64 // milli-GPUs of running jobs that are expected to run long
	credit   int64 // of the guard, in milli-GPU-seconds
	creditAt int64 // the time up to which credit has grown
	waits    bool  // jobs wait since the last pass
	firm     *promise
	moving   [2]int // moving promises of this pass: for jobs that fit on one node, and for gangs
	pace     pace
	asked    uint64 // the pass to which awaited belongs
	awaited  [2]int // bursts of each class that have not had their turn in it
}

// pools has all pools.
type pools struct {
	of      estimate.Pools
	all     []pool
	counted int64 // time of the last count
	len     int   // number of nodes then
}

// work is a job that was started and has not ended.
type work struct {
	pool    string
	size    int64
	long    bool
	charged int64 // paid by the guard, in milli-GPU-seconds
}

// count counts the nodes if that is due, and increases the credits.
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
	for i := range was { // keeps pools without nodes that are still in use
		if find(s.all, was[i].Name) == nil && (was[i].long > 0 || was[i].firm != nil || was[i].waits || was[i].credit != 0) {
			was[i].Size = 0
			s.all = append(s.all, was[i])
		}
	}
	slices.SortFunc(s.all, func(a, b pool) int { return cmp.Compare(a.Name, b.Name) })
	for _, b := range j.bursts.list {
		b.jobs = slices.DeleteFunc(b.jobs, func(e *entry) bool { return e.gone }) // also those in the middle
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

// pool returns the pool of a burst.
func (j *Judgement) pool(b *burst) *pool { return j.poolNamed(b.traits.Pool) }

func (j *Judgement) poolNamed(name string) *pool {
	p := find(j.pools.all, name)
	if p == nil { // no node here has this type
		j.pools.all = append(j.pools.all, pool{Pool: estimate.Pool{Name: name}, creditAt: j.now})
		slices.SortFunc(j.pools.all, func(a, b pool) int { return cmp.Compare(a.Name, b.Name) })
		p = find(j.pools.all, name)
	}
	return p
}

// heldBack reports whether the share for short jobs stops a burst. It does if the burst is expected to run long and
// long jobs already use too much of the pool. It does not stop jobs that need most of a pool.
func (j *Judgement) heldBack(b *burst) bool {
	p := j.pool(b)
	most := topology.Scaled(p.Size, 100-j.settings.HeadroomPercent, 100)
	return j.settings.HeadroomPercent > 0 && b.estimate > longWork &&
		p.long+b.traits.Size > most && 2*b.traits.Size <= most
}

// charge counts a started job.
func (j *Judgement) charge(b *burst, e *entry, guarded bool) {
	p := j.pool(b)
	w := &work{pool: p.Name, size: b.traits.Size, long: b.estimate > longWork}
	if guarded {
		w.charged = topology.Scaled(w.size, b.estimate, second)
		p.credit -= w.charged
	}
	j.count(e.Job, w)
}

// Resumed reports a running job that an earlier leader started.
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

// Returned reports that an attempt failed before it ran. A firm promise remains.
func (j *Judgement) Returned(job topology.JobID) { j.undo(job, 0) }

// Forgotten reports that a job no longer waits.
func (j *Judgement) Forgotten(job topology.JobID) (owed bool) {
	j.undo(job, 0)
	if p := j.firmOf(job); p != nil {
		j.leave(job, p.place)
		j.release(job)
	}
	return len(j.unwritten[job]) > 0
}

// Ended reports that a started job holds nothing any more, and its run time in ns, or 0 if it never ran. The payment of
// the guard is corrected accordingly.
func (j *Judgement) Ended(job topology.JobID, ran int64) {
	j.undo(job, ran)
	j.Committed(job)
}

// undo removes a started job from all counts.
func (j *Judgement) undo(job topology.JobID, ran int64) {
	j.changes++
	if j.shares != nil { // an attempt of an earlier leader may have no entry in work
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
