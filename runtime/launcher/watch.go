package launcher

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/supervisor"
	"github.com/yi-json/synapse/runtime/tree"
)

// This file owns the watch over the machine's disk: each task is measured again and again, and ends when it keeps more in
// its scratch directory and writable layer than it may; the one that keeps most ends when the disk is nearly full.
//
// To measure is to walk through a tree, and a tree may have millions of files. So a walk works for a while and rests for
// much longer, and only one works at a time; a small tree is done before the first rest. While the disk's free space falls
// by what could take a task over its limit it does not rest. A quota of the file system would cost nothing, but few have one.

const (
	lookEvery  = time.Second
	guardEvery = 250 * time.Millisecond
	workFor    = 10 * time.Millisecond
	restFor    = 90 * time.Millisecond
	// maxWaited is how many looks of the guard the removal of what is kept may take before a task ends as well.
	maxWaited = 20
)

// watch is that of one launcher.
type watch struct {
	l       *Launcher
	walking sync.Mutex
	free    atomic.Int64 // bytes of the disk, as the guard saw them last
	tight   atomic.Bool  // and whether that is little
	pruning atomic.Bool  // what is kept is going, because the disk is tight
	waited  int          // looks that this was waited for
	pruned  bool         // the look before had what is kept removed
	looks   int          // since the disk is tight
	victim  *task        // whose end is awaited before another's
}

// run guards the disk until the launcher is closed.
func (w *watch) run() {
	tick := time.NewTicker(guardEvery)
	defer tick.Stop()
	for {
		select {
		case <-w.l.done:
			return
		case <-tick.C:
		}
		if s, err := spaceOf(w.l.o.Dir); err == nil {
			w.free.Store(s.free.Bytes)
			w.tight.Store(s.tight())
			w.relieve(s)
		}
	}
}

// relieve gives a disk that is nearly full some room: what is kept of tasks that are forgotten goes first, then what those
// left that have ended, then the task ends that keeps most. One step is awaited before the next.
func (w *watch) relieve(s space) {
	if !s.tight() {
		w.looks = 0
		return
	}
	if w.makesRoom(s) {
		return
	}
	var held tree.Usage
	var ended, running *task
	for _, t := range w.l.all() {
		if t.disk.watched.Load() && !t.disk.over.Load() && w.measure(t) {
			return // it ends for what it may keep itself
		}
		used := t.disk.usage()
		held = held.Plus(used)
		at := &running
		if t.disk.over.Load() {
			at = &ended
		}
		if used != (tree.Usage{}) && (*at == nil || s.heavier(used, (*at).disk.usage())) {
			*at = t
		}
	}
	if now, err := spaceOf(w.l.o.Dir); err == nil { // to measure takes its time
		s = now
	}
	switch {
	case !s.full(held):
	case ended != nil:
		ended.post(ended.onNoRoom)
	case running != nil:
		if w.victim == nil || w.victim.disk.over.Load() {
			w.victim = running
		}
		v := w.victim // told again until it has ended: its supervisor may just be looked for
		v.post(func() { v.endForDisk(supervisor.DiskFull, v.disk.usage().Bytes, s.free.Bytes) })
	}
}

// makesRoom has what was discarded removed, and what is kept beyond half of what is free, and reports whether that is to be
// waited for. What stays after it is not tried again at once: a task may have to end as well.
func (w *watch) makesRoom(s space) bool {
	if w.pruning.Load() && w.waited < maxWaited {
		w.waited++
		return true
	}
	w.waited, w.looks = 0, w.looks+1
	keep := min(w.l.o.KeepBytes, s.free.Bytes/2, s.free.Files<<10/2)
	much := keep < w.l.o.KeepBytes && w.looks%maxWaited == 1 && w.l.holds(keptDir)
	if w.pruned || w.pruning.Load() || !much && !w.l.holds(goneDir) {
		w.pruned = false
		return false
	}
	w.pruned = true
	w.pruning.Store(true)
	return w.l.background(func() {
		w.l.pruneTo(keep)
		w.pruning.Store(false)
	})
}

// watchOver measures a task until it has ended.
func (w *watch) watchOver(t *task) {
	for !t.disk.over.Load() && w.l.isOpen() {
		w.measure(t)
		select {
		case <-w.l.done:
		case <-time.After(lookEvery):
		}
	}
}

// measure walks through what a task keeps, and has it end as soon as that is too much. It does not rest while the disk is
// tight, or its free space has fallen by half of what would take the task over its limit.
func (w *watch) measure(t *task) (exceeded bool) {
	w.walking.Lock()
	defer w.walking.Unlock()
	began, free := time.Now(), w.free.Load()
	if t.disk.freeThen.Load() == 0 {
		t.disk.freeThen.Store(free)
	}
	room := (t.disk.allowed.Bytes - t.disk.usage().Bytes) / 2
	urgent := func() bool { return w.tight.Load() || t.disk.freeThen.Load()-w.free.Load() >= room }
	var before tree.Usage
	goOn := func(sofar tree.Usage) bool {
		sofar = sofar.Plus(before)
		if t.disk.exceeded(sofar) || t.disk.over.Load() || !w.l.isOpen() {
			return false
		}
		if time.Since(began) > workFor {
			w.walking.Unlock()
			if !urgent() {
				time.Sleep(restFor)
			}
			w.walking.Lock()
			began = time.Now()
		}
		return true
	}
	for _, dir := range []string{t.Scratch, t.Dir} {
		sum, err := tree.Measure(dir, goOn)
		before = before.Plus(sum)
		if err != nil && !errors.Is(err, tree.ErrStopped) {
			w.l.o.Log.Info("What task %v keeps is not known whole: %v", t.Key, err)
		}
	}
	if t.disk.over.Load() {
		return false // what it kept before it was removed is what it kept
	}
	if urgent() {
		before.Bytes += t.unlinked()
		t.disk.freeThen.Store(free)
	}
	t.disk.note(before)
	switch allowed := t.disk.allowed; {
	case before.Bytes > allowed.Bytes:
		t.post(func() { t.endForDisk(supervisor.DiskBytes, before.Bytes, allowed.Bytes) })
	case before.Files > allowed.Files:
		t.post(func() { t.endForDisk(supervisor.DiskFiles, before.Files, allowed.Files) })
	default:
		return false
	}
	return true
}

// diskUse is what a task keeps on the disk. allowed is written before the task is watched.
type diskUse struct {
	allowed  tree.Usage
	freeThen atomic.Int64 // bytes of the disk, when what it keeps without a name was counted last
	watched  atomic.Bool
	told     bool        // to end
	over     atomic.Bool // the task has ended

	mu   sync.Mutex
	used tree.Usage
}

func (d *diskUse) note(used tree.Usage) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.used = used
}

func (d *diskUse) usage() tree.Usage {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.used
}

func (d *diskUse) exceeded(used tree.Usage) bool {
	return used.Bytes > d.allowed.Bytes || used.Files > d.allowed.Files
}

// allow decides what the task may keep, once: by what is free when it is about to start.
func (t *task) allow() {
	s, err := spaceOf(t.l.o.Dir)
	if err != nil {
		t.l.o.Log.Info("What task %v may keep is bounded by what others need alone: %v", t.Key, err)
		s.free = tree.Usage{Bytes: shareOfFree * manyFiles, Files: shareOfFree * manyFiles}
	}
	t.disk.allowed = s.allowance(t.Spec)
}

// watch begins the watch over a task that runs, once.
func (t *task) watch() {
	if t.disk.watched.Load() {
		return
	}
	if t.disk.allowed == (tree.Usage{}) { // an agent of before there was a watch started it
		t.allow()
	}
	t.disk.watched.Store(true)
	t.l.background(func() { t.l.watch.watchOver(t) })
}

// endForDisk ends a task that keeps too much.
func (t *task) endForDisk(why string, kept, limit int64) {
	if t.link == nil || t.phase == phaseGone {
		return
	}
	if !t.disk.told {
		t.disk.told = true
		t.l.o.Log.Info("Task %v of job %s is ended for the disk: %s, %d of %d", t.Key, t.Job, why, kept, limit)
	}
	if err := t.link.EndForDisk(why, kept, limit); err != nil {
		t.l.o.Log.Info("Task %v could not be told to end: %v", t.Key, err)
	}
}

// onNoRoom removes what an ended task left in its scratch directory, because the disk is full.
func (t *task) onNoRoom() {
	if t.phase == phaseGone && !t.forgotten {
		t.l.o.Log.Info("The disk is nearly full: the scratch directory of task %v, which has ended, is removed", t.Key)
		t.l.discard(t.Scratch)
		t.disk.note(tree.Usage{})
	}
}

const (
	roomAgain    = 200 * time.Millisecond
	roomPatience = 50 // times
)

// whenRoom does something again for a while as long as the disk is full: the watch gives it room.
func (t *task) whenRoom(ctx context.Context, do func() error) error {
	for try := 1; ; try++ {
		err := do()
		if !errors.Is(err, unix.ENOSPC) || try == roomPatience {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(roomAgain):
		}
	}
}
