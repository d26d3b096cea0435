package leader

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
)

// This file owns the end of a claim that nobody gives back. The Coordinator does,
// and later the Job; but both end when one of them breaks, and an admission may
// find a Job that has ended. So a claim is called in question once the reservations
// are over: it stays where COMMIT is on disk or about to be, and that only the Job knows.

// doubtLater has a claim called in question when its reservations are over.
func (s *Scheduler) doubtLater(ctx actor.Context, c claim) {
	s.p.Clock.After(claimTime(&s.p.Constants), ctx.Self(), c)
}

func (s *Scheduler) onClaim(ctx actor.Context, c claim) {
	e := s.jobs[c.Job]
	switch {
	case e == nil:
		s.onDeclined(ctx, declined{c.Token, c.Targets})
	case e.pid == nil || e.remakes:
		s.doubtLater(ctx, c)
	default:
		ctx.Send(e.pid, c)
	}
}

// onDeclined takes back what the Job does not want, or what nothing is left of.
func (s *Scheduler) onDeclined(ctx actor.Context, d declined) {
	for _, t := range d.Targets {
		if m := s.machines[t.Node]; m != nil && m.room.Tenant(d.Token) != nil {
			m.room.Evict(d.Token)
			s.refresh(ctx, m)
		}
	}
}

// onClaim keeps what a machine has yet to give evidence of, and for a while what
// COMMIT may yet cover.
func (j *Job) onClaim(ctx actor.Context, c claim) {
	if c.Token == j.token && j.states.In(jobReserving, jobDeciding) {
		j.p.Clock.After(claimTime(&j.p.Constants), j.peers.scheduler, c)
		return
	}
	over := declined{Token: c.Token}
	for _, t := range c.Targets {
		if a := j.attempt(c.Token); a == nil || !slices.Contains(debtors(a), string(t.Node)) {
			over.Targets = append(over.Targets, t)
		}
	}
	if over.Targets != nil {
		ctx.Send(j.peers.scheduler, over)
	}
}

// claimTime is how long after an admission each of its reservations has ended by
// itself, where nothing came of it: the last Reserve leaves within the deadline.
func claimTime(c *actors.Constants) time.Duration {
	return c.ReserveDeadline + c.ReservationTTL + c.DecisionMargin
}
