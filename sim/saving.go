package sim

import (
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file draws jobs whose tasks save a checkpoint on request, and simulates these tasks. It draws no random numbers
// for the jobs.

// These are the ways in which the tasks of a job answer a request to save.
const (
	acksFile  = "file"  // each rank acknowledges the step
	acksExit  = "exit"  // each rank acknowledges by an exit with code 85
	acksNever = "never" // one rank does not acknowledge
)

// saveRequests draws whether a job gets requests to save, and how its tasks answer.
func (w *World) saveRequests(spec *messages.JobSpec, run *script) {
	n := len(w.client.jobs)
	if n%8 != 2 {
		return
	}
	grace := time.Duration(2+n%5*4) * time.Second
	if limit := time.Duration(spec.TimeLimitMs) * time.Millisecond; limit > 0 {
		grace = min(grace, limit)
	}
	spec.Checkpoint = &messages.CheckpointSpec{Signal: 10, GraceMs: max(grace.Milliseconds(), 1)}
	switch n / 8 % 4 {
	case 0:
		run.acks = acksNever
	case 1:
		run.acks, spec.Checkpoint.Ack = acksExit, messages.SaveAck_SAVE_ACK_EXIT
	case 2:
		run.acks, spec.Checkpoint.Commit = acksFile, messages.SaveCommit_SAVE_COMMIT_RANK0
	default:
		run.acks = acksFile
	}
}

// acknowledged holds an acknowledgement of a task.
type acknowledged struct {
	request uint64
	step    int64
	exited  bool
	at      instant
}

// request passes a request to save to a task. The task acknowledges it after a while. All ranks of a gang save the same
// step, which grows from request to request.
func (l *launcher) request(c *messages.WarnTask, t *task) {
	if c.Request == 0 {
		return
	}
	if t.saved.request == c.Request {
		l.tellSaved(t) // as the file of a task outlives agents
		return
	}
	if t.asked == c.Request || t.acks == "" || t.acks == acksNever && t.key.Rank == 0 {
		return
	}
	t.asked = c.Request
	step := l.w.stepOf(t.key.Token, c.Request)
	l.later(t, l.w.chance.skewed(2*time.Millisecond, 3*time.Second), func() {
		if t.state != taskRunning || t.asked != c.Request {
			return
		}
		t.saved = acknowledged{c.Request, step, t.acks == acksExit, l.w.engine.now}
		l.w.seen(Event{Kind: TaskSaved, Machine: l.m, Task: t})
		l.tellSaved(t)
		if t.acks == acksExit {
			l.exited(t, messages.ExitSaved, false)
		}
	})
}

func (l *launcher) tellSaved(t *task) {
	if t.agent != nil {
		t.agent.tell(t.to, &messages.TaskSaved{Id: messages.ToTaskID(t.key), Saved: &messages.RankSaved{
			Rank: int32(t.key.Rank), Request: t.saved.request, Steps: []int64{t.saved.step},
		}})
	}
}

// stepOf returns the step that a gang saves for a request.
func (w *World) stepOf(token topology.Token, request uint64) int64 {
	key := saveKey{token, request}
	if _, ok := w.steps[key]; !ok {
		w.steps[key] = int64(w.engine.now) / int64(time.Second)
	}
	return w.steps[key]
}

type saveKey struct {
	token   topology.Token
	request uint64
}
