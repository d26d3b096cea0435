package scheduler

import (
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
	"github.com/yi-json/synapse/topology/suspicion"
)

// This file owns the suspicion against nodes that cause failures of jobs. Package suspicion decides. Big gangs avoid
// suspected nodes, and a node with more failures gets no new work for a day or longer. Nothing of this is on disk: a
// new leader begins without suspicion, as it begins without backoffs.

// CountLemons counts the nodes that were backed off because they cause failures.
const CountLemons = "scheduler.lemons"

const (
	// restShare limits the nodes that are backed off for this reason or closed by the leader: one in ten nodes of a GPU
	// type. Smaller pools lose no node.
	restShare = 10
	// tidyEvery is the interval at which failures are forgotten.
	tidyEvery = time.Hour
)

type (
	// restEnds is the timer of the back-off of a suspected node.
	restEnds struct{ Node topology.NodeID }
	// tidySuspects forgets failures that no longer count.
	tidySuspects struct{}
)

// suspects holds the failures by node.
type suspects struct {
	docket suspicion.Docket
	named  []topology.NodeID // the nodes that are suspected
	tidies bool              // a tidySuspects is on its way
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
}

// rest gives a guilty node no new work for a time. Its tasks continue.
func (s *nodeTable) rest(ctx actor.Context, who *machine) {
	took := s.suspects.docket.Rest(who.id)
	counted := s.suspects.docket.Counted(who.id, int64(s.p.Clock.Now()))
	who.rest = rest{
		why: fmt.Sprintf("%d failures of jobs count against it; `synapse-cli describe node %s` lists them, and uncordon "+
			"ends the backoff", len(counted), who.id),
		ends: s.p.Clock.Now().Plus(took), wall: s.p.Clock.WallMs() + took.Milliseconds(),
	}
	s.p.Host.Count(CountLemons, 1)
	s.p.Log.Info("SUSPECT: %s takes no new work for %s: %s", who.id, took, who.rest.why)
	s.p.Clock.After(took, ctx.Self(), restEnds{who.id})
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
	who.rest = rest{}
	s.refresh(ctx, who)
}

// believeAgain forgets the failures of a node, because an operator has made it schedulable or has removed it.
func (s *nodeTable) believeAgain(m *machine) {
	s.suspects.docket.Acquit(m.id)
	m.rest = rest{}
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
		}
	}
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
