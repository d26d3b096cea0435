package launcher

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/yi-json/synapse/clock"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/activity"
	"github.com/yi-json/synapse/runtime/supervisor"
)

// This file watches what the running tasks do. A task whose step does not change for longer than usual, or which uses
// neither CPU nor disk, is examined, and its stacks are written to its directory. The leader decides from the states of
// all ranks whether the gang hangs. All of this happens outside the tasks' queues, so no order to a task waits for it.

const (
	activityEvery = time.Second
	// mostActivity and leastActivity bound the time between two looks at one task.
	leastActivity, mostActivity = time.Second, 10 * time.Second
	// looksPerFloor is the number of looks in the shortest time that counts as a hang.
	looksPerFloor = 6
	// stacksFile has the stacks of a task that made no progress.
	stacksFile = "stacks"
	// dumpTime is the time that a task gets to print its own stacks.
	dumpTime = time.Second
)

// taskActivity holds the measured activity of one task. Only the goroutine of runActivity uses it, except for
// state.
type taskActivity struct {
	last     activity.Sample
	root     activity.Root
	since    int64 // when the watch began, or continued after a time in which this program did not run
	quiet    int64 // since when the task is quiet; 0: it is not, or that is unknown
	due      int64
	examined int64 // when it was last examined; 0: not since it last worked
	stacked  bool  // its stacks were collected since it last worked
	writing  atomic.Bool

	mu    sync.Mutex
	state *messages.RankState // as last known; nil: unknown
	news  bool                // it has not been sent
}

// runActivity looks at the tasks until the launcher is closed.
func (l *Launcher) runActivity() {
	clock.Every(activityEvery, l.done, func() {
		now := clock.BootNs()
		var due, measured []*task
		for _, t := range l.all() {
			if !t.progress.running.Load() {
				continue
			}
			if t.Spec.WatchesHangs() && now >= t.activity.due {
				due = append(due, t)
			}
			if t.measures(now) {
				measured = append(measured, t)
			}
		}
		if len(due) == 0 && len(measured) == 0 {
			return
		}
		all := supervisor.Processes()
		for _, t := range due {
			t.lookAtActivity(clock.BootNs(), all)
		}
		for _, t := range measured {
			t.measureUse(clock.BootNs(), all)
		}
	})
}

// lookAtActivity measures a task, and examines it if it makes no progress.
func (t *task) lookAtActivity(now int64, all []supervisor.Process) {
	a := &t.activity
	floor := t.Spec.HangFloor()
	every := min(max(floor/looksPerFloor, leastActivity), mostActivity)
	if a.root.PID == 0 && !t.findRoot() {
		return
	}
	if a.since == 0 || now-a.due > int64(2*every+time.Second) {
		a.since, a.quiet = now, 0 // this program, or the whole node, did not run meanwhile
	}
	a.due = now - now%int64(every) + int64(every) // the same time for all such tasks, so that they share one look at /proc
	if a.writing.Load() {
		return
	}
	members := a.root.Members(all)
	sample := activity.Take(now, members)
	busy, known := sample.Busy(a.last)
	switch {
	case !known || busy:
		a.quiet = 0
	case a.quiet == 0:
		a.quiet = a.last.AtNs
	}
	measured := known || sample.Known && a.last.AtNs == 0
	a.last = sample
	if !measured {
		t.tellActivity(nil)
		return
	}
	t.judgeActivity(now, floor, members)
}

// findRoot reads which process is the first one of the task.
func (t *task) findRoot() bool {
	state, err := supervisor.ReadState(t.home)
	if err != nil || state == nil || state.PID == 0 {
		return false
	}
	t.activity.root = activity.Root{PID: state.PID, Start: state.Start, Around: t.driver.Name() == "process"}
	return true
}

// judgeActivity tells the state of the task, with details if it makes no progress.
func (t *task) judgeActivity(now int64, floor time.Duration, members []supervisor.Process) {
	a := &t.activity
	state := t.progressState(now, floor)
	if a.quiet > 0 && time.Duration(now-a.quiet) >= floor/2 || state.Late {
		state.QuietNs = a.quiet
	}
	if !state.Late && state.QuietNs == 0 {
		a.examined, a.stacked = 0, false
		t.tellActivity(state)
		return
	}
	stacks := !a.stacked && (state.Late || time.Duration(now-a.quiet) >= floor)
	if !stacks && a.examined > 0 && time.Duration(now-a.examined) < floor/2 {
		return
	}
	found := activity.Look(members)
	state.Wait, state.Call, state.UnreadBytes = found.Wait, found.Call, min(found.Unread, messages.MaxMemoryBytes)
	if a.quiet == 0 && state.Wait != messages.Wait_WAIT_STOPPED {
		state.Wait, state.Call = messages.Wait_WAIT_RUNS, ""
	}
	a.examined = now
	if !stacks {
		t.tellActivity(state)
		return
	}
	a.stacked = true
	a.writing.Store(true)
	started := t.l.background(func() { // the leader learns of the state when the stacks are on disk
		t.writeStacks(members, found)
		t.tellActivity(state)
		a.writing.Store(false)
	})
	if !started {
		a.writing.Store(false)
	}
}

// progressState returns what the progress of the task says.
func (t *task) progressState(now int64, floor time.Duration) *messages.RankState {
	p := &t.progress
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.model.Message()
	return &messages.RankState{
		Rank: int32(t.Key.Rank), Step: m.Step, ChangedNs: m.ChangedNs, Reports: p.model.Reports(),
		Late: p.model.Late(now, t.activity.since, floor), Pause: p.model.Pause(now),
	}
}

// tellActivity sends the state of the task with its progress. If a task works, it sends the state only once.
func (t *task) tellActivity(state *messages.RankState) {
	a := &t.activity
	a.mu.Lock()
	works := func(s *messages.RankState) bool { return s != nil && !s.Late && s.QuietNs == 0 }
	same := state == nil && a.state == nil || works(state) && works(a.state)
	a.state, a.news = state, a.news || !same
	a.mu.Unlock()
	t.progress.mu.Lock()
	defer t.progress.mu.Unlock()
	t.sendProgress()
}

// takeState returns the state for a message about the progress, and whether it is new. A step that changed after the
// last look shows that the task works.
func (a *taskActivity) takeState(changedNs int64) (state *messages.RankState, news bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state != nil && a.state.Late && a.state.ChangedNs != changedNs {
		a.state = &messages.RankState{Rank: a.state.Rank, Reports: true, ChangedNs: changedNs}
	}
	news, a.news = a.news, false
	return a.state, news
}

// writeStacks writes the stacks of the task's threads to its directory, and makes the task print its own.
func (t *task) writeStacks(members []supervisor.Process, found activity.State) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	t.l.jobs.Go(func() {
		select {
		case <-ctx.Done():
		case <-t.l.done:
			cancel()
		}
	})
	pySpy, _ := exec.LookPath("py-spy")
	text := activity.Stacks(ctx, members, found, pySpy)
	if err := os.WriteFile(filepath.Join(t.home, stacksFile), text, 0o600); err != nil {
		t.l.o.Log.Info("The stacks of task %v cannot be written: %v", t.Key, err)
	}
	dump := t.Spec.GetHang().GetDump()
	if dump == 0 {
		return
	}
	t.post(func() { t.onSignal(int(dump)) })
	select {
	case <-time.After(dumpTime):
	case <-t.l.done:
	}
}

// repeat makes the next message carry the state, for an actor that knows nothing yet.
func (a *taskActivity) repeat() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.news = a.state != nil
}
