package launcher

import (
	"os"
	"path/filepath"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/supervisor"
	"github.com/yi-json/synapse/topology"
)

// This file reads the output of tasks. It also keeps the output and the scratch directory of forgotten tasks. prune.go
// decides how long they are kept.

// logs answers a LogsTask.
func (l *Launcher) logs(c *messages.LogsTask, to *actor.PID) { l.send(to, l.page(c)) }

// page returns the part of the output that a LogsTask requests. The output of a forgotten task is among the kept files.
// Removed output gives an empty end. page first checks whether the task has ended, because a task may write more after
// its page was read.
func (l *Launcher) page(c *messages.LogsTask) *messages.TaskLogs {
	key := c.Id.Key()
	stream := supervisor.Stdout
	if c.Stderr {
		stream = supervisor.Stderr
	}
	limit := int(min(max(c.LimitBytes, 1), messages.MaxMessageBytes/2))
	over := l.over(key)
	answer := &messages.TaskLogs{Id: c.Id, Offset: c.Offset, End: true}
	for _, dir := range []string{tasksDir, keptDir} {
		path := filepath.Join(l.o.Dir, dir, key.String())
		at, data, atEnd, err := supervisor.ReadLog(path, stream, c.Offset, limit)
		if err != nil {
			l.o.Log.Info("The output of task %v cannot be read: %v", key, err)
			continue
		}
		if _, missing := os.Stat(path); missing != nil && len(data) == 0 {
			continue // the output never existed, or was moved meanwhile
		}
		answer.Offset, answer.Data, answer.End = at, data, atEnd && over
		if c.Times && len(data) > 0 {
			l.times(answer, path, stream)
		}
		break
	}
	return answer
}

// times adds the times of the data to an answer.
func (l *Launcher) times(answer *messages.TaskLogs, path, stream string) {
	marks, err := supervisor.ReadTimes(path, stream, answer.Offset, answer.Offset+int64(len(answer.Data)),
		messages.MaxLogTimes)
	if err != nil {
		l.o.Log.Info("The times of the output in %s cannot be read: %v", path, err)
	}
	for _, m := range marks {
		answer.Times = append(answer.Times, &messages.LogTime{Offset: m.Offset, UnixMs: m.UnixMs})
	}
}

// over reports whether the task's output is complete.
func (l *Launcher) over(k topology.TaskKey) bool {
	l.mu.Lock()
	t := l.tasks[k]
	l.mu.Unlock()
	if t == nil {
		return true
	}
	over := false
	return t.ask(func() { over = t.phase == phaseGone }) && over
}

// onForget forgets a task that has ended. It removes the driver's files in the background, because the kernel may be
// slow. For example, all network changes of a host wait for one lock. Meanwhile users read the output, and the Node may
// request the list of tasks.
func (t *task) onForget() {
	if t.phase != phaseGone || t.forgotten || t.cleaning {
		return
	}
	t.cleaning = t.l.background(func() {
		err := t.driver.Cleanup(&t.Task)
		t.post(func() { t.onCleaned(err) })
	})
}

// onCleaned keeps the output and the scratch directory for a while, for users.
func (t *task) onCleaned(err error) {
	t.cleaning = false
	if err != nil {
		// The rest uses disk space but no device. The next start removes it again.
		t.l.o.Log.Info("The files of task %v cannot be removed yet: %v", t.Key, err)
		return
	}
	if err := t.putAside(); err != nil {
		t.l.o.Log.Info("The output of task %v cannot be saved: %v", t.Key, err)
		t.l.discard(t.home)
		t.l.discard(t.Scratch)
		t.l.keepsNot(t.Key.String())
	} else {
		t.l.keepsFor(t.Key.String(), t.Owner, time.Now())
	}
	t.forgotten = true
	t.l.keptMore.Store(true)
	t.l.drop(t)
	t.l.background(t.l.prune)
}

// putAside keeps the files that users may still read. It does not wait for the removal of trees, which may have
// millions of files.
func (t *task) putAside() error {
	entries, err := os.ReadDir(t.home)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".log" {
			t.l.discard(filepath.Join(t.home, e.Name()))
		}
	}
	kept := filepath.Join(t.l.o.Dir, keptDir, t.Key.String())
	t.l.discard(kept)
	if err := t.writeOwner(); err != nil {
		return err
	}
	if t.UID != 0 {
		t.l.keeps(t.Key.String(), t.ownership())
	}
	if err := os.Rename(t.home, kept); err != nil {
		return err
	}
	if t.removeOwn() {
		return nil
	}
	if err := os.Rename(t.Scratch, filepath.Join(kept, scratchDir)); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}
