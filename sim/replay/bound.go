package replay

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/sim/record"
)

// This file compares the bound of docs/explain/start-times.md with the start of each job. If n older jobs with total
// work W are ahead, a job starts within (n + 1)·L + W / (anti-starvation share of the cluster) + a minute.

// leaving is the longest time for which a job holds its nodes after its limit: its stop, its grace, and the write of
// its end.
const leaving = 2 * time.Minute

// hasBound reports whether the bound applies to a run: all jobs have limits, only the unchanged planner decides the
// order, and without queues there is no preemption.
func (r *run) hasBound() bool {
	return r.o.Policy == record.Synapse && r.o.Without == "" && r.o.Queues == nil &&
		!slices.ContainsFunc(r.jobs, func(j record.Job) bool { return j.Limit == 0 })
}

// overBound returns an error if a job waited longer than its bound. It ignores the share that is owed to earlier jobs,
// so its bound is slightly earlier than the published one.
func (r *run) overBound() error {
	guarded := int64(r.o.Cluster.Sum()) * policy.DefaultSettings().GuardPercent
	// The unit is seconds, because thousands of weeks overflow nanoseconds.
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
			return fmt.Errorf("the job of line %d waited %d s behind %d older jobs, but its bound is %d s", r.jobs[i].Line,
				waited, older, most)
		}
		older++
		ahead += work(i)
	}
	return nil
}
