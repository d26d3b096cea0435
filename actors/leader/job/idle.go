package job

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the notices to the tasks of a job that holds resources and does nothing, if its queue wants them
// (`idle: {then: signal}`). Such a notice is a warning without an end (warning.go), so it uses the same messages. An
// end that is coming takes precedence. What is not known never counts as idle.
//
// Nothing of this is on disk. A new leader learns of it from the next heartbeats and sends the notice again. The node
// knows when a task had its last notice, so that the task gets one signal per idle time.

// idle holds what the nodes of the attempt report about the use of its tasks, and the present notice.
type idle struct {
	after  time.Duration // how long the job does nothing until its tasks are notified; 0: they never are
	uses   map[topology.NodeID]*messages.Use
	judged actors.Instant // time of the last look at all nodes; 0: none
	notice ending         // zero: the job works, or it is unknown whether it does
	at     actors.Instant // when the notice was decided
	times  uint64         // number of notices by this actor
}

// begin drops the reports and the notice of an earlier attempt.
func (i *idle) begin() { *i = idle{after: i.after, times: i.times} }

// onActivity handles the messages about what the tasks of the job do.
func (j *Job) onActivity(ctx actor.Context, m any) {
	switch m := m.(type) {
	case protocol.ProgressHeard:
		j.onProgressHeard(ctx, m)
	case protocol.SignalIdle:
		j.onSignalIdle(ctx, m)
	}
}

// onSignalIdle applies the policy of the job's queue.
func (j *Job) onSignalIdle(ctx actor.Context, m protocol.SignalIdle) {
	if j.idle.after = m.After; m.After == 0 {
		j.idle.begin()
		j.warn(ctx)
	}
}

// noteUse notes what the tasks on a node use, and sends or withdraws the notice.
func (j *Job) noteUse(ctx actor.Context, m protocol.ProgressHeard) {
	i, use, now := &j.idle, m.Progress.GetUse(), j.p.Clock.Now()
	if i.after == 0 || use == nil || !j.rec.Spec.IsAnnounced() {
		return
	}
	if i.uses == nil {
		i.uses = map[topology.NodeID]*messages.Use{}
	}
	i.uses[m.Node] = use
	from := now.Plus(-actors.Millis(use.IdleMs))
	if i.notice.idle && from > i.at {
		i.notice = ending{} // it has worked since the notice
		j.warn(ctx)
	}
	if i.notice.idle || now.Since(from) < i.after || i.judged != 0 && now.Since(i.judged) < judgeEvery {
		return
	}
	i.judged = now
	idleFor := j.idleFor()
	if idleFor < i.after {
		return
	}
	i.times++
	i.at = now
	i.notice = ending{
		idle: true, idleFrom: now.Plus(-idleFor), of: int64(j.p.Epoch&0x7fff<<32 | j.life&0xffff<<16 | i.times&0xffff),
	}
	j.warn(ctx)
}

// idleFor returns for how long all live tasks of the attempt are known to do nothing; 0: not all of them are.
func (j *Job) idleFor() time.Duration {
	var all *messages.Use
	live, last := int32(0), ""
	for _, p := range j.att.Places {
		node := topology.NodeID(p.Node)
		if j.lives(p) {
			if live++; !j.contacts[node].up {
				return 0
			}
		}
		if p.Node != last { // the ranks of a node are adjacent
			last, all = p.Node, all.Plus(j.idle.uses[node])
		}
	}
	if live == 0 || all.GetTasks() < live {
		return 0
	}
	return actors.Millis(all.IdleMs)
}
