package actors

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/clock/backoff"
)

// This file owns when something is said again that was not answered.

// Resend is a backing-off timer. Its sequence number makes stale ones known.
type Resend struct {
	seq   uint64
	delay time.Duration
}

type ResendDue struct{ Seq uint64 }

// Begin starts over at the first delay.
func (r *Resend) Begin(ctx actor.Context, p *Ports) {
	r.delay = 0
	r.Later(ctx, p)
}

// Again arms the next timer, with a longer delay, if m is the one that was armed. It reports whether m was.
func (r *Resend) Again(ctx actor.Context, p *Ports, m ResendDue) bool {
	if !r.Due(m) {
		return false
	}
	r.Later(ctx, p)
	return true
}

// Later arms the next one, later than the last.
func (r *Resend) Later(ctx actor.Context, p *Ports) {
	r.delay = backoff.Next(r.delay, p.Constants.ResendFirst, p.Constants.ResendCap)
	r.seq++
	p.Clock.After(r.delay, ctx.Self(), ResendDue{r.seq})
}

// Due reports whether a timer is the one that is armed.
func (r *Resend) Due(m ResendDue) bool { return m.Seq == r.seq }

// End makes what is armed stale.
func (r *Resend) End() { r.seq++ }
