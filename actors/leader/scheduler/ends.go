package scheduler

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/topology"
	"github.com/yi-json/synapse/topology/belief"
)

// This file owns when the room of an attempt is free again, as far as a leader can say: by its time limit at the
// latest, and as is expected by what was learned. The sum is made here and nowhere else. What goes into it the Job
// says: when the attempt passed its barrier, after a takeover by its machines' own clocks (times.go), and its
// limit, which people may change. All of it is on this process's steady clock, and none of it ends anything.

// endMargin is how long after its last second the room of a job may take to be free: Stop may have to be sent
// again, the evidence has to come, and what is counted here is counted before it is acted on.
const endMargin = 20 * time.Second

// run is an attempt that a leader gave room, or found on disk.
type run struct {
	of     *livingJob
	token  topology.Token
	nodes  []topology.NodeID // where it was given room
	spec   *messages.JobSpec
	since  actors.Instant // from when its estimate counts: since it began, or was admitted
	starts actors.Instant // by then it has passed its barrier; 0: nobody knows
	began  actors.Instant // when it did; 0: it has not, as far as is known
	over   actors.Instant // when its end came to disk; 0: it goes on
	stay   *belief.Stay

	traits   estimate.Traits // of its job; none before they were asked for
	estimate int64           // for how long it was expected to run then
	place    int             // among those that are expected to end, from 1; 0: it is none of them
	counted  bool            // what is learned counts it as running
	ended    bool            // its end was on disk when it was read

	prepared time.Duration // how long it took until its barrier; 0: nobody here knows
}

// nodesOf are the machines of what lies on them, one machine's after the other.
func nodesOf[T any](all []T, node func(*T) topology.NodeID) (nodes []topology.NodeID) {
	for i := range all {
		if n := node(&all[i]); len(nodes) == 0 || nodes[len(nodes)-1] != n {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

func slotNode(s *topology.Slot) topology.NodeID { return s.Node }

func placeNode(p **messages.Place) topology.NodeID { return topology.NodeID((*p).Node) }

// untilStarted is the same for one that is to be admitted.
func untilStarted(spec *messages.JobSpec, c *actors.Constants) time.Duration {
	return c.ReservationTTL + protocol.UntilBarrier(spec, c)
}

// freeAfter is when the room of an attempt is free at the latest that passes its barrier by then; topology.Never:
// it has no time limit.
func freeAfter(barrier actors.Instant, spec *messages.JobSpec, c *actors.Constants) int64 {
	if spec.GetTimeLimitMs() == 0 {
		return topology.Never
	}
	return int64(barrier.Plus(actors.Millis(spec.TimeLimitMs))) + int64(freeAfterStop(spec, c))
}

// freeAfterStop is how long it takes until the room of what is told to stop is free.
func freeAfterStop(spec *messages.JobSpec, c *actors.Constants) time.Duration {
	return actors.GraceOf(spec, *c) + endMargin
}

// newRun begins to foresee the end of an attempt, in place of the job's last.
func (s *Scheduler) newRun(e *livingJob, r *run) {
	s.dropRun(e)
	r.of, r.since, r.stay = e, s.p.Clock.Now(), &belief.Stay{}
	e.run = r
	s.foresee(e)
}

func (s *Scheduler) onForeseen(ctx actor.Context, m protocol.Foreseen) {
	e := s.jobs[m.Job]
	if e == nil {
		return
	}
	if e.run == nil || e.run.token != m.Token {
		if m.Spec == nil {
			return // its Job is recreated, and says more
		}
		s.newRun(e, &run{token: m.Token, spec: m.Spec})
	}
	r := e.run
	if m.Spec != nil {
		r.spec = m.Spec
	}
	if m.Starts != 0 {
		r.starts = m.Starts
	}
	if m.Began != 0 {
		if r.began == 0 && r.token.Epoch == s.p.Epoch {
			r.prepared = m.Began.Since(r.since)
		}
		s.countOut(r, nil) // it had been taken to have begun at another moment
		r.since, r.began = m.Began, m.Began
		resumed := r.traits.Size == 0
		if s.estimate(e); resumed { // before it counts itself as one of those that run for long
			s.remembers(func(p policy.Rememberer) { p.Resumed(e.id, r.traits, r.estimate) })
		}
		s.countIn(r)
	}
	s.foresee(e)
	if s.foresight.horizon != nil {
		s.plan(ctx)
	}
}

// estimate notes for how long an attempt is expected to run, by what is known now.
func (s *Scheduler) estimate(e *livingJob) {
	if e.run.traits.Size == 0 { // else the planner has told them
		e.run.traits = traitsOf(e.rec, s.poolsNow())
	}
	e.run.estimate = s.learning.cells.Estimate(e.run.traits, int64(s.p.Clock.Now()))
}

// foresee works out again when the room of a job's attempt is free, and has it told where that is another time.
func (s *Scheduler) foresee(e *livingJob) {
	was := e.run.stay.Hard
	s.workOut(e)
	if e.run.stay.Hard != was {
		s.view.Foresee(e.run.stay)
	}
	s.endChanged(e)
}

// workOut works out when the room of a job's attempt is free. Until it has begun it is expected to run from now
// on: of the phases before that most take no time.
func (s *Scheduler) workOut(e *livingJob) {
	r, c, now := e.run, &s.p.Constants, s.p.Clock.Now()
	switch hard := &r.stay.Hard; {
	case r.over != 0:
		*hard = int64(r.over.Plus(freeAfterStop(r.spec, c)))
		r.stay.Likely = *hard
		return
	case r.began != 0:
		*hard = freeAfter(r.began, r.spec, c)
	case r.starts != 0:
		*hard = freeAfter(r.starts, r.spec, c)
	default:
		*hard, r.stay.Likely = topology.Never, topology.Never
		return
	}
	if r.estimate == 0 {
		s.estimate(e)
	}
	left := estimate.Remaining(r.estimate, int64(now.Since(r.since)), int64(actors.Millis(r.spec.TimeLimitMs)))
	r.stay.Likely = min(int64(now)+left, r.stay.Hard)
}

// freeBy is when what a tenant has is free at the latest; 0: nobody can say.
func freeBy(t *belief.Tenant) int64 {
	if t.Stay == nil || t.Stay.Hard == topology.Never {
		return 0
	}
	return t.Stay.Hard
}
