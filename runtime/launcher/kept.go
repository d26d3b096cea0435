package launcher

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/supervisor"
)

// This file owns the output of tasks: how it is read, and how long it and their
// scratch directories are kept once they are forgotten.

// logs answers a LogsTask. What was forgotten is found among what is kept; what
// is not there any more is an empty end.
func (l *Launcher) logs(c *messages.LogsTask, to *actor.PID) {
	key := KeyOf(c.Id)
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
			continue // it was never here, or has been put aside meanwhile
		}
		answer.Offset, answer.Data, answer.End = at, data, atEnd && over
		break
	}
	l.send(to, answer)
}

// over tells whether nothing can be added to a task's output any more.
func (l *Launcher) over(k Key) bool {
	l.mu.Lock()
	t := l.tasks[k]
	l.mu.Unlock()
	if t == nil {
		return true
	}
	over := false
	return t.ask(func() { over = t.phase == phaseGone }) && over
}

// onForget lets a task go that has ended. Its output and its scratch directory
// are kept for a while.
func (t *task) onForget() {
	if t.phase != phaseGone || t.forgotten {
		return
	}
	if err := t.driver.Cleanup(&t.Task); err != nil {
		// What is left costs room, and never a device: it is tried again at the next start.
		t.l.o.Log.Info("What task %v had cannot be removed yet: %v", t.Key, err)
		return
	}
	if err := t.putAside(); err != nil {
		t.l.o.Log.Info("The output of task %v cannot be kept: %v", t.Key, err)
		_ = os.RemoveAll(t.home)
		_ = os.RemoveAll(t.Scratch)
		t.l.keepsNot(t.Key.String())
	}
	t.forgotten = true
	t.l.drop(t)
	t.l.background(t.l.prune)
}

// putAside keeps what people may still want to read.
func (t *task) putAside() error {
	entries, err := os.ReadDir(t.home)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".log" {
			if err := os.RemoveAll(filepath.Join(t.home, e.Name())); err != nil {
				return err
			}
		}
	}
	kept := filepath.Join(t.l.o.Dir, keptDir, t.Key.String())
	if err := os.RemoveAll(kept); err != nil {
		return err
	}
	if err := t.writeOwner(); err != nil {
		return err
	}
	if t.UID != 0 {
		t.l.keeps(t.Key.String(), owner{t.UID, t.Job})
	}
	if err := os.Rename(t.home, kept); err != nil {
		return err
	}
	if s := t.Spec.GetScript(); s != nil {
		_ = os.Remove(filepath.Join(t.Scratch, s.Name))
	}
	if os.Remove(Hostfile(t.Scratch)) == nil && os.Remove(t.Scratch) == nil {
		return nil // there was nothing else in it
	}
	if err := os.Rename(t.Scratch, filepath.Join(kept, scratchDir)); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// prune removes what has been kept long enough, and the oldest of what is too much.
func (l *Launcher) prune() {
	l.pruning.Lock()
	defer l.pruning.Unlock()
	root := filepath.Join(l.o.Dir, keptDir)
	entries, err := os.ReadDir(root)
	if err != nil {
		return
	}
	type old struct {
		path  string
		since time.Time
		bytes int64
	}
	var kept []old
	total := int64(0)
	for _, e := range entries {
		path := filepath.Join(root, e.Name())
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		kept = append(kept, old{path, info.ModTime(), size(path)})
		total += kept[len(kept)-1].bytes
	}
	slices.SortFunc(kept, func(a, b old) int { return a.since.Compare(b.since) })
	for i, k := range kept {
		if time.Since(k.since) < l.o.KeepFor && total <= l.o.KeepBytes && len(kept)-i <= l.o.KeepTasks {
			break
		}
		if err := os.RemoveAll(k.path); err != nil {
			l.o.Log.Info("%s cannot be removed: %v", k.path, err)
			continue
		}
		total -= k.bytes
		l.keepsNot(filepath.Base(k.path))
	}
}

// size is what a directory takes on the disk.
func size(dir string) int64 {
	total := int64(0)
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := e.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	return total
}
