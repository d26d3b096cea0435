package launcher

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/yi-json/synapse/runtime/supervisor"
	"github.com/yi-json/synapse/runtime/tree"
)

// This file measures the disk usage of each task: its scratch directory, writable layer and output. It measures
// repeatedly, and ends a task that exceeds its limit.
//
// To measure is to walk through a tree, which may have millions of files. A walk therefore works for a while and rests
// for much longer. Only one walk works at a time, and all walks together use a tenth of a processor. A small tree is
// done before the first rest. An urgent walk begins at once and does not rest. A walk is urgent if the disk's free
// space has fallen by enough to put the task over its limit, or if the guard waits for the result. Urgent walks may use
// two seconds of a processor at once, and a quarter of it after that. A task that makes and removes files without end
// therefore cannot keep the agent busier. A quota of the file system would be cheaper, but few file systems have one.
//
// While the free space of the disk stays the same, tasks write little, and regular walks are rare. Most tasks of most
// nodes are in this state, and their walks were most of the agent's work.

const (
	lookEvery = time.Second
	// calmEvery is the interval of walks while the free space of the disk changes by less than calmBytes and calmFiles.
	calmEvery            = 8 * time.Second
	calmBytes, calmFiles = 1 << 20, 64
	workFor              = 10 * time.Millisecond
	restFor              = 90 * time.Millisecond
	restShare            = int64((workFor + restFor) / workFor)
	// maxEffort bounds the work of urgent walks without a rest. One effortShare-th of the elapsed time is added to
	// it.
	maxEffort   = 2 * time.Second
	effortShare = 4
)

// effort tracks how long urgent walks may still work.
type effort struct {
	mu    sync.Mutex
	spent time.Duration
	at    time.Time
}

// spend subtracts the work until now, and reports whether any effort is left.
func (e *effort) spend(now time.Time, worked time.Duration) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.spent = max(e.spent-now.Sub(e.at)/effortShare, 0) + worked
	e.at = now
	return e.spent < maxEffort
}

// diskUse holds the disk use of a task. The field allowed is written before the task is watched, or its space reserved.
type diskUse struct {
	allowed  tree.Usage
	promised atomic.Bool  // the space is reserved, whatever other tasks keep
	walked   atomic.Int64 // when the last complete walk began
	watched  atomic.Bool
	told     bool        // it was told to end
	over     atomic.Bool // the task has ended …
	settled  atomic.Bool // … and was measured once after that

	mu      sync.Mutex
	used    tree.Usage
	before  tree.Usage // the usage before the disk became short …
	lately  tree.Usage // … and a second later
	removed bool
}

// walkedBefore reports whether the measurement of a task is older than wanted, and a newer walk will follow.
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

// remove notes that no file is left.
func (d *diskUse) remove() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.used, d.removed = tree.Usage{}, true
}

// noteAtLeast notes the count of a walk that has not finished.
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

// walk watches one task.
type walk struct {
	w     *watch
	t     *task
	began time.Time  // start of the last walk
	free  tree.Usage // the most since the last count of files without a name
	found tree.Usage // the free space when the last walk began
	room  tree.Usage // half of the increase that would put the task over its limit

	since  time.Time     // when it continued after its last rest
	worked time.Duration // time worked before that
	before tree.Usage    // the trees that are done
	last   bool          // the task has ended, so the walk decides nothing
}

// watchOver measures a task until it has ended, and once more after that.
func (w *watch) watchOver(t *task) {
	k := &walk{w: w, t: t, free: *w.free.Load()}
	for !t.disk.over.Load() && w.l.isOpen() {
		due := max(lookEvery, time.Duration(w.round.Load()*restShare))
		if k.calm() {
			due = max(due, calmEvery)
		}
		if time.Since(k.began) >= due || k.urgent() && w.effort.spend(time.Now(), 0) {
			k.measure()
		}
		select {
		case <-w.l.done:
		case <-time.After(guardEvery - time.Since(w.began)%guardEvery): // all tasks at one moment, which wakes the agent once
		}
	}
	k.last = true
	k.measure()
	t.disk.settled.Store(true)
	w.round.Add(-int64(k.worked))
}

// urgent reports whether a walk must begin at once and not rest.
func (k *walk) urgent() bool {
	now := *k.w.free.Load()
	k.free = tree.Usage{Bytes: max(k.free.Bytes, now.Bytes), Files: max(k.free.Files, now.Files)}
	return k.t.disk.walked.Load() < k.w.wanted.Load() ||
		k.free.Bytes-now.Bytes > k.room.Bytes || k.free.Files-now.Files > k.room.Files
}

// calm reports whether the free space is about the same as at the last walk. Files that a task writes while others are
// removed are found at the next rare walk.
func (k *walk) calm() bool {
	now := k.w.free.Load()
	bytes, files := now.Bytes-k.found.Bytes, now.Files-k.found.Files
	return max(bytes, -bytes) < calmBytes && max(files, -files) < calmFiles
}

// measure walks through the files of a task, and ends the task if it exceeds its limit.
func (k *walk) measure() {
	k.w.walking.Lock()
	defer k.w.walking.Unlock()
	began, cost, d := k.w.now(), k.worked, &k.t.disk
	k.began, k.since, k.worked, k.before = time.Now(), time.Now(), 0, tree.Usage{}
	k.found = *k.w.free.Load()
	k.setRoom(d.usage())
	deep := false
	for _, dir := range []string{k.t.Scratch, k.t.home} { // home contains the layer and the output
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

// setRoom computes from the current usage how much more the task may add before the next measurement.
func (k *walk) setRoom(used tree.Usage) {
	allowed := k.t.disk.allowed
	k.room = tree.Usage{Bytes: (allowed.Bytes - used.Bytes) / 2, Files: (allowed.Files - used.Files) / 2}
}

// judge ends the task if it exceeds its limit.
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

// goOn is called by a walk at intervals. It rests, or returns false to end the walk.
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

// allow sets the task's limit once, from the free space without reservations when the task is about to start. A task
// with reserved space already has its limit.
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

// watch begins to watch a running task, once. The task may have been started by an earlier agent.
func (t *task) watch() {
	if t.disk.watched.Load() {
		return
	}
	if t.disk.allowed == (tree.Usage{}) { // an agent without this watch started it
		t.allow()
	}
	t.disk.watched.Store(true)
	t.l.background(func() { t.l.watch.watchOver(t) })
}

// endForDisk ends a task that exceeds its disk limit.
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
		t.l.o.Log.Info("Task %v could not be stopped because of disk usage: %v", t.Key, err)
	}
}

// onNoRoom removes the scratch directory of an ended task, because the disk is full.
func (t *task) onNoRoom() {
	if t.phase == phaseGone && !t.forgotten {
		t.l.o.Log.Info("The disk is nearly full: the scratch directory of finished task %v is removed", t.Key)
		t.l.discard(t.Scratch)
		t.disk.remove()
	}
}
