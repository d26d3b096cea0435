package launcher

import (
	"fmt"

	"github.com/yi-json/synapse/runtime/reserve"
	"github.com/yi-json/synapse/runtime/tree"
)

// This file owns what of the disk is promised: a task whose job says how much it keeps is given that before anything
// is fetched for it, or refused. So it never ends for a disk that others fill, as long as it keeps its own limit.

// Promised returns the disk space that tasks with an own limit may still add.
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

// promise keeps room for a task whose job says how much it keeps, once. Cached images that nobody uses make way.
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
		return fmt.Errorf("resources.disk: this node can promise %s of its disk now, and the job asks for %s for each task; "+
			"ask for less, leave resources.disk out, or choose nodes with more", mib(s.free.Bytes), mib(t.Spec.GetDiskBytes()))
	}
	t.disk.allowed = s.allowance(t.Spec)
	t.disk.promised.Store(true) // others read what is allowed from here on
	return nil
}

// left is the disk without what is promised to others.
func (t *task) left() (space, error) {
	s, err := spaceOf(t.l.o.Dir)
	return s.unpromised(t.l.promisedBeside(t)), err
}

func (t *task) fits(s space) bool { return t.Spec.GetDiskBytes() <= s.free.Bytes }

func mib(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }

// cacheFits reports whether as much of the disk is free as cached images must leave.
func (s space) cacheFits() bool {
	return !reserve.Disk{Size: s.size, Free: s.free}.Lacks(reserve.Disk{Size: s.size}.Share(reserve.Cache))
}

// rests notes what a task keeps while the disk is not short.
func (d *diskUse) rests() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.before, d.lately = d.lately, d.used
}

// grown returns the disk space that a task has added after the shortage began. A newer task has added all of it.
func (d *diskUse) grown() tree.Usage {
	d.mu.Lock()
	defer d.mu.Unlock()
	return tree.Usage{Bytes: max(d.used.Bytes-d.before.Bytes, 0), Files: max(d.used.Files-d.before.Files, 0)}
}
