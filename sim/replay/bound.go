package replay

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/sim/record"
)

// This file owns the bound of docs/explain/start-times.md, held against what became of each job: with n older ones
// of total work W ahead of it, a job starts within (n + 1)·L + W / (the guard's part of the cluster) + a minute.

// leaving is how long after its limit a job may hold its machines at most: it is told to stop, has its grace, and its
// end is written down.
const leaving = 2 * time.Minute

// hasBound reports whether the bound holds of a run: all jobs have limits, and nothing but the planner as it is
// decides who is next. Without queues nobody is stopped for another either.
func (r *run) hasBound() bool {
	return r.o.Policy == record.Synapse && r.o.Without == "" && r.o.Queues == nil &&
		!slices.ContainsFunc(r.jobs, func(j record.Job) bool { return j.Limit == 0 })
}

// overBound is an error if a job waited for longer than its bound. What the guard owes for those that it let go
// before is not counted, so a bound is a little earlier here than it is told to people.
func (r *run) overBound() error {
	guarded := int64(r.o.Cluster.Sum()) * policy.DefaultSettings().GuardPercent
	// All in seconds: thousands of weeks are too many nanoseconds.
	hard := func(i int) int64 { return int64((max(r.jobs[i].Limit, r.jobs[i].Duration) + leaving) / time.Second) }
	work := func(i int) int64 { return hard(i) * int64(r.jobs[i].GPUs) }
	started := func(i int) time.Duration {
		if at := r.lives[i].started; at >= 0 {
			return at
		}
		return forever
	}
	var byArrival []int
	longest := int64(0)
	for i := range r.jobs {
		if !r.tooBig[i] {
			byArrival, longest = append(byArrival, i), max(longest, hard(i))
		}
	}
	byStart := slices.Clone(byArrival)
	slices.SortStableFunc(byStart, func(a, b int) int { return cmp.Compare(started(a), started(b)) })
	older, ahead, gone := int64(0), int64(0), 0
	for _, i := range byArrival {
		came := r.jobs[i].Submit
		for ; gone < len(byStart) && started(byStart[gone]) < came; gone++ {
			older--
			ahead -= work(byStart[gone])
		}
		most := (older+1)*longest + 100*ahead/guarded + 60
		if waited := int64((min(started(i), r.ran) - came) / time.Second); waited > most {
			return fmt.Errorf("the job of line %d waited for %d s behind %d older ones, and its bound was %d s", r.jobs[i].Line,
				waited, older, most)
		}
		older++
		ahead += work(i)
	}
	return nil
}
