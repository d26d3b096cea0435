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

// This file owns what a planner that looks ahead is told of what runs: as a leader would be, when a gang began and when
// it was over, and never how long it will run.

// seen is such a planner, and what it has not been told yet.
type seen struct {
	*policy.Judgement
	r     *run
	runs  *policy.Runs
	since []change            // the last pass
	told  map[int]policy.Told // by the job's number in the record
	// rules are by which those are stopped that are named in promises.
	rules map[topology.Token]preempt.Rule
}

// change is a gang that began, or was over.
type change struct {
	job     topology.JobID
	at      time.Duration
	began   bool
	learned bool // of one that was over: it was by itself
}

func newSeen(r *run, settings policy.Settings) *seen {
	cells := estimate.NewCells()
	runs := policy.NewRuns(cells, 0)
	ends := policy.Ends(runs)
	if r.o.Preempt {
		ends = stoppable{runs, runs, r}
	}
	s := &seen{Judgement: policy.NewJudgement(settings, cells, ends), r: r, runs: runs}
	s.told, s.rules = map[int]policy.Told{}, map[topology.Token]preempt.Rule{}
	s.Obey(r.o.Queues)
	s.Watch(func(t policy.Told) {
		if i := r.of(t.Job); r.lives[i].started < 0 { // that is its first start
			s.told[i] = t
		}
	})
	return s
}

// longWait is from which wait on a job should have been told when it starts.
const longWait = 10 * time.Minute

// promises sums up what jobs were told, and how right it was.
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

// picture lists what was told, on the record's clock.
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

// partOf returns a part of a number; nil where there is none.
func partOf(part, of int) *float64 {
	if of == 0 {
		return nil
	}
	s := float64(part) / float64(of)
	return &s
}

// note keeps what the next pass is to know.
func (s *seen) note(job topology.JobID, began, learned bool) {
	if s != nil {
		s.since = append(s.since, change{job, s.r.w.Now(), began, learned})
	}
}

// Plan runs a pass. Changes are told on the leader's clock.
func (s *seen) Plan(view *topology.Fabric, queue *policy.Queue, nowNs int64) policy.Decisions {
	clock := nowNs - int64(s.r.w.Now())
	for _, c := range s.since {
		if at := clock + int64(c.at); c.began {
			s.runs.Began(c.job, at)
			s.Committed(c.job) // which was before that
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
	for _, f := range d.Firm { // the planner stands behind others here, so the leader cannot tell it that it is on disk
		if s.Written(f.Job) {
			d.NextAt = nowNs + 1 // and there may be room by that
		}
	}
	return d
}
