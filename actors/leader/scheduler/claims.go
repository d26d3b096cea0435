package scheduler

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors/leader/protocol"
)

// This file owns the end of a claim that nobody gives back. The Coordinator does,
// and later the Job; but both end when one of them breaks, and an admission may
// find a Job that has ended. So a claim is called in question once the reservations
// are over: it stays where COMMIT is on disk or about to be, and that only the Job knows.

// doubtLater has a claim called in question when its reservations are over.
func (s *Scheduler) doubtLater(ctx actor.Context, c protocol.Claim) {
	s.p.Clock.After(protocol.ClaimTime(&s.p.Constants), ctx.Self(), c)
}

func (s *Scheduler) onClaim(ctx actor.Context, c protocol.Claim) {
	e := s.jobs[c.Job]
	switch {
	case e == nil:
		s.onDeclined(ctx, protocol.Declined{Token: c.Token, Targets: c.Targets})
	case e.pid == nil || e.remakes:
		s.doubtLater(ctx, c)
	default:
		ctx.Send(e.pid, c)
	}
}

// onDeclined takes back what the Job does not want, or what nothing is left of.
func (s *Scheduler) onDeclined(ctx actor.Context, d protocol.Declined) {
	for _, t := range d.Targets {
		if m := s.machines[t.Node]; m != nil && m.room.Tenant(d.Token) != nil {
			m.room.Evict(d.Token)
			s.refresh(ctx, m)
		}
	}
}
