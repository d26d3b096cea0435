package launcher

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// This file owns what a task takes over from the ended task before it, when its gang restarts in place: the scratch
// directory and the writable layer. Both are moved, so nothing is copied and nothing is unpacked. The files through
// which the agent and the ended task talked stay behind.

// inherit moves the files of the ended task here. It can be repeated: what is missing there has been moved before, or
// was never made.
func (t *task) inherit() error {
	if t.inherits == nil {
		return nil
	}
	t.l.mu.Lock()
	from := t.l.tasks[*t.inherits]
	t.l.mu.Unlock()
	if from == nil || from == t || !from.disk.over.Load() {
		t.l.o.Log.Info("Task %v begins with empty directories, because task %v is not here", t.Key, *t.inherits)
		return nil
	}
	if err := t.inheritScratch(from); err != nil {
		return fmt.Errorf("take over the scratch directory of the attempt before: %w", err)
	}
	if d, can := t.driver.(Inheriter); can {
		if err := d.Inherit(&from.Task, &t.Task); err != nil {
			return fmt.Errorf("take over the writable layer of the attempt before: %w", err)
		}
	}
	return nil
}

// inheritScratch moves the scratch directory. This task's own directory is new and empty.
func (t *task) inheritScratch(from *task) error {
	if from.removeOwn() {
		return nil // it had only the agent's files
	}
	if _, err := os.Lstat(from.Scratch); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.Remove(t.Scratch); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Rename(from.Scratch, t.Scratch)
}
