package sim

import (
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file draws gangs that hang, and simulates what their nodes report about the ranks. In some of these gangs one
// rank still reports steps, so that the gang must not count as hung. It draws no random numbers for the jobs.

const (
	simFloor   = 3 * time.Second
	stateAgain = 2 * time.Second
)

// hangs draws whether a gang hangs in its first attempt.
func (w *World) hangs(spec *messages.JobSpec, run *script) {
	n := len(w.client.jobs)
	if !w.opts.Hangs || n%8 != 7 || run.exit != 0 || spec.GetRestart().GetNever() {
		return
	}
	run.hangs = 1 + int32(n/8%5)
	run.moves = n/8%4 == 3
	spec.Hang = &messages.HangSpec{Then: messages.HangAction_HANG_ACTION_RESTART, FloorMs: simFloor.Milliseconds()}
	if spec.Restart == nil {
		spec.Restart = &messages.RestartSpec{}
	}
	spec.Restart.Limit = max(spec.Restart.Limit, 1)
}

// progresses simulates the reports about a task whose gang hangs after half of its run time.
func (l *launcher) progresses(t *task, c *messages.StartTask, after time.Duration) {
	plan := parseScript(wordsOf(c.Spec))
	tasks := c.Spec.GetGang().GetReplicasMin()
	if plan.hangs == 0 || c.Run != 1 || tasks == 0 {
		return
	}
	rank, stuck := int32(t.key.Rank), (plan.hangs-1)%tasks
	begins := int64(l.m.now())
	state := &messages.RankState{Rank: rank, Step: 2, Reports: true, ChangedNs: begins}
	l.later(t, time.Second, func() { l.tellState(t, state) })
	decides := stuck // the rank whose state decides whether the gang hangs, and who is named
	if plan.moves {
		decides = (stuck + 1) % tasks
	}
	if rank == decides {
		l.later(t, after-time.Millisecond, func() { l.w.hung[t.key.Token] = anyRank })
	}
	if plan.moves && rank == decides {
		return // it seems to make progress until its end
	}
	l.later(t, after/2, func() {
		since := int64(l.m.now())
		if _, known := l.w.hung[t.key.Token]; !plan.moves && !known {
			l.w.hung[t.key.Token] = stuck
		}
		still := &messages.RankState{Rank: rank, Step: 2, Reports: true, Late: true, ChangedNs: since, QuietNs: since,
			Wait: messages.Wait_WAIT_PEER, Call: "recvfrom"}
		if rank == stuck {
			still.Wait, still.Call = messages.Wait_WAIT_LOCK, "futex"
		}
		l.later(t, simFloor, func() { l.repeatState(t, still) })
	})
}

// repeatState reports a state until the task ends.
func (l *launcher) repeatState(t *task, s *messages.RankState) {
	if t.state != taskRunning {
		return
	}
	l.tellState(t, s)
	l.later(t, stateAgain, func() { l.repeatState(t, s) })
}

func (l *launcher) tellState(t *task, s *messages.RankState) {
	if t.agent != nil && t.state == taskRunning {
		t.agent.tell(t.to, &messages.TaskProgress{Id: messages.ToTaskID(t.key), Step: s.Step, ChangedNs: s.ChangedNs,
			State: copyOf(s)})
	}
}

// hungGangs holds the rank because of which each hung attempt hangs, or anyRank.
type hungGangs map[topology.Token]int32

// anyRank stands for the ranks that still run after the rank that decided has ended. Any of them may be named.
const anyRank = -2
