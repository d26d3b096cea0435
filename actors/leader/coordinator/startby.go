package coordinator

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
)

// This file owns startBy: what is lent room that is kept for another job has passed its barrier by then, or it is
// given up and waits again, which counts against nothing. Else a slow image would keep the room for as long as
// preparing may take, and the job that it is kept for would start late. Before COMMIT the attempt is aborted, after it
// the attempt ends by a cause of its own. COMMIT says how much time was left: a next leader takes off for how long
// machines have had their part since, by their own clocks, and gives up what no machine can show time for.

// startByOver ends the wait for the barrier of what is lent.
type startByOver struct{ By actors.Instant }

// allowance is for how long an attempt may take to pass its barrier.
type allowance struct {
	by    actors.Instant // by then it has; 0: as long as it takes, or no machine has said yet
	left  time.Duration  // of what an earlier leader committed: what was left then; 0: it is none of those
	tardy bool           // a machine says that it began after that
}

// allowanceOf returns the allowance that a plan sets.
func allowanceOf(plan *protocol.AttemptPlan) allowance {
	if r := plan.Resumed; r != nil {
		if r.StartedUnixMs != 0 {
			return allowance{}
		}
		return allowance{left: actors.Millis(r.StartByLeftMs)}
	}
	return allowance{by: plan.StartBy}
}

// awaitBarrier wakes the Coordinator when what is lent must have passed its barrier.
func (c *Coordinator) awaitBarrier(ctx actor.Context) {
	if by := c.allowance.by; by != 0 {
		c.p.Clock.After(max(by.Since(c.p.Clock.Now()), 0), ctx.Self(), startByOver{by})
	}
}

// onStartByOver leaves what is being decided to the Job, which commits nothing after that moment.
func (c *Coordinator) onStartByOver(ctx actor.Context, m startByOver) {
	switch {
	case m.By != c.allowance.by:
	case c.states.In(coordinatorReserving):
		c.abort(ctx, "too late")
	case c.states.In(coordinatorCommitting, coordinatorPreparing, coordinatorStarting):
		c.late(ctx)
	}
}

// late reports whether the barrier can no longer be passed in time, and has the Job end the attempt.
func (c *Coordinator) late(ctx actor.Context) bool {
	if !c.overdue() {
		return false
	}
	detail := "no node reported how long the job has had nodes reserved for another job"
	if c.allowance.by != 0 {
		given := c.given().Round(time.Second)
		detail = fmt.Sprintf("job did not start within %s on nodes reserved for another job", given)
	}
	ctx.Send(c.job, protocol.Faltered{Token: c.plan.Token, Cause: messages.Cause_CAUSE_START_BY, Detail: detail})
	return true
}

// given is how long the attempt had to start, as far as is known.
func (c *Coordinator) given() time.Duration {
	if c.allowance.left > 0 {
		return c.allowance.left
	}
	return c.plan.Ready
}

// overdue reports whether the moment has passed by which it had to start. After a takeover an attempt that had begun on
// all machines has passed its barrier: only where some had not, or began too late, does it come to nothing.
func (c *Coordinator) overdue() bool {
	past := c.allowance.by != 0 && c.p.Clock.Now() >= c.allowance.by
	if c.allowance.left == 0 {
		return past
	}
	unheard, waiting := false, false
	for _, w := range c.parties {
		unheard = unheard || !w.known
		waiting = waiting || w.known && !w.begun && !w.allGone()
	}
	switch {
	case !waiting:
		return !unheard && c.allowance.tardy
	case c.allowance.by == 0:
		return !unheard
	}
	return past
}

// decideBy is the end of the decision window: past it a reservation may have
// expired by the time a Commit arrives, or it is too late to start.
func (c *Coordinator) decideBy() actors.Instant {
	window := c.sent.Plus(c.p.Constants.ReservationTTL - c.p.Constants.DecisionMargin)
	if by := c.allowance.by; by != 0 {
		window = min(window, by)
	}
	return window
}

func (c *Coordinator) tooLate() bool { return c.p.Clock.Now() >= c.decideBy() }

// noteHeld learns from what a machine first says to this leader how much time is left. Its clock and that of whoever
// wrote COMMIT may each be off by 1%. The word may have been on its way for long, so it counts from when this leader
// came to be.
func (c *Coordinator) noteHeld(ctx actor.Context, w *party, slice *messages.SliceReport) {
	if c.allowance.left == 0 || slice == nil {
		return
	}
	held, ran := actors.Millis(slice.HeldMs), actors.Millis(slice.RanMs)
	w.begun = ran > 0 || slice.State > messages.SliceState_SLICE_STATE_STARTED
	if held == 0 {
		return
	}
	c.allowance.tardy = c.allowance.tardy || w.begun && drifting(held-ran) > c.allowance.left
	if by := c.p.Since.Plus(c.allowance.left - drifting(held)); c.allowance.by == 0 || by < c.allowance.by {
		c.allowance.by = max(by, 1)
		c.awaitBarrier(ctx)
		ctx.Send(c.scheduler, protocol.Foreseen{Job: c.plan.Job, Token: c.plan.Token, Starts: c.allowance.by})
	}
}

// drifting is a time by another clock, as long as it may have been by ours.
func drifting(d time.Duration) time.Duration { return d + d/50 + time.Millisecond }
