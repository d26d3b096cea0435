package replay

import (
	"math"
	"slices"
	"time"

	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/policy/preempt"
	"github.com/yi-json/synapse/sim/record"
	"github.com/yi-json/synapse/topology"
)

// This file informs a planner that looks ahead about running jobs, as a leader would: when a gang began and ended, and
// never how long it will run.

// seen holds such a planner, and the changes that it does not know yet.
type seen struct {
	*policy.Judgement
	r     *run
	runs  *policy.Runs
	since []change                     // changes since the last pass
	told  map[int]policy.FirstEstimate // start estimates by the job's number in the record
	// rules holds the rule by which each victim in a start guarantee is preempted.
	rules map[topology.Token]preempt.Rule
}

// change is a gang that began or ended.
type change struct {
	job     topology.JobID
	at      time.Duration
	began   bool
	learned bool // it ended by itself
}

func newSeen(r *run, settings policy.Settings) *seen {
	cells := estimate.NewCells()
	runs := policy.NewRuns(cells, 0)
	ends := policy.Ends(runs)
	if r.o.Preempt {
		ends = stoppable{runs, runs, r}
	}
	s := &seen{Judgement: policy.NewJudgement(settings, cells, ends), r: r, runs: runs}
	s.told, s.rules = map[int]policy.FirstEstimate{}, map[topology.Token]preempt.Rule{}
	s.Obey(r.o.Queues)
	s.Watch(func(t policy.FirstEstimate) {
		if i := r.of(t.Job); r.lives[i].started < 0 { // this is its first start
			s.told[i] = t
		}
	})
	return s
}

// longWait is the waiting time above which a job should have had a start estimate.
const longWait = 10 * time.Minute

// promises computes the accuracy of the start estimates.
func (s *seen) promises(out *record.Result) {
	slips := float64(s.Slips())
	out.Slips = &slips
	var errors []float64
	long, longTold, covered, said := 0, 0, 0, 0
	for i := range s.r.jobs {
		l := &s.r.lives[i]
		if l.started < 0 {
			continue
		}
		t, ok := s.told[i]
		if l.started-s.r.jobs[i].Submit > longWait {
			if long++; ok {
				longTold++
			}
		}
		if !ok {
			continue
		}
		errors = append(errors, math.Abs(time.Duration(t.Started-t.At).Seconds()))
		if t.By > 0 {
			if said++; t.Started <= t.By {
				covered++
			}
		}
	}
	out.PromiseTold, out.PromiseCover = partOf(longTold, long), partOf(covered, said)
	if len(errors) > 0 {
		slices.Sort(errors)
		p50, p95 := percentile(errors, 0.5), percentile(errors, 0.95)
		out.PromiseErrorP50, out.PromiseErrorP95 = &p50, &p95
	}
}

// picture lists the start estimates, on the record's clock.
func (s *seen) picture() []record.Told {
	all := []record.Told{}
	if s == nil {
		return all
	}
	for i := range s.r.jobs {
		if t, ok := s.told[i]; ok && s.r.lives[i].started >= 0 {
			started := s.r.lives[i].started
			since := func(at int64) float64 { return (started + time.Duration(at-t.Started)).Seconds() }
			all = append(all, record.Told{Told: since(t.Made), At: since(t.At), Started: started.Seconds()})
		}
	}
	return thinned(all)
}

// partOf returns a part of a number, or nil if there is none.
func partOf(part, of int) *float64 {
	if of == 0 {
		return nil
	}
	s := float64(part) / float64(of)
	return &s
}

// note keeps a change for the next pass.
func (s *seen) note(job topology.JobID, began, learned bool) {
	if s != nil {
		s.since = append(s.since, change{job, s.r.w.Now(), began, learned})
	}
}

// Plan runs a pass. Changes use the leader's clock.
func (s *seen) Plan(view *topology.Tree, queue *policy.Queue, nowNs int64) policy.Decisions {
	clock := nowNs - int64(s.r.w.Now())
	for _, c := range s.since {
		if at := clock + int64(c.at); c.began {
			s.runs.Began(c.job, at)
			s.Committed(c.job) // the commit was before that
		} else {
			s.Ended(c.job, s.runs.Ended(c.job, at, c.learned))
		}
	}
	s.since = s.since[:0]
	d := s.Judgement.Plan(view, queue, nowNs)
	for _, f := range d.Firm {
		for _, v := range f.Stops {
			s.rules[v.Token] = v.Rule
		}
	}
	// the leader sees only the wrapper, so it cannot report that the guarantee is on disk
	for _, f := range d.Firm {
		if s.Written(f.Job) {
			d.NextAt = nowNs + 1 // this may free capacity
		}
	}
	return d
}
