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

// This file owns the guard of the machine's disk: when the disk is nearly full it makes room, and ends the task that
// grew most since the disk got short. It also knows whether tasks have filled the disk at all. walk.go owns how much
// each task keeps, promise.go which of them nobody else's shortage can end.

const (
	guardEvery = 250 * time.Millisecond
	// maxWaited is how many rounds of the guard the removal of kept output may take before a task ends as well.
	maxWaited = 20
	// walkPatience is how long the guard waits for walks through what tasks keep, before it judges by what is known.
	walkPatience = time.Second
)

// watch is the guard of one launcher's disk.
type watch struct {
	l     *Launcher
	began time.Time
	asked chan struct{} // has the guard look at once …
	doubt atomic.Bool   // … and at more than it knows

	free   atomic.Pointer[tree.Usage] // of the disk, as the guard saw it last
	wanted atomic.Int64               // walks begun before this are too old, in ns since began; 0: none is
	// others is the wanted at the verdict that something else than tasks filled the disk; 0: the last verdict was another.
	others atomic.Int64

	walking sync.Mutex   // lets one walk work at a time
	round   atomic.Int64 // ns that the last walks of all tasks worked, together
	effort  effort

	// Only the guard uses these.
	evicts  remedy
	calm    int         // looks
	pruning atomic.Bool // kept output is being removed, because the disk is tight
	waited  int         // looks that this was waited for
	pruned  bool        // the round before removed kept output
	looks   int         // since the disk is tight
	judged  bool        // there was a verdict since
	freest  tree.Usage  // most that was free since that verdict
	victim  *task       // its end is awaited before another is chosen
}

func (w *watch) init(l *Launcher) {
	w.l, w.began, w.asked = l, time.Now(), make(chan struct{}, 1)
	s, err := spaceOf(l.o.Dir)
	if err != nil {
		l.o.Log.Info("The disk usage is unknown at the start: %v", err)
	}
	w.free.Store(&s.free)
}

// now is the time in nanoseconds since began, never 0, as other goroutines may read it atomically.
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

// look makes room on a disk that is nearly full: first go cached images that nobody uses, then what is kept of
// forgotten tasks, then what ended tasks left; then tasks end that keep more than they may, and then the one that grew
// most since the disk got short and has no room promised. It waits for each step before the next.
func (w *watch) look(s space, began int64) {
	w.notes(s)
	if !s.tight() {
		w.looks, w.evicts.looks, w.judged, w.victim = 0, 0, false, nil
		w.wanted.Store(0)
		w.others.Store(0)
		return
	}
	if w.evictsImages() || w.makesRoom(s) {
		return
	}
	known := w.weigh(s).held
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
	found := w.weigh(s)
	// While anything is unknown, or kept output is still to be removed, others are not blamed.
	if waits || w.pruning.Load() || w.l.keptMore.Load() || !s.others(found.held) {
		w.others.Store(0)
	} else if w.others.Swap(wanted) == 0 {
		w.l.o.Log.Info("The disk of %s is nearly full, but not with files of tasks: free some space", w.l.o.Dir)
	}
	if s.full(found.held) {
		w.ends(s, found)
	}
}

// ends has the next task make room. One that keeps more than it may was told so by its own walk.
func (w *watch) ends(s space, found found) {
	switch {
	case found.ended != nil:
		found.ended.post(found.ended.onNoRoom)
	case found.exceeds:
		w.victim = nil
	case found.grown != nil:
		if w.victim == nil || w.victim.disk.over.Load() {
			w.victim = found.grown
		}
		v := w.victim // told again until it has ended: its supervisor may only be found later
		why, bytes := supervisor.DiskGrew, v.disk.grown().Bytes
		if bytes == 0 {
			why, bytes = supervisor.DiskFull, v.disk.usage().Bytes
		}
		v.post(func() { v.endForDisk(why, bytes, s.free.Bytes) })
	}
}

// notes keeps what tasks keep until the disk gets short, which is before it is nearly full. What is kept so is a second
// or two old: who fills a disk at one blow is measured before the guard looks again.
func (w *watch) notes(s space) {
	w.calm++
	if s.cacheFits() && w.calm%noteEvery == 0 {
		for _, t := range w.l.all() {
			t.disk.rests()
		}
	}
}

// noteEvery is how many looks of the guard lie between two notes.
const noteEvery = int(lookEvery / guardEvery)

// knows reports whether there was a verdict on a disk that has been about as full since. If others have filled it for
// good, no walk changes that.
func (w *watch) knows(s space) bool {
	w.freest = tree.Usage{Bytes: max(w.freest.Bytes, s.free.Bytes), Files: max(w.freest.Files, s.free.Files)}
	return w.judged && s.free.Bytes >= w.freest.Bytes/4*3 && s.free.Files >= w.freest.Files/4*3
}

// found holds the disk use of all tasks above the minimum, and which of them end first.
type found struct {
	held    tree.Usage
	ended   *task // that keeps most of those that have ended
	exceeds bool  // one that runs keeps more than it may
	grown   *task // that grew most of those that run and have no room promised; the one that keeps most, where none grew
}

func (w *watch) weigh(s space) (all found) {
	var grew, kept *task
	most := func(at **task, t *task, by func(*diskUse) tree.Usage) {
		if used := by(&t.disk); used != (tree.Usage{}) && (*at == nil || s.heavier(used, by(&(*at).disk))) {
			*at = t
		}
	}
	keeps := func(d *diskUse) tree.Usage { return beyond(d.usage()) }
	for _, t := range w.l.all() {
		all.held = all.held.Plus(keeps(&t.disk))
		switch {
		case t.disk.over.Load():
			most(&all.ended, t, keeps)
		case t.disk.watched.Load() && t.disk.exceeded(t.disk.usage()):
			all.exceeds = true
		case !t.disk.promised.Load():
			most(&kept, t, keeps)
			most(&grew, t, (*diskUse).grown)
		}
	}
	if all.grown = grew; grew == nil || beyond(grew.disk.usage()) == (tree.Usage{}) {
		all.grown = kept
	}
	return all
}

// remedy makes room beside the guard.
type remedy struct {
	under  atomic.Bool
	waited int // looks, while it was under way
	looks  int // since the disk is tight
}

// evictsImages removes cached images that nobody uses, again and again, as tasks that use them end. It reports whether
// to wait for that.
func (w *watch) evictsImages() bool {
	e := &w.evicts
	if e.under.Load() {
		e.waited++
		return e.waited < maxWaited
	}
	due := w.l.o.Evict != nil && e.looks%maxWaited == 0
	if e.waited, e.looks = 0, e.looks+1; !due {
		return false
	}
	e.under.Store(true)
	return w.l.background(func() {
		err := w.l.o.Evict(func() bool { s, err := spaceOf(w.l.o.Dir); return err != nil || s.cacheFits() })
		if err != nil && w.l.isOpen() {
			w.l.o.Log.Info("Some cached images cannot be removed: %v", err)
		}
		e.under.Store(false)
		w.ask()
	})
}

// makesRoom removes what was discarded, and kept output beyond half of what is free, and reports whether to wait for
// that. What stays is not tried again at once, because a task may have to end as well; what is kept later is.
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

// ask makes the guard look at once.
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

// errNoRoom ends a wait for room on a disk that tasks have filled. Neither the task that waited nor the machine is at
// fault.
var errNoRoom = errors.New("tasks have filled the machine's disk, and no room was made in time")

// tight is hasRoom's error. The disk was full then, whatever a second look finds: there may be more room by then, and
// what counts in blocks rounds in another way.
type tight struct{ dir string }

func (e tight) Error() string { return fmt.Sprintf("the disk of %s: %v", e.dir, unix.ENOSPC) }
func (tight) Unwrap() error   { return unix.ENOSPC }

// hasRoom returns an error where the disk lacks the room for a task's start.
func (w *watch) hasRoom() error {
	s, err := spaceOf(w.l.o.Dir)
	bytes, files := min(leastBytes, s.size.Bytes/shareLeft), min(leastFiles, s.size.Files/shareLeft)
	if err == nil && (s.free.Bytes < bytes || s.free.Files < files) {
		return tight{w.l.o.Dir}
	}
	return nil
}

// noRoom reports whether something failed because the disk is full. A failure that it passed over would name nobody's
// fault: the leader would take it for the job's, which then waits for seconds before it goes to another machine.
func (w *watch) noRoom(err error) bool {
	var known tight
	return errors.As(err, &known) || supervisor.NoRoom(w.l.o.Dir, err)
}

// whenRoom repeats do for a while as long as tasks fill the disk, because the guard makes room. Where others fill it,
// nothing here will make room, and the machine must report that at once.
func (w *watch) whenRoom(ctx context.Context, do func() error) error {
	began, failed, again := time.Now(), int64(0), false
	for {
		err := do()
		if !errors.Is(err, unix.ENOSPC) {
			return err
		}
		if !w.noRoom(err) { // room was just made, or it is another limit of the kernel
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
