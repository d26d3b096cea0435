package scheduler

import (
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
	"github.com/yi-json/synapse/topology/suspicion"
)

// This file owns the suspicion against nodes that cause failures of jobs. Package suspicion decides. Big gangs avoid
// suspected nodes, and a node with more failures rests: it gets no new work for a day or longer, or until a waiting job
// needs it.

// CountLemons counts the nodes that were backed off because they cause failures.
const CountLemons = "scheduler.lemons"

// CountLemonsNeeded counts those of them that a waiting job needed before their time was over.
const CountLemonsNeeded = "scheduler.lemons_needed"

const (
	// restShare limits the nodes that are backed off for this reason or closed by the leader: one in ten nodes of a GPU
	// type. Smaller pools lose no node.
	restShare = 10
	// examineEvery is the least time between two orders to a node to run its health checks.
	examineEvery = 10 * time.Minute
	// tidyEvery is the interval at which failures are forgotten.
	tidyEvery = time.Hour
	// neededAfter is the time between a pass that leaves jobs waiting and the check whether they need a resting node. It
	// limits the cost of the checks.
	neededAfter = 5 * time.Second
)

type (
	// restEnds is the timer of the back-off of a suspected node.
	restEnds struct{ Node topology.NodeID }
	// restsNeeded is the timer of the check whether waiting jobs need resting nodes.
	restsNeeded struct{}
	// tidySuspects forgets failures that no longer count.
	tidySuspects struct{}
)

// suspects holds the failures by node.
type suspects struct {
	docket  suspicion.Docket
	named   []topology.NodeID // the nodes that are suspected
	tidies  bool              // a tidySuspects is on its way
	resting []*machine        // the nodes that rest, in the order of their begins
	checks  bool              // a restsNeeded is on its way
	orders  uint64            // number of orders to run health checks
}

// rest is the back-off of a suspected node.
type rest struct {
	why  string // empty: none
	ends actors.Instant
	wall int64 // the same, only for display
}

// onAccused counts a failure against a node, and backs the node off if it is guilty. Failures on a node that an
// operator has drained or cordoned do not count, because the operator may be working on it.
func (s *capacity) onAccused(ctx actor.Context, m protocol.Accused) {
	s.suspects.docket.Withdraw(m.Token)
	who, now := s.machines[m.Node], s.p.Clock.Now()
	if who != nil && who.record != nil && who.record.Removed == nil && who.record.Drained == nil &&
		who.record.Cordoned == nil {
		s.suspects.docket.Note(m.Node, suspicion.Failure{
			Attempt: m.Token, Job: m.Job, Owner: m.Owner, Class: m.Class.String(), Reason: m.Reason, AtNs: int64(now),
			WallMs: s.p.Clock.WallMs(),
		})
		s.tidyLater(ctx)
		if s.suspects.docket.Grade(m.Node, int64(now), s.owners.several) == suspicion.Guilty && s.mayRest(who) {
			s.rest(ctx, who)
		}
		s.refresh(ctx, who)
	}
	s.weighSuspects(ctx)
	s.keepFailures(ctx)
}

// keepFailures schedules the record that the next leader continues from.
func (s *learner) keepFailures(ctx actor.Context) {
	s.learning.moved = true
	s.saveLater(ctx)
}

// rest gives a guilty node no new work for a time. Its tasks continue.
func (s *nodeTable) rest(ctx actor.Context, who *machine) {
	took := s.suspects.docket.Rest(who.id)
	s.restFor(ctx, who, took)
	s.examine(ctx, who)
	s.p.Host.Count(CountLemons, 1)
	s.p.Log.Info("SUSPECT: %s takes no new work for %s: %s", who.id, took, who.rest.why)
}

// restFor gives a node no new work for a time.
func (s *nodeTable) restFor(ctx actor.Context, m *machine, took time.Duration) {
	m.rest = rest{
		why: s.whyRests(m), ends: s.p.Clock.Now().Plus(took), wall: s.p.Clock.WallMs() + took.Milliseconds(),
	}
	s.suspects.resting = append(s.suspects.resting, m)
	s.p.Clock.After(took, ctx.Self(), restEnds{m.id})
}

// whyRests returns the reason that users see.
func (s *nodeTable) whyRests(m *machine) string {
	counted := s.suspects.docket.Counted(m.id, int64(s.p.Clock.Now()))
	return fmt.Sprintf("%d failures of jobs count against it; `synapse-cli describe node %s` lists them, and uncordon "+
		"ends the backoff", len(counted), m.id)
}

// mayRest reports whether the pool can lose one more node for its failures.
func (s *nodeTable) mayRest(who *machine) bool {
	if who.rest.why != "" {
		return false
	}
	less, pool := s.countLike(who, func(m *machine) bool {
		return m.rest.why != "" || m.record.Cordoned.GetBy().GetName() == closer
	})
	return less < pool/restShare
}

func (s *capacity) onRestEnds(ctx actor.Context, m restEnds) {
	who := s.machines[m.Node]
	if who == nil || who.rest.why == "" || s.p.Clock.Now() < who.rest.ends {
		return
	}
	s.endRest(who)
	s.refresh(ctx, who)
}

func (s *nodeTable) endRest(m *machine) {
	m.rest = rest{}
	s.suspects.resting = slices.DeleteFunc(s.suspects.resting, func(o *machine) bool { return o == m })
}

// needLater schedules the check whether waiting jobs need resting nodes.
func (s *Scheduler) needLater(ctx actor.Context) {
	if !s.suspects.checks && len(s.suspects.resting) > 0 && s.queue.Len() > 0 {
		s.suspects.checks = true
		s.p.Clock.After(neededAfter, ctx.Self(), restsNeeded{})
	}
}

// onRestsNeeded ends the rest of each node that a waiting job needs. The failures of the node still count, so the next
// one makes it rest again.
func (s *Scheduler) onRestsNeeded(ctx actor.Context) {
	s.suspects.checks = false
	if !s.states.In(schedulerLeading) {
		return
	}
	for _, m := range slices.Clone(s.suspects.resting) {
		if job := s.awaits(m); job != "" {
			s.needed(ctx, m, job)
		}
	}
	nodes := make([]topology.NodeID, 0, len(s.suspects.resting))
	for _, m := range s.suspects.resting {
		if m.onlyRests() {
			nodes = append(nodes, m.id)
		}
	}
	if len(nodes) == 0 {
		return
	}
	job, needed := s.queue.Needs(s.view.Tree(), nodes, s.isBarred)
	for _, n := range needed {
		s.needed(ctx, s.machines[n], job)
	}
}

// needed ends the rest of a node, because a waiting job needs it.
func (s *Scheduler) needed(ctx actor.Context, m *machine, job topology.JobID) {
	s.p.Log.Info("SUSPECT: %s takes new work again because job %s needs it; it would have rested for another %s", m.id,
		job, m.rest.ends.Since(s.p.Clock.Now()))
	s.p.Host.Count(CountLemonsNeeded, 1)
	s.endRest(m)
	s.keepFailures(ctx)
	s.refresh(ctx, m)
}

// awaits returns a job whose planned start is the end of a node's rest, or "".
func (s *planning) awaits(m *machine) topology.JobID {
	if p, is := s.planner.(*policy.Judgement); is {
		return p.Awaits(m.id, int64(m.rest.ends))
	}
	return ""
}

// isBarred reports whether a limit of its queue keeps a job waiting.
func (s *planning) isBarred(job topology.JobID) bool {
	p, is := s.planner.(*policy.Judgement)
	return is && p.Over(job) != nil
}

// onlyRests reports whether a node would take new work if it did not rest.
func (m *machine) onlyRests() bool {
	why, _ := m.outage(false)
	return why == outageBackedOff && m.room.BackedOff() == ""
}

// believeAgain forgets the failures of a node, because an operator has made it schedulable or has removed it.
func (s *capacity) believeAgain(ctx actor.Context, m *machine) {
	if len(s.suspects.docket.Counted(m.id, int64(s.p.Clock.Now()))) > 0 {
		s.keepFailures(ctx)
	}
	s.suspects.docket.Acquit(m.id)
	s.endRest(m)
	s.suspects.named = slices.DeleteFunc(s.suspects.named, func(id topology.NodeID) bool { return id == m.id })
	s.view.Tree().SetSuspects(s.suspects.named)
}

// weighSuspects tells the view which nodes are suspected, and shows the nodes for which that has changed.
func (s *capacity) weighSuspects(ctx actor.Context) {
	before := s.suspects.named
	s.suspects.named = s.suspects.docket.Suspects(int64(s.p.Clock.Now()), s.owners.several)
	s.view.Tree().SetSuspects(s.suspects.named)
	for _, m := range s.order {
		if slices.Contains(before, m.id) != slices.Contains(s.suspects.named, m.id) {
			s.showNode(ctx, m)
			s.examine(ctx, m)
		}
	}
}

// examine has a suspected node run its health checks, at most once per examineEvery. A new leader may order it again.
func (s *nodeTable) examine(ctx actor.Context, m *machine) {
	now := s.p.Clock.Now()
	soon := m.examined != 0 && now.Since(m.examined) < examineEvery
	if soon || m.rack == nil || !slices.Contains(s.suspects.named, m.id) {
		return
	}
	m.examined = now
	s.suspects.orders++
	ctx.Send(m.rack, protocol.Examine{Node: m.id, Number: s.p.Epoch<<32 | s.suspects.orders})
}

func (s *nodeTable) tidyLater(ctx actor.Context) {
	if !s.suspects.tidies {
		s.suspects.tidies = true
		s.p.Clock.After(tidyEvery, ctx.Self(), tidySuspects{})
	}
}

func (s *capacity) onTidySuspects(ctx actor.Context, _ tidySuspects) {
	s.suspects.tidies = false
	if s.suspects.docket.Tidy(int64(s.p.Clock.Now())) {
		s.tidyLater(ctx)
	}
	s.weighSuspects(ctx)
}

// suspicionOf returns the failures that count against a node, for its status. It returns nil if there are none.
func (s *nodeTable) suspicionOf(m *machine) *messages.Suspicion {
	counted := s.suspects.docket.Counted(m.id, int64(s.p.Clock.Now()))
	if len(counted) == 0 && m.rest.why == "" {
		return nil
	}
	shown := &messages.Suspicion{Suspected: slices.Contains(s.suspects.named, m.id), BackedOffUntilUnixMs: m.rest.wall}
	for _, f := range counted {
		shown.Failures = append(shown.Failures, &messages.NodeFailure{
			Job: string(f.Job), Owner: f.Owner, Class: messages.FailureClass(messages.FailureClass_value[f.Class]),
			Reason: f.Reason, AtUnixMs: f.WallMs,
		})
	}
	return shown
}
