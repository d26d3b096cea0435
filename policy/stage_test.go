package policy

// This file has the stage: a cluster for tests of planners, in which jobs run exactly as long as specified.

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/topology"
)

// act is one job of a history. Times are in seconds.
type act struct {
	at, runs, limit, grace int64
	patience               int64
	waited                 int64 // waiting time under an earlier leader
	gang                   topology.Gang
	owner, queue           string
	priority               int32
	saves                  int64 // interval between checkpoints; 0: none
}

// actor is the state of a job.
type actor struct {
	act
	id            topology.JobID
	started, over int64 // negative: not yet
	place         topology.Placement
	first         *Promise // first firm promise
	promised      bool     // started with a firm promise, and not committed yet
}

// stage is a cluster on which a history is played.
type stage struct {
	t      *testing.T
	view   *topology.Tree
	queue  *Queue
	j      *Judgement
	runs   *Runs
	now    int64 // in ns
	cast   []*actor
	wake   int64
	passes int
	made   int
	lent   int      // jobs that were backfilled on a promise with a bound
	said   []string // the decisions
	firm   []Firm   // the recorded firm promises
	looks  func()   // called after each pass
	// slowDisk delays the records of firm promises until the test writes them.
	slowDisk bool
	fixed    map[topology.JobID]bool  // jobs that must not be stopped
	had      map[topology.JobID]int64 // earlier run time of jobs that wait again
	instead  Planner                  // planner to use instead of the Judgement; nil: the Judgement
}

func newStage(t *testing.T, settings Settings, machines, racks int) *stage {
	f := topology.NewTree([]string{"zone", "rack"})
	for i := range machines {
		m := machine(i, racks)
		f.Join(m, m.Idle())
	}
	cells := estimate.NewCells()
	s := &stage{t: t, view: f, queue: NewQueue(), runs: NewRuns(cells, 0), now: second}
	s.j = NewJudgement(settings, cells, s.runs)
	return s
}

// enter adds jobs to the history, and returns the first of them.
func (s *stage) enter(acts ...act) *actor {
	first := len(s.cast)
	for _, a := range acts {
		id := topology.JobID(fmt.Sprintf("j%06d", s.made))
		s.made++
		s.cast = append(s.cast, &actor{act: a, id: id, started: -1, over: -1})
	}
	return s.cast[first]
}

// play advances the time, in seconds since the start of the stage.
func (s *stage) play(until int64) {
	for {
		next := s.next()
		if next > (until+1)*second {
			s.now = (until + 1) * second
			return
		}
		s.now = next
		s.happen()
		s.pass()
	}
}

// next returns the time of the next event.
func (s *stage) next() int64 {
	next := int64(topology.Never)
	for _, a := range s.cast {
		switch at := (a.at + 1) * second; {
		case a.over >= 0:
		case a.started >= 0:
			next = min(next, a.started+a.runs*second)
		case !s.waits(a) && at >= s.now:
			next = min(next, at)
		}
	}
	if s.wake > 0 {
		next = min(next, s.wake)
	}
	return max(next, s.now)
}

func (s *stage) waits(a *actor) bool {
	_, ok := s.queue.Get(a.id)
	return ok
}

// happen handles the ends and arrivals of the current time.
func (s *stage) happen() {
	s.end()
	for _, a := range s.cast {
		if !s.slowDisk {
			if a.promised && a.started >= 0 {
				s.j.Committed(a.id)
			}
			a.promised = false
		}
		if a.started < 0 && a.over < 0 && (a.at+1)*second <= s.now && !s.waits(a) {
			s.queue.Add(Waiting{
				Job: a.id, Gang: a.gang, Arrived: a.at, Since: s.now - a.waited*second, Owner: a.owner, Queue: a.queue,
				Priority: a.priority,
				Limit:    a.limit * second, Grace: a.grace * second, Fixed: s.fixed[a.id], Had: s.had[a.id],
				Patience: a.patience * second,
			})
		}
	}
}

// end ends jobs. Jobs that end at the same time end in the order of their names, because the order changes the learned
// run times by less than a millisecond.
func (s *stage) end() {
	var ended []*actor
	for _, a := range s.cast {
		if a.started >= 0 && a.over < 0 && a.started+a.runs*second <= s.now {
			ended = append(ended, a)
		}
	}
	slices.SortFunc(ended, func(a, b *actor) int { return cmp.Compare(a.id, b.id) })
	for _, a := range ended {
		if a.promised && !s.slowDisk {
			s.j.Committed(a.id)
			a.promised = false
		}
		a.over = s.now
		s.view.Give(a.place)
		s.j.Ended(a.id, s.runs.Ended(a.id, s.now, true))
	}
}

func (s *stage) pass() {
	planner := Planner(s.j)
	if s.instead != nil {
		planner = s.instead
	}
	d := planner.Plan(s.view, s.queue, s.now)
	s.passes++
	s.wake, s.firm = d.NextAt, append(s.firm, d.Firm...)
	for _, f := range d.Firm {
		if !s.slowDisk && s.j.Written(f.Job) {
			s.wake = s.now + 1
		}
	}
	for _, admitted := range d.Admit {
		a := s.cast[slices.IndexFunc(s.cast, func(a *actor) bool { return a.id == admitted.Job })]
		a.started, a.place = s.now, admitted.Placement
		if a.promised = admitted.Promised; a.promised {
			s.wake = s.now + 1
		}
		if admitted.StartBy > 0 {
			s.lent++
		}
		s.runs.Began(a.id, s.now)
		s.said = append(s.said, fmt.Sprint(s.now, admitted))
	}
	for _, a := range s.cast {
		if p, ok := s.j.Promised(a.id); ok && p.Firm && a.first == nil {
			a.first = &p
		}
	}
	s.check()
	if s.looks != nil {
		s.looks()
	}
}

// check fails the test if a node has given more than it has, or if capacity is reserved for a job that neither waits,
// nor returns, nor awaits its COMMIT.
func (s *stage) check() {
	for _, a := range s.cast {
		if !s.waits(a) && !a.promised && (a.at+1)*second <= s.now && len(s.view.Kept(topology.KeepID(a.id))) > 0 {
			s.t.Fatalf("at %d room is kept for %s, which does not wait", s.now, a.id)
		}
	}
	s.view.Walk(func(m topology.Machine, free topology.Capacity, _ string) {
		if free.WholeGPUs < 0 || free.MilliCPU < 0 || free.MemoryBytes < 0 {
			s.t.Fatalf("at %d machine %s has given more than it has", s.now, m.ID)
		}
	})
}

// began returns the begin of a job in seconds of the history; negative: not yet.
func (a *actor) began() int64 {
	if a.started < 0 {
		return -1
	}
	return a.started/second - 1
}

// wholes returns a gang of whole nodes.
func wholes(n int32) topology.Gang { return gang(n, 8) }
