package replay

import (
	"time"

	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// This file owns what a planner that looks ahead is told of what runs: as a leader would be, when a gang began and when
// it was over, and never how long it will run.

// seen is such a planner, and what it has not been told yet.
type seen struct {
	*policy.Judgement
	r     *run
	runs  *policy.Runs
	since []change // the last pass
}

// change is a gang that began, or was over.
type change struct {
	job   topology.JobID
	at    time.Duration
	began bool
}

func newSeen(r *run) *seen {
	cells := policy.NewCells()
	runs := policy.NewRuns(cells, 0)
	return &seen{Judgement: policy.NewJudgement(policy.DefaultSettings(), cells, runs), r: r, runs: runs}
}

// note keeps what the next pass is to know.
func (s *seen) note(job topology.JobID, began bool) {
	if s != nil {
		s.since = append(s.since, change{job, s.r.w.Now(), began})
	}
}

// Plan runs a pass. Changes are told on the leader's clock.
func (s *seen) Plan(view *topology.Fabric, queue *policy.Queue, nowNs int64) policy.Decisions {
	clock := nowNs - int64(s.r.w.Now())
	for _, c := range s.since {
		if at := clock + int64(c.at); c.began {
			s.runs.Began(c.job, at)
		} else {
			s.Ended(c.job, s.runs.Ended(c.job, at, true))
		}
	}
	s.since = s.since[:0]
	return s.Judgement.Plan(view, queue, nowNs)
}
