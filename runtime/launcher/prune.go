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

// This file removes the files of finished tasks: discarded files, files that were kept long enough, and files above the
// limits. For the limits, it removes the oldest files of the owner who keeps most. An owner who fills the disk
// therefore loses only his own output. It never touches tasks that are not forgotten yet, and above all their exit
// records.

// discard moves a path away at once, which needs no disk space. prune removes it later, which may take long.
func (l *Launcher) discard(path string) {
	if err := os.Remove(path); err == nil || os.IsNotExist(err) {
		return
	}
	err := os.Rename(path, filepath.Join(l.o.Dir, goneDir, rand.Text()))
	if err != nil && !os.IsNotExist(err) {
		l.remove(path) // it is on a different file system
	}
}

// weight returns the size of a tree for the limits. Empty files and directories count too, because they use space.
func weight(u tree.Usage) int64 { return max(u.Bytes, u.Files<<10) }

func (l *Launcher) remove(path string) bool {
	err := tree.RemoveWhile(path, l.isOpen)
	if err != nil && l.isOpen() {
		l.o.Log.Info("A removal failed and is retried later: %v", err)
	}
	return err == nil
}

// leaving describes the kept files of one task.
type leaving struct {
	name     string // of its folder in keptDir
	owner    string // empty for files of an earlier agent or of a leader without owners; these count as one owner
	since    time.Time
	bytes    int64
	measured bool
}

// leavings holds the kept files of all tasks by owner, the oldest first. It is read from the disk once, when the agent
// starts. The cost of a job must not grow with the number of earlier jobs.
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

// measure notes the size of an entry.
func (l leavings) measure(k leaving, bytes int64) {
	if i := slices.IndexFunc(l[k.owner], func(o leaving) bool { return o.name == k.name }); i >= 0 {
		l[k.owner][i].bytes, l[k.owner][i].measured = bytes, true
	}
}

// unmeasured returns the entries of unknown size. New entries are at the end.
func (l leavings) unmeasured() (all []leaving) {
	for _, of := range l {
		for i := len(of) - 1; i >= 0 && !of[i].measured; i-- {
			all = append(all, of[i])
		}
	}
	return all
}

// limits bounds the kept files.
type limits struct {
	bytes  int64
	tasks  int
	before time.Time // files kept since then or longer are removed
}

// excess returns the entries to remove so that the rest is within the limits, in order. An entry that cannot be removed
// counts as removed, so no other entry is removed instead. The next call tries it again.
func (l leavings) excess(most limits) (gone []leaving) {
	rest, held, total, count := maps.Clone(l), map[string]int64{}, int64(0), 0
	for owner, all := range rest {
		for _, k := range all {
			held[owner] += k.bytes
		}
		total += held[owner]
		count += len(all)
	}
	// first returns the owner whose output is removed first. Of two equal owners, it returns the one with the
	// oldest entry.
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

// holds reports whether one of the launcher's directories is not empty.
func (l *Launcher) holds(dir string) bool {
	entries, _ := os.ReadDir(filepath.Join(l.o.Dir, dir)) // New made the directory
	return len(entries) > 0
}

// prune removes discarded files, files that were kept long enough, and files above the limits. If another call already
// waits for its turn, that call covers this one.
func (l *Launcher) prune() {
	if l.pruneWaits.CompareAndSwap(false, true) {
		l.pruneTo(l.o.KeepBytes)
	}
}

func (l *Launcher) pruneTo(keep int64) {
	l.pruning.Lock()
	defer l.pruning.Unlock()
	l.pruneWaits.Store(false)
	discarded, _ := os.ReadDir(filepath.Join(l.o.Dir, goneDir)) // New made the directory
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

// measureKept measures the files that were kept after the last call.
func (l *Launcher) measureKept() {
	l.mu.Lock()
	fresh := l.kept.unmeasured()
	l.mu.Unlock()
	for _, k := range fresh {
		used, err := tree.Measure(filepath.Join(l.o.Dir, keptDir, k.name),
			func(sofar tree.Usage) bool { return l.isOpen() && weight(sofar) <= l.o.KeepBytes })
		if err != nil && !errors.Is(err, tree.ErrStopped) { // a size above the limit of all kept files needs no exact number
			l.o.Log.Info("The disk usage of finished tasks cannot be measured: %v", err)
		}
		l.mu.Lock()
		l.kept.measure(k, weight(used))
		l.mu.Unlock()
	}
}
