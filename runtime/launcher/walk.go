package launcher

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/yi-json/synapse/runtime/supervisor"
	"github.com/yi-json/synapse/runtime/tree"
)

// This file owns the watch over what each task keeps in its scratch directory, writable layer and output: it is
// measured again and again, and the task ends when that is more than it may keep.
//
// To measure is to walk through a tree, and a tree may have millions of files. So a walk works for a while and rests
// for much longer, only one works at a time, and all of them together begin again only so often that they take a tenth
// of a processor; a small tree is done before the first rest. A walk that is urgent begins at once and does not rest:
// the disk's free space has fallen by what could take the task over its limit, or the guard waits to judge. Even so
// urgent walks have two seconds of a processor at once and a quarter of it from then on, whatever tasks do: one that
// makes and removes files without end keeps the agent no busier. A quota of the file system would cost nothing, but few
// have one.

const (
	lookEvery = time.Second
	workFor   = 10 * time.Millisecond
	restFor   = 90 * time.Millisecond
	restShare = int64((workFor + restFor) / workFor)
	// maxEffort is how long urgent walks may work without a rest; a part of the time that passes is added to it.
	maxEffort   = 2 * time.Second
	effortShare = 4
)

// effort is how long urgent walks may still work.
type effort struct {
	mu    sync.Mutex
	spent time.Duration
	at    time.Time
}

// spend subtracts what was worked until now, and reports whether anything is left.
func (e *effort) spend(now time.Time, worked time.Duration) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.spent = max(e.spent-now.Sub(e.at)/effortShare, 0) + worked
	e.at = now
	return e.spent < maxEffort
}

// diskUse holds the disk use of a task. The field allowed is written before the task is watched, or its space promised.
type diskUse struct {
	allowed  tree.Usage
	promised atomic.Bool  // it has that room, whatever others keep
	walked   atomic.Int64 // when the last walk that came to its end began
	watched  atomic.Bool
	told     bool        // to end
	over     atomic.Bool // the task has ended …
	settled  atomic.Bool // … and was walked through once more

	mu      sync.Mutex
	used    tree.Usage
	before  tree.Usage // what it kept before the disk got short …
	lately  tree.Usage // … and a second later
	removed bool
}

// walkedBefore reports whether what is known of a task is older than that, and a newer walk is still to come.
func (d *diskUse) walkedBefore(wanted int64) bool {
	return d.watched.Load() && !d.settled.Load() && d.walked.Load() < wanted
}

func (d *diskUse) note(used tree.Usage) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.removed {
		d.used = used
	}
}

// remove notes that nothing is left.
func (d *diskUse) remove() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.used, d.removed = tree.Usage{}, true
}

// noteAtLeast takes the count of a walk that is still under way.
func (d *diskUse) noteAtLeast(used tree.Usage) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.removed {
		return
	}
	d.used = tree.Usage{Bytes: max(d.used.Bytes, used.Bytes), Files: max(d.used.Files, used.Files)}
}

func (d *diskUse) usage() tree.Usage {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.used
}

func (d *diskUse) exceeded(used tree.Usage) bool {
	return used.Bytes > d.allowed.Bytes || used.Files > d.allowed.Files
}

// walk is the watch over one task.
type walk struct {
	w     *watch
	t     *task
	began time.Time  // the last one
	free  tree.Usage // the most since the files without a name were counted last
	room  tree.Usage // half of what would take the task over its limit

	since  time.Time     // when it went back to work after its last rest
	worked time.Duration // before that
	before tree.Usage    // of the trees that are done
	last   bool          // the task has ended: nothing is decided by it any more
}

// watchOver measures a task until it has ended, and what it left then.
func (w *watch) watchOver(t *task) {
	k := &walk{w: w, t: t, free: *w.free.Load()}
	for !t.disk.over.Load() && w.l.isOpen() {
		due := max(lookEvery, time.Duration(w.round.Load()*restShare))
		if time.Since(k.began) >= due || k.urgent() && w.effort.spend(time.Now(), 0) {
			k.measure()
		}
		select {
		case <-w.l.done:
		case <-time.After(guardEvery):
		}
	}
	k.last = true
	k.measure()
	t.disk.settled.Store(true)
	w.round.Add(-int64(k.worked))
}

// urgent reports whether a walk must begin, and not rest.
func (k *walk) urgent() bool {
	now := *k.w.free.Load()
	k.free = tree.Usage{Bytes: max(k.free.Bytes, now.Bytes), Files: max(k.free.Files, now.Files)}
	return k.t.disk.walked.Load() < k.w.wanted.Load() ||
		k.free.Bytes-now.Bytes > k.room.Bytes || k.free.Files-now.Files > k.room.Files
}

// measure walks through what a task keeps, and ends the task as soon as that is too much.
func (k *walk) measure() {
	k.w.walking.Lock()
	defer k.w.walking.Unlock()
	began, cost, d := k.w.now(), k.worked, &k.t.disk
	k.began, k.since, k.worked, k.before = time.Now(), time.Now(), 0, tree.Usage{}
	k.setRoom(d.usage())
	deep := false
	for _, dir := range []string{k.t.Scratch, k.t.home} { // its layer and its output are in the latter
		sum, err := tree.Measure(dir, k.goOn)
		k.before = k.before.Plus(sum)
		deep = deep || errors.Is(err, tree.ErrDeep)
		if err != nil && !deep && !errors.Is(err, tree.ErrStopped) {
			k.w.l.o.Log.Info("The disk usage of task %v is only partly known: %v", k.t.Key, err)
		}
	}
	if !k.last && k.urgent() && !d.exceeded(k.before) {
		now := *k.w.free.Load()
		k.before.Bytes += k.t.unlinkedBytes(func() bool { return k.goOn(tree.Usage{}) })
		k.free = now
	}
	last := time.Since(k.since)
	k.worked += last
	k.w.round.Add(int64(k.worked - cost))
	k.w.effort.spend(time.Now(), last)
	if d.over.Load() && !k.last || !k.w.l.isOpen() {
		return
	}
	d.note(k.before)
	d.walked.Store(began)
	k.setRoom(k.before)
	k.judge(deep)
}

// setRoom computes from what the task keeps how much more it may add before it must be measured again.
func (k *walk) setRoom(used tree.Usage) {
	allowed := k.t.disk.allowed
	k.room = tree.Usage{Bytes: (allowed.Bytes - used.Bytes) / 2, Files: (allowed.Files - used.Files) / 2}
}

// judge ends the task if it keeps too much.
func (k *walk) judge(deep bool) {
	t, kept, allowed := k.t, k.before, k.t.disk.allowed
	switch {
	case kept.Bytes > allowed.Bytes:
		t.post(func() { t.endForDisk(supervisor.DiskBytes, kept.Bytes, allowed.Bytes) })
	case kept.Files > allowed.Files:
		t.post(func() { t.endForDisk(supervisor.DiskFiles, kept.Files, allowed.Files) })
	case deep: // the agent cannot walk through directories nested this deep
		t.post(func() { t.endForDisk(supervisor.DiskFiles, kept.Files, tree.MaxDepth) })
	}
}

// goOn is called by a walk now and then. It rests there, or ends the walk.
func (k *walk) goOn(sofar tree.Usage) bool {
	sofar = sofar.Plus(k.before)
	d := &k.t.disk
	if !k.w.l.isOpen() || !k.last && (d.exceeded(sofar) || d.over.Load()) {
		return false
	}
	worked := time.Since(k.since)
	if worked < workFor {
		return true
	}
	k.worked += worked
	d.noteAtLeast(sofar)
	rests := !k.urgent() || !k.w.effort.spend(time.Now(), worked)
	k.w.walking.Unlock()
	if rests {
		time.Sleep(restFor)
	}
	k.w.walking.Lock()
	k.since = time.Now()
	return true
}

// allow decides once what the task may keep, by what is free when it is about to start and promised to nobody. A task
// with a limit of its own has that already.
func (t *task) allow() {
	if t.disk.promised.Load() {
		return
	}
	s, err := spaceOf(t.l.o.Dir)
	if err != nil {
		t.l.o.Log.Info("Task %v has no disk limit except the needs of other tasks: %v", t.Key, err)
		s.free = tree.Usage{Bytes: shareOfFree * manyFiles, Files: shareOfFree * manyFiles}
	}
	promised := t.l.promisedBeside(t)
	s.free.Bytes, s.free.Files = s.free.Bytes-promised.Bytes, s.free.Files-promised.Files
	t.disk.allowed = s.allowance(t.Spec)
}

// watch begins the watch over a task that runs, or that an earlier agent saw run, once.
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
		t.l.o.Log.Info("Task %v of job %s is stopped because of disk usage: %s, %d of "+
			"%d", t.Key, t.Job, why, kept, limit)
	}
	if err := t.link.EndForDisk(why, kept, limit); err != nil {
		t.l.o.Log.Info("Task %v could not be asked to stop because of disk usage: %v", t.Key, err)
	}
}

// onNoRoom removes what an ended task left in its scratch directory, because the disk is full.
func (t *task) onNoRoom() {
	if t.phase == phaseGone && !t.forgotten {
		t.l.o.Log.Info("The disk is nearly full: the scratch directory of finished task %v is removed", t.Key)
		t.l.discard(t.Scratch)
		t.disk.remove()
	}
}
