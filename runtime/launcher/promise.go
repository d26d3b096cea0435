package launcher

import (
	"fmt"

	"github.com/yi-json/synapse/runtime/reserve"
	"github.com/yi-json/synapse/runtime/tree"
)

// This file reserves disk space. If a job states its disk usage, the space is reserved before anything is fetched for
// its tasks, or the task is refused. A task within its own limit therefore never ends because others fill the disk.

// Promised returns the disk space that tasks with reserved space may still add.
func (l *Launcher) Promised() tree.Usage { return l.promisedBeside(nil) }

func (l *Launcher) promisedBeside(one *task) (sum tree.Usage) {
	for _, t := range l.all() {
		if t != one && t.disk.promised.Load() && !t.disk.over.Load() {
			allowed, used := t.disk.allowed, t.disk.usage()
			sum.Bytes += max(allowed.Bytes-used.Bytes, 0)
			sum.Files += max(allowed.Files-used.Files, 0)
		}
	}
	return sum
}

// promise reserves disk space once for a task whose job states its disk usage. If needed, it removes unused cached
// images.
func (t *task) promise() error {
	if t.Spec.GetDiskBytes() <= 0 || t.disk.promised.Load() {
		return nil
	}
	for tried := false; ; tried = true {
		err := t.tryPromise()
		if err == nil || tried || t.l.o.Evict == nil {
			return err
		}
		if wrong := t.l.o.Evict(func() bool { s, err := t.left(); return err != nil || t.fits(s) }); wrong != nil {
			t.l.o.Log.Info("Unused images cannot be removed: %v", wrong)
		}
	}
}

func (t *task) tryPromise() error {
	t.l.promising.Lock()
	defer t.l.promising.Unlock()
	s, err := t.left()
	if err != nil {
		return err
	}
	if !t.fits(s) {
		return fmt.Errorf("resources.disk: this node can reserve %s of its disk now, but the job requests %s per task; "+
			"request less, omit resources.disk, or choose nodes with more", mib(s.free.Bytes), mib(t.Spec.GetDiskBytes()))
	}
	t.disk.allowed = s.allowance(t.Spec)
	t.disk.promised.Store(true) // other goroutines read the limit from here on
	return nil
}

// left returns the disk without the space that is reserved for others.
func (t *task) left() (space, error) {
	s, err := spaceOf(t.l.o.Dir)
	return s.unpromised(t.l.promisedBeside(t)), err
}

func (t *task) fits(s space) bool { return t.Spec.GetDiskBytes() <= s.free.Bytes }

func mib(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }

// cacheFits reports whether the free space is at least the share that cached images must leave.
func (s space) cacheFits() bool {
	return !reserve.Disk{Size: s.size, Free: s.free}.Lacks(reserve.Disk{Size: s.size}.Share(reserve.Cache))
}

// rests notes the disk usage of a task while the disk is not short.
func (d *diskUse) rests() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.before, d.lately = d.lately, d.used
}

// grown returns the disk space that a task has added after the shortage began. All space of a newer task counts.
func (d *diskUse) grown() tree.Usage {
	d.mu.Lock()
	defer d.mu.Unlock()
	return tree.Usage{Bytes: max(d.used.Bytes-d.before.Bytes, 0), Files: max(d.used.Files-d.before.Files, 0)}
}
