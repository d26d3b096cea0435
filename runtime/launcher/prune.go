package launcher

import (
	"cmp"
	"crypto/rand"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/yi-json/synapse/runtime/tree"
)

// This file owns what goes of what tasks left: what was discarded, what was kept long enough, and what is too much.
// That is taken from the owner of jobs that keeps most, oldest first: whoever fills the room does so with his own
// output. What is not forgotten yet, exit records above all, is never among it.

// discard takes a path away at once, and needs no room for that. Its removal may take long, and is left to prune.
func (l *Launcher) discard(path string) {
	if err := os.Remove(path); err == nil || os.IsNotExist(err) {
		return
	}
	err := os.Rename(path, filepath.Join(l.o.Dir, goneDir, rand.Text()))
	if err != nil && !os.IsNotExist(err) {
		l.remove(path) // one of its own disk
	}
}

// weight is how much something counts towards what may be kept. Empty files and directories take room of their own
// kind.
func weight(u tree.Usage) int64 { return max(u.Bytes, u.Files<<10) }

func (l *Launcher) remove(path string) bool {
	err := tree.RemoveWhile(path, l.isOpen)
	if err != nil && l.isOpen() {
		l.o.Log.Info("It is tried again later: %v", err)
	}
	return err == nil
}

// leaving is what is kept of one task.
type leaving struct {
	name     string // of its folder in keptDir
	owner    string // of what an earlier agent kept, or a leader that does not say, nobody: one owner like any other
	since    time.Time
	bytes    int64
	measured bool
}

// leavings are what is kept of all tasks, each owner's the oldest first. They are read from the disk once, when the
// agent starts: what a job costs must not grow with those before it.
type leavings map[string][]leaving

func (l leavings) add(k leaving) { l[k.owner] = append(l[k.owner], k) }

func (l leavings) remove(name string) {
	for owner, all := range l {
		if i := slices.IndexFunc(all, func(k leaving) bool { return k.name == name }); i >= 0 {
			if l[owner] = slices.Delete(all, i, i+1); len(all) == 1 {
				delete(l, owner)
			}
			return
		}
	}
}

// measure notes how much of something there is.
func (l leavings) measure(k leaving, bytes int64) {
	if i := slices.IndexFunc(l[k.owner], func(o leaving) bool { return o.name == k.name }); i >= 0 {
		l[k.owner][i].bytes, l[k.owner][i].measured = bytes, true
	}
}

// unmeasured are those of which it is not known yet how much there is. What is new is at the end.
func (l leavings) unmeasured() (all []leaving) {
	for _, of := range l {
		for i := len(of) - 1; i >= 0 && !of[i].measured; i-- {
			all = append(all, of[i])
		}
	}
	return all
}

// limits is how much may be kept.
type limits struct {
	bytes  int64
	tasks  int
	before time.Time // what is kept since then or longer goes
}

// excess is what has to go for the limits to be kept, in its order. What is tried in vain is not tried instead of
// another: it counts as gone, and is here again the next time.
func (l leavings) excess(most limits) (gone []leaving) {
	rest, held, total, count := maps.Clone(l), map[string]int64{}, int64(0), 0
	for owner, all := range rest {
		for _, k := range all {
			held[owner] += k.bytes
		}
		total += held[owner]
		count += len(all)
	}
	// first is the owner whose output goes first; of two alike the one that kept something first.
	first := func(before func(a, b string) int) string {
		return slices.MinFunc(slices.Collect(maps.Keys(rest)), func(a, b string) int {
			return cmp.Or(before(a, b), rest[a][0].since.Compare(rest[b][0].since), cmp.Compare(a, b))
		})
	}
	drop := func(owner string) {
		k := rest[owner][0]
		gone = append(gone, k)
		held[owner] -= k.bytes
		total -= k.bytes
		count--
		if rest[owner] = rest[owner][1:]; len(rest[owner]) == 0 {
			delete(rest, owner)
		}
	}
	for count > 0 {
		oldest := first(func(string, string) int { return 0 })
		if rest[oldest][0].since.After(most.before) {
			break
		}
		drop(oldest)
	}
	for count > most.tasks || count > 0 && total > most.bytes {
		drop(first(func(a, b string) int { return cmp.Compare(held[b], held[a]) }))
	}
	return gone
}

// holds reports whether there is anything in one of the launcher's directories.
func (l *Launcher) holds(dir string) bool {
	entries, _ := os.ReadDir(filepath.Join(l.o.Dir, dir)) // it is there since New
	return len(entries) > 0
}

// prune removes what was discarded, what has been kept long enough, and what is too much. Where one waits for its turn
// already it will see all that the next would.
func (l *Launcher) prune() {
	if l.pruneWaits.CompareAndSwap(false, true) {
		l.pruneTo(l.o.KeepBytes)
	}
}

func (l *Launcher) pruneTo(keep int64) {
	l.pruning.Lock()
	defer l.pruning.Unlock()
	l.pruneWaits.Store(false)
	discarded, _ := os.ReadDir(filepath.Join(l.o.Dir, goneDir)) // it is there since New
	for _, e := range discarded {
		l.remove(filepath.Join(l.o.Dir, goneDir, e.Name()))
	}
	l.measureKept()
	l.mu.Lock()
	gone := l.kept.excess(limits{keep, l.o.KeepTasks, time.Now().Add(-l.o.KeepFor)})
	l.mu.Unlock()
	for _, k := range gone {
		if l.remove(filepath.Join(l.o.Dir, keptDir, k.name)) {
			l.keepsNot(k.name)
		}
	}
}

// measureKept finds out how much there is of what was put aside since.
func (l *Launcher) measureKept() {
	l.mu.Lock()
	fresh := l.kept.unmeasured()
	l.mu.Unlock()
	for _, k := range fresh {
		used, err := tree.Measure(filepath.Join(l.o.Dir, keptDir, k.name),
			func(sofar tree.Usage) bool { return l.isOpen() && weight(sofar) <= l.o.KeepBytes })
		if err != nil && !errors.Is(err, tree.ErrStopped) { // more than all may keep is enough to know
			l.o.Log.Info("What is kept cannot be measured: %v", err)
		}
		l.mu.Lock()
		l.kept.measure(k, weight(used))
		l.mu.Unlock()
	}
}
