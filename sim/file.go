package sim

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store/sqlite"
	"github.com/yi-json/synapse/store/sqlite/failing"
)

// This file runs the real store under some worlds: SQLite on a file, next to the model in memory. Both must agree at
// every write and every load. If the power fails during a write, the disk keeps an arbitrary part of the data that was
// not synced. When the file is opened again, it must contain the whole write or nothing of it.
//
// The file is real and in a temporary directory. Giving our own file system to SQLite's Go translation would require
// manual work on its C structures, including the log's shared memory. It is also not necessary. A transaction is synced
// before the next one begins, so a disk can lose only the part that the last one added to the log. The log's salts are
// random, and nothing in the world depends on them.

// file is the store of a scheduler that shares its store with nobody.
type file struct {
	w        *World
	folder   string
	opened   int // number of opens, so that each open uses a new file name
	kept     *sqlite.Store
	power    bool // the power fails at the next write
	troubles troubles
	backups  int
}

func (f *file) path() string { return filepath.Join(f.folder, fmt.Sprintf("store-%d.db", f.opened)) }

// openFile creates the store of a world that has a file.
func openFile(w *World) *file {
	// Use a file in memory if possible. The time that SQLite waits for a real disk appears on no simulated clock.
	folder, err := os.MkdirTemp("/dev/shm", "synapse-sim-")
	if err != nil {
		folder, err = os.MkdirTemp("", "synapse-sim-")
	}
	f := &file{w: w, folder: folder}
	if err == nil {
		err = f.open()
	}
	if err != nil {
		w.violate("S8 acknowledged-kept", "the file does not open: %v", err)
		return nil
	}
	return f
}

// close closes and removes the file.
func (f *file) close() {
	if f != nil {
		f.shut()
		_ = os.RemoveAll(f.folder)
	}
}

// shut closes the present file. The next open uses another name.
func (f *file) shut() {
	failing.Set(f.path(), nil)
	_ = f.kept.Close()
	f.opened++
}

// lead and apply repeat on the file what was done in memory. Both must give the same answer.
func (f *file) lead(holder string, epoch uint64) {
	if f == nil {
		return
	}
	if got, err := f.kept.Lead(holder); err != nil || got != epoch {
		f.w.violate("S8 acknowledged-kept", "the file gives epoch %d (%v), and memory %d", got, err, epoch)
	}
}

func (f *file) apply(epoch uint64, changes []actors.Change, verdicts []actors.Verdict, failed error) {
	if f == nil {
		return
	}
	got, err := f.kept.Apply(epoch, changes)
	if (err == nil) != (failed == nil) || !reflect.DeepEqual(got, verdicts) {
		f.w.violate("S8 acknowledged-kept", "the file answers %v (%v), and memory %v (%v)", got, err, verdicts, failed)
	}
}

// loseApply does a write during which the power fails, and restarts from the data on the disk.
func (f *file) loseApply(epoch uint64, changes []actors.Change) {
	log := f.path() + "-wal"
	db, before := f.read(f.path()), f.read(log)
	_, err := f.kept.Apply(epoch, changes)
	after, whole := f.read(log), f.read(f.path())
	if err == nil && bytes.HasPrefix(after, before) && bytes.Equal(db, whole) {
		after = append(before, f.torn(after[len(before):])...)
		f.w.count("store.torn", 1)
	}
	f.shut()
	f.write(f.path(), whole)
	f.write(f.path()+"-wal", after)
	f.reopen("a power loss")
}

func (f *file) reopen(after string) {
	if err := f.open(); err != nil {
		f.w.violate("S8 acknowledged-kept", "after %s the file does not open: %v", after, err)
		f.w.store.file = nil
		_ = os.RemoveAll(f.folder)
	}
}

// backUp copies the file while it is in use, and returns the path of the copy.
func (f *file) backUp() string {
	if f == nil {
		return ""
	}
	f.backups++
	path := filepath.Join(f.folder, fmt.Sprintf("backup-%d.db", f.backups))
	if err := f.kept.Backup(path); err != nil {
		f.w.violate("S8 acknowledged-kept", "no backup can be made: %v", err)
	}
	return path
}

// bringBack replaces the file with a backup, as an operator does.
func (f *file) bringBack(backup string) {
	if f == nil {
		return
	}
	f.shut()
	if err := sqlite.Restore(backup, f.path()); err != nil {
		f.w.violate("S8 acknowledged-kept", "a backup cannot be restored: %v", err)
	}
	f.reopen("a restore")
}

// torn returns the part of unsynced data that a disk keeps: all of it, the first part, or some of its sectors.
func (f *file) torn(written []byte) []byte {
	const sector = 512
	kept := bytes.Clone(written)
	switch f.w.toil.below(3) {
	case 0:
		return kept
	case 1:
		return kept[:f.w.toil.below(len(kept)+1)]
	}
	for at := 0; at < len(kept); at += sector {
		if f.w.toil.chance(0.1) {
			clear(kept[at:min(at+sector, len(kept))])
		}
	}
	return kept
}

func (f *file) read(path string) []byte {
	data, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		panic(err)
	}
	return data
}

func (f *file) write(path string, data []byte) {
	if err := os.WriteFile(path, data, 0o600); err != nil {
		panic(err)
	}
}

// agrees reports whether a leader would load the same from the file and from memory. If the file has already assigned
// the epoch, agrees uses the next one for the file.
func (f *file) agrees(epoch uint64) bool {
	mine, err := f.kept.Load(epoch)
	model, modelErr := f.w.store.kept.Load(f.w.store.kept.Epoch())
	if err != nil || modelErr != nil {
		return false
	}
	return mine.Arrival == model.Arrival && mine.UIDTurn == model.UIDTurn && same(mine.Jobs, model.Jobs) &&
		same(mine.Attempts, model.Attempts) && same(mine.Nodes, model.Nodes) && proto.Equal(mine.Queues, model.Queues) &&
		proto.Equal(mine.Policy, model.Policy) && same(unlearned(mine), unlearned(model))
}

func unlearned(l *actors.Loaded) (attempts []*messages.AttemptRecord) {
	for _, e := range l.Unlearned {
		attempts = append(attempts, e.Attempt)
	}
	return attempts
}

func same[M messages.Message](a, b []M) bool {
	for i := range min(len(a), len(b)) {
		if !proto.Equal(a[i], b[i]) {
			return false
		}
	}
	return len(a) == len(b)
}

// storePower cuts the power of the scheduler's host during a write.
func storePower(f *faults) bool {
	s := f.w.store
	if s.file == nil || s.file.power || f.w.leader() == nil {
		return false
	}
	s.file.power = true
	return true
}
