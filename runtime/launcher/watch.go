package launcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/fault"
	"github.com/yi-json/synapse/runtime/supervisor"
	"github.com/yi-json/synapse/runtime/tree"
)

// This file owns the guard of the machine's disk: when the disk is nearly full it makes room, and the task ends that
// keeps most. It also knows whether tasks have filled the disk at all. walk.go owns how much each task keeps.

const (
	guardEvery = 250 * time.Millisecond
	// maxWaited is how many looks of the guard the removal of what is kept may take before a task ends as well.
	maxWaited = 20
	// walkPatience is for how long the guard waits for walks through what tasks keep, before it judges by what is known.
	walkPatience = time.Second
)

// watch is that of one launcher.
type watch struct {
	l     *Launcher
	began time.Time
	asked chan struct{} // has the guard look at once …
	doubt atomic.Bool   // … and at more than it knows

	free   atomic.Pointer[tree.Usage] // of the disk, as the guard saw it last
	wanted atomic.Int64               // walks begun before this are too old, in ns since began; 0: none is
	// others is the wanted of the verdict that something else than tasks filled the disk; 0: that was not the last.
	others atomic.Int64

	walking sync.Mutex   // has one walk work at a time
	round   atomic.Int64 // ns that the last walks of all tasks worked, together
	effort  effort

	// The guard's own.
	pruning atomic.Bool // what is kept is going, because the disk is tight
	waited  int         // looks that this was waited for
	pruned  bool        // the look before had what is kept removed
	looks   int         // since the disk is tight
	judged  bool        // there was a verdict since
	freest  tree.Usage  // most that was free since that verdict
	victim  *task       // its end is awaited before another is chosen
}

func (w *watch) init(l *Launcher) {
	w.l, w.began, w.asked = l, time.Now(), make(chan struct{}, 1)
	s, err := spaceOf(l.o.Dir)
	if err != nil {
		l.o.Log.Info("The watch over the disk begins blind: %v", err)
	}
	w.free.Store(&s.free)
}

// now is a time that other goroutines may read whole, never 0.
func (w *watch) now() int64 { return int64(time.Since(w.began)) + 1 }

// run guards the disk until the launcher is closed.
func (w *watch) run() {
	tick := time.NewTicker(guardEvery)
	defer tick.Stop()
	for {
		select {
		case <-w.l.done:
			return
		case <-tick.C:
		case <-w.asked:
		}
		began := w.now()
		if s, err := spaceOf(w.l.o.Dir); err == nil {
			w.free.Store(&s.free)
			w.look(s, began)
		}
	}
}

// look gives a disk that is nearly full some room: what is kept of tasks that are forgotten goes first, then what those
// left that have ended, then the task ends that keeps most. One step is awaited before the next.
func (w *watch) look(s space, began int64) {
	if !s.tight() {
		w.looks, w.judged, w.victim = 0, false, nil
		w.wanted.Store(0)
		w.others.Store(0)
		return
	}
	if w.makesRoom(s) {
		return
	}
	known, _, _ := w.weigh(s)
	if w.doubt.Swap(false) || s.full(known) || !w.knows(s) {
		w.wanted.CompareAndSwap(0, began)
	}
	wanted := w.wanted.Load()
	waits := wanted > 0 && slices.ContainsFunc(w.l.all(), func(t *task) bool { return t.disk.walkedBefore(wanted) })
	if waits && time.Duration(began-wanted) < walkPatience {
		return
	}
	if wanted == 0 {
		return // nothing is new
	}
	w.wanted.Store(0)
	w.judged, w.freest = true, s.free
	held, ended, running := w.weigh(s)
	// What is not known yet, and what is kept of tasks and still to be removed, is not blamed on others.
	if waits || w.pruning.Load() || w.l.keptMore.Load() || !s.others(held) {
		w.others.Store(0)
	} else if w.others.Swap(wanted) == 0 {
		w.l.o.Log.Info("The disk of %s is nearly full, and not of what tasks keep: make room there", w.l.o.Dir)
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

// knows reports whether there was a verdict on a disk that has been about as full since. Others may have filled it for
// good, and no walk changes that.
func (w *watch) knows(s space) bool {
	w.freest = tree.Usage{Bytes: max(w.freest.Bytes, s.free.Bytes), Files: max(w.freest.Files, s.free.Files)}
	return w.judged && s.free.Bytes >= w.freest.Bytes/4*3 && s.free.Files >= w.freest.Files/4*3
}

// weigh is what all tasks keep beyond what any may, and which one keeps most of those that have ended and of those that
// have not.
func (w *watch) weigh(s space) (held tree.Usage, ended, running *task) {
	for _, t := range w.l.all() {
		used := beyond(t.disk.usage())
		held = held.Plus(used)
		at := &running
		if t.disk.over.Load() {
			at = &ended
		}
		if used != (tree.Usage{}) && (*at == nil || s.heavier(used, beyond((*at).disk.usage()))) {
			*at = t
		}
	}
	return held, ended, running
}

// makesRoom has what was discarded removed, and what is kept beyond half of what is free, and reports whether that is
// to be waited for. What stays after it is not tried again at once: a task may have to end as well. What is kept from
// then on is.
func (w *watch) makesRoom(s space) bool {
	if w.pruning.Load() && w.waited < maxWaited {
		w.waited++
		return true
	}
	w.waited, w.looks = 0, w.looks+1
	keep := min(w.l.o.KeepBytes, s.free.Bytes/2, s.free.Files<<10/2)
	if w.pruning.Load() {
		return false
	}
	more := w.l.keptMore.Swap(false)
	much := keep < w.l.o.KeepBytes && (more || w.looks%maxWaited == 1) && w.l.holds(keptDir)
	if w.pruned && !more || !much && !w.l.holds(goneDir) {
		w.pruned = false
		return false
	}
	w.pruned = true
	w.pruning.Store(true)
	return w.l.background(func() {
		w.l.pruneTo(keep)
		w.pruning.Store(false)
		w.ask()
	})
}

// ask has the guard look at once.
func (w *watch) ask() {
	select {
	case w.asked <- struct{}{}:
	default: // it will
	}
}

const (
	roomAgain    = 50 * time.Millisecond
	roomPatience = 10 * time.Second
)

// errNoRoom is the end of a wait for room on a disk that tasks have filled. The task that waited is not at fault, nor
// is the machine.
var errNoRoom = errors.New("tasks have filled the machine's disk, and no room was made in time")

// hasRoom is an error where the disk has none for what a task's start needs.
func (w *watch) hasRoom() error {
	s, err := spaceOf(w.l.o.Dir)
	bytes, files := min(leastBytes, s.size.Bytes/shareLeft), min(leastFiles, s.size.Files/shareLeft)
	if err == nil && (s.free.Bytes < bytes || s.free.Files < files) {
		return fmt.Errorf("the disk of %s: %w", w.l.o.Dir, unix.ENOSPC)
	}
	return nil
}

// whenRoom does something again for a while as long as tasks have the disk filled: the guard makes room. Where others
// have, nothing here ever will, and the machine must say so at once.
func (w *watch) whenRoom(ctx context.Context, do func() error) error {
	began, failed, again := time.Now(), int64(0), false
	for {
		err := do()
		if !errors.Is(err, unix.ENOSPC) {
			return err
		}
		if !supervisor.NoRoom(w.l.o.Dir, err) { // room was just made, or it is another limit of the kernel
			if again {
				return err
			}
			again = true
			continue
		}
		if failed == 0 {
			failed = w.now()
		}
		w.doubt.Store(true)
		w.ask()
		select {
		case <-ctx.Done():
			return err
		case <-time.After(roomAgain):
		}
		switch {
		case w.others.Load() > failed:
			return fault.OfMachine(err)
		case time.Since(began) > roomPatience:
			return fmt.Errorf("%w: %w", errNoRoom, err)
		}
	}
}
