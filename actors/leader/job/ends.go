package job

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
)

// This file owns what a Job says of when its attempt's room is free again.

// foretell tells the Scheduler what is known of the end of the attempt at which the job is. began is when it
// passed its barrier; 0: that is as it was.
func (j *Job) foretell(ctx actor.Context, began actors.Instant) {
	ctx.Send(j.peers.Scheduler, protocol.Foreseen{Job: j.id, Token: j.token, Spec: j.rec.Spec, Began: began})
}

// foretellResumed does so for one that an earlier leader committed: all phases begin again, and its limit counts
// from now where it has begun, until its machines have been heard.
func (j *Job) foretellResumed(ctx actor.Context) {
	starts := j.p.Clock.Now()
	if j.att.StartedUnixMs == 0 {
		starts = starts.Plus(protocol.UntilBarrier(j.rec.Spec, &j.p.Constants))
		if left := actors.Millis(j.att.StartByLeftMs); left > 0 {
			starts = min(starts, j.p.Clock.Now().Plus(left))
		}
	}
	ctx.Send(j.peers.Scheduler, protocol.Foreseen{Job: j.id, Token: j.token, Spec: j.rec.Spec, Starts: starts})
}
