package coordinator

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
)

// This file owns the start deadline of backfilled attempts. An attempt on nodes that are reserved for another job must
// pass its barrier by this deadline. Otherwise it is given up and waits again, which does not count against its job.
// Without the deadline, a slow image could block the nodes for the entire preparation timeout and delay the job that
// they are reserved for.
//
// Before COMMIT the attempt is aborted; after COMMIT it ends with its own cause. COMMIT records how much time was left.
// The next leader subtracts the time for which nodes have held their allocations, by their own clocks. It gives up the
// attempt if no node can prove that time is left.

// startByOver is the timer of the start deadline.
type startByOver struct{ By actors.Instant }

// allowance is the time that an attempt may take to pass its barrier.
type allowance struct {
	by    actors.Instant // the deadline; 0: none, or no node has reported yet
	left  time.Duration  // remaining time in an earlier leader's COMMIT; 0: this leader admitted the attempt
	tardy bool           // a node started after the deadline
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

// awaitBarrier schedules the check of the start deadline.
func (c *Coordinator) awaitBarrier(ctx actor.Context) {
	if by := c.allowance.by; by != 0 {
		c.p.Clock.After(max(by.Since(c.p.Clock.Now()), 0), ctx.Self(), startByOver{by})
	}
}

// onStartByOver aborts or ends an attempt that has missed its deadline. During the decision it does nothing, because
// the Job commits nothing after the deadline.
func (c *Coordinator) onStartByOver(ctx actor.Context, m startByOver) {
	switch {
	case m.By != c.allowance.by:
	case c.states.In(coordinatorReserving):
		c.abort(ctx, "too late")
	case c.states.In(coordinatorCommitting, coordinatorPreparing, coordinatorStarting):
		c.late(ctx)
	}
}

// late reports whether the barrier can no longer be passed in time. If so, it asks the Job to end the attempt.
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

// given returns the time that the attempt had to start, as far as it is known.
func (c *Coordinator) given() time.Duration {
	if c.allowance.left > 0 {
		return c.allowance.left
	}
	return c.plan.Ready
}

// overdue reports whether the start deadline has passed. After a takeover, an attempt that had started on all nodes has
// passed its barrier. It fails only if some node had not started, or started too late.
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

// decideBy returns the end of the decision window. After it, a reservation may have expired when Commit arrives, or it
// is too late to start.
func (c *Coordinator) decideBy() actors.Instant {
	window := c.sent.Plus(c.p.Constants.ReservationTTL - c.p.Constants.DecisionMargin)
	if by := c.allowance.by; by != 0 {
		window = min(window, by)
	}
	return window
}

func (c *Coordinator) tooLate() bool { return c.p.Clock.Now() >= c.decideBy() }

// noteHeld computes the remaining time from a node's first report to this leader. The clocks of the node and of the
// earlier leader may each be wrong by 1%. The report may be old, so its age counts from the takeover.
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

// drifting returns the longest duration by this clock that another clock may have measured as d.
func drifting(d time.Duration) time.Duration { return d + d/50 + time.Millisecond }
