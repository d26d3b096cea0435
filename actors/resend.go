package actors

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/clock/backoff"
)

// This file owns the repetition of unanswered messages.

// Resend is a timer with growing delays. Its sequence number identifies stale timers.
type Resend struct {
	seq   uint64
	delay time.Duration
}

type ResendDue struct{ Seq uint64 }

// Begin starts again with the first delay.
func (r *Resend) Begin(ctx actor.Context, p *Ports) {
	r.delay = 0
	r.Later(ctx, p)
}

// Again schedules the next timer with a longer delay, if m is the current timer. It reports whether m was.
func (r *Resend) Again(ctx actor.Context, p *Ports, m ResendDue) bool {
	if !r.Due(m) {
		return false
	}
	r.Later(ctx, p)
	return true
}

// Later schedules the next timer with a longer delay.
func (r *Resend) Later(ctx actor.Context, p *Ports) {
	r.delay = backoff.Next(r.delay, p.Constants.ResendFirst, p.Constants.ResendCap)
	r.seq++
	p.Clock.After(r.delay, ctx.Self(), ResendDue{r.seq})
}

// Due reports whether m is the current timer.
func (r *Resend) Due(m ResendDue) bool { return m.Seq == r.seq }

// End makes the current timer stale.
func (r *Resend) End() { r.seq++ }
