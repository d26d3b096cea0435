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

// This file guards the node's disk. If the disk is nearly full, the guard makes room, and ends the task that grew most
// after the disk became short. It also determines whether tasks fill the disk at all. walk.go measures each task.
// promise.go reserves space for tasks that a shortage must not end.

const (
	guardEvery = 250 * time.Millisecond
	// maxWaited bounds the rounds that the guard waits for the removal of kept output before it also ends a task.
	maxWaited = 20
	// walkPatience bounds the wait of the guard for walks. After that, it decides by the known measurements.
	walkPatience = time.Second
)

// watch guards the disk of one launcher.
type watch struct {
	l     *Launcher
	began time.Time
	asked chan struct{} // makes the guard look at once …
	doubt atomic.Bool   // … and measure all tasks again

	free   atomic.Pointer[tree.Usage] // free space of the disk when the guard last looked
	wanted atomic.Int64               // walks begun before this are too old, in ns since began; 0: none is
	// others holds the value of wanted at the verdict that something other than tasks filled the disk. It is 0
	// after any other verdict.
	others atomic.Int64

	walking sync.Mutex   // lets one walk work at a time
	round   atomic.Int64 // ns of work of the last walks of all tasks
	effort  effort

	// Only the guard uses the following fields.
	evicts  remedy
	calm    int         // looks while the disk was not tight
	pruning atomic.Bool // kept output is being removed, because the disk is tight
	waited  int         // looks that waited for this removal
	pruned  bool        // the round before removed kept output
	looks   int         // looks after the disk became tight
	judged  bool        // there was a verdict after that
	freest  tree.Usage  // most free space after that verdict
	victim  *task       // the guard waits for its end before it chooses another
}

func (w *watch) init(l *Launcher) {
	w.l, w.began, w.asked = l, time.Now(), make(chan struct{}, 1)
	s, err := spaceOf(l.o.Dir)
	if err != nil {
		l.o.Log.Info("The disk usage is unknown at the start: %v", err)
	}
	w.free.Store(&s.free)
}

// now returns the nanoseconds since began, never 0. Other goroutines may read it atomically.
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

// look makes room on a disk that is nearly full. It removes, in order: unused cached images, the kept files of
// forgotten tasks, and the files of ended tasks. Then it ends tasks that exceed their limits. Last, it ends the task
// without reserved space that grew most after the disk became short. It waits for each step before the next.
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
		return // nothing has changed
	}
	w.wanted.Store(0)
	w.judged, w.freest = true, s.free
	found := w.weigh(s)
	// The guard does not blame others while a measurement is missing or kept output still has to be removed.
	if waits || w.pruning.Load() || w.l.keptMore.Load() || !s.others(found.held) {
		w.others.Store(0)
	} else if w.others.Swap(wanted) == 0 {
		w.l.o.Log.Info("The disk of %s is nearly full, but not with files of tasks: free some space", w.l.o.Dir)
	}
	if s.full(found.held) {
		w.ends(s, found)
	}
}

// ends lets the next task make room. A task that exceeds its limit is already being ended by its own walk.
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
		v := w.victim // repeat until it has ended, because its supervisor may be found only later
		why, bytes := supervisor.DiskGrew, v.disk.grown().Bytes
		if bytes == 0 {
			why, bytes = supervisor.DiskFull, v.disk.usage().Bytes
		}
		v.post(func() { v.endForDisk(why, bytes, s.free.Bytes) })
	}
}

// notes records the usage of all tasks until the disk becomes short, which precedes nearly full. The recorded usage is
// one or two seconds old. A task that fills the disk faster is measured before the guard looks again.
func (w *watch) notes(s space) {
	w.calm++
	if s.cacheFits() && w.calm%noteEvery == 0 {
		for _, t := range w.l.all() {
			t.disk.rests()
		}
	}
}

// noteEvery is the number of looks between two notes.
const noteEvery = int(lookEvery / guardEvery)

// knows reports whether the last verdict still holds because the free space has not changed much. If others fill the
// disk permanently, no walk changes that.
func (w *watch) knows(s space) bool {
	w.freest = tree.Usage{Bytes: max(w.freest.Bytes, s.free.Bytes), Files: max(w.freest.Files, s.free.Files)}
	return w.judged && s.free.Bytes >= w.freest.Bytes/4*3 && s.free.Files >= w.freest.Files/4*3
}

// found holds the disk use of all tasks above the minimum, and the tasks that end first.
type found struct {
	held    tree.Usage
	ended   *task // the ended task that keeps most
	exceeds bool  // a running task exceeds its limit
	grown   *task // the running task without reserved space that grew most; if none grew, the one that keeps most
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

// remedy makes room in the background.
type remedy struct {
	under  atomic.Bool
	waited int // looks while it was in progress
	looks  int // looks after the disk became tight
}

// evictsImages removes unused cached images, repeatedly, because tasks that use images end. It reports whether the
// guard should wait.
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

// makesRoom removes discarded files, and kept output beyond half of the free space. It reports whether the guard should
// wait. It does not retry failed removals at once, because a task may have to end as well.
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
	default: // a look is already requested
	}
}

const (
	roomAgain    = 50 * time.Millisecond
	roomPatience = 10 * time.Second
)

// errNoRoom ends a wait for room on a disk that tasks have filled. Neither the waiting task nor the node is at fault.
var errNoRoom = errors.New("tasks have filled the node's disk, and no space was freed in time")

// tight is the error of hasRoom. It records that the disk was full. A second look may find more room, or round blocks
// differently.
type tight struct{ dir string }

func (e tight) Error() string { return fmt.Sprintf("the disk of %s: %v", e.dir, unix.ENOSPC) }
func (tight) Unwrap() error   { return unix.ENOSPC }

// hasRoom returns an error if the disk lacks the space for a task's start.
func (w *watch) hasRoom() error {
	s, err := spaceOf(w.l.o.Dir)
	bytes, files := min(leastBytes, s.size.Bytes/shareLeft), min(leastFiles, s.size.Files/shareLeft)
	if err == nil && (s.free.Bytes < bytes || s.free.Files < files) {
		return tight{w.l.o.Dir}
	}
	return nil
}

// noRoom reports whether an operation failed because the disk is full. Such a failure must have a known fault.
// Otherwise the leader takes it for the job's fault, and the job waits for seconds before it tries another node.
func (w *watch) noRoom(err error) bool {
	var known tight
	return errors.As(err, &known) || supervisor.NoRoom(w.l.o.Dir, err)
}

// whenRoom repeats do for a while if tasks fill the disk, because the guard makes room. If others fill the disk, it
// returns at once, so the node reports the failure.
func (w *watch) whenRoom(ctx context.Context, do func() error) error {
	began, failed, again := time.Now(), int64(0), false
	for {
		err := do()
		if !errors.Is(err, unix.ENOSPC) {
			return err
		}
		if !w.noRoom(err) { // space was just freed, or it is another limit of the kernel
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
