package launcher

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/yi-json/synapse/runtime/tree"
)

// This file owns what goes of what tasks left: what was discarded, what was kept long enough, and what is too much.
// That is taken from the owner of jobs that keeps most, oldest first: whoever fills the room does so with his own
// output. What is not forgotten yet, exit records above all, is never among it.

// discard takes a path away at once, and needs no room for that. Its removal may take long, and is prune's.
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
	path  string
	owner string // of what an earlier agent kept, or a leader that does not say, nobody: one owner like any other
	since time.Time
	bytes int64
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
	kept, held, total := l.kept(), map[string]int64{}, int64(0)
	for _, k := range kept {
		held[k.owner] += k.bytes
		total += k.bytes
	}
	drop := func(i int) {
		k := kept[i]
		if l.remove(k.path) { // one that stays is tried again by the next
			l.keepsNot(filepath.Base(k.path))
		}
		kept = slices.Delete(kept, i, i+1)
		held[k.owner] -= k.bytes
		total -= k.bytes
	}
	for len(kept) > 0 && time.Since(kept[0].since) >= l.o.KeepFor {
		drop(0)
	}
	for len(kept) > l.o.KeepTasks || len(kept) > 0 && total > keep {
		most := kept[0].owner // of two that keep as much, the one that kept something first
		for _, k := range kept {
			if held[k.owner] > held[most] {
				most = k.owner
			}
		}
		drop(slices.IndexFunc(kept, func(k leaving) bool { return k.owner == most }))
	}
}

// kept is what is kept of all tasks, the oldest first.
func (l *Launcher) kept() (all []leaving) {
	root := filepath.Join(l.o.Dir, keptDir)
	entries, _ := os.ReadDir(root) // it is there since New
	for _, e := range entries {
		path := filepath.Join(root, e.Name())
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		var of owner
		if text, err := os.ReadFile(filepath.Join(path, ownerFile)); err == nil {
			_ = json.Unmarshal(text, &of) // loadKept has seen that it can be read
		}
		used, err := tree.Measure(path, func(sofar tree.Usage) bool { return l.isOpen() && weight(sofar) <= l.o.KeepBytes })
		if err != nil && !errors.Is(err, tree.ErrStopped) { // more than all may keep is enough to know
			l.o.Log.Info("What is kept cannot be measured: %v", err)
		}
		all = append(all, leaving{path, of.Name, info.ModTime(), weight(used)})
	}
	slices.SortStableFunc(all, func(a, b leaving) int { return a.since.Compare(b.since) })
	return all
}
