package sim

import (
	"errors"
	"reflect"
	"strings"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/store/sqlite"
	"github.com/yi-json/synapse/store/sqlite/failing"
)

// This file simulates a full disk and I/O errors under the store's file. The store may report an error although the
// write was done. The file must contain the whole write or nothing of it, and continue.

// troubles holds the faults of a file's disk.
type troubles struct {
	full bool // no write succeeds until an operator frees space
	next bool // the next write will meet an error …
	once bool // … which this write meets: one of its statements fails, done or not
}

var (
	errFull = errors.New("database or disk is full")
	errIO   = errors.New("disk I/O error")
)

// fail decides about one statement. On a full disk a write fails at COMMIT at the latest, because only COMMIT must grow
// the log.
func (f *file) fail(text string) (instead, after error) {
	last := text == "COMMIT"
	switch {
	case !f.troubles.full && !f.troubles.once, strings.HasPrefix(text, "ROLLBACK"):
		return nil, nil
	case f.troubles.full && strings.HasPrefix(text, "BEGIN"), !last && !f.w.toil.chance(0.25):
		return nil, nil
	}
	if f.troubles.full {
		return errFull, nil
	}
	f.troubles.once = false
	if f.w.toil.chance(0.5) {
		return nil, errIO
	}
	return errIO, nil
}

// failing reports whether a write would now meet a failing disk.
func (f *file) failing() bool { return f != nil && (f.troubles.full || f.troubles.next) }

// open opens the file over a disk that may fail.
func (f *file) open() (err error) {
	f.kept, err = sqlite.OpenBy(failing.Driver, f.path())
	if err == nil {
		failing.Set(f.path(), f.fail)
	}
	return err
}

// commitFailing lets the file decide whether a write on a failing disk was done. The model follows.
func (x *storePort) commitFailing(epoch, ticket uint64, changes []actors.Change) actors.Applied {
	s := x.s
	s.file.troubles.next, s.file.troubles.once = false, s.file.troubles.next
	got, err := s.file.kept.Apply(epoch, changes)
	s.file.troubles.once = false
	leads := s.kept.Epoch()
	switch {
	case errors.Is(err, store.ErrDeposed):
		return actors.Applied{Ticket: ticket, Deposed: true}
	case err != nil && s.file.agrees(leads):
		s.w.count("store.unwritten", 1)
		return actors.Applied{Ticket: ticket, Err: err.Error()}
	}
	verdicts, modelErr := x.held().Apply(epoch, changes)
	s.kept.Sync()
	switch {
	case !s.file.agrees(leads), err == nil && (modelErr != nil || !reflect.DeepEqual(got, verdicts)):
		s.w.violate("S8 acknowledged-kept", "after an error of the disk (%v) the file has neither the whole "+
			"of the last write nor nothing of it", err)
	case err != nil:
		s.w.count("store.written", 1)
	}
	s.w.books.writeAll(x.proc, epoch, changes, verdicts)
	if err != nil {
		return actors.Applied{Ticket: ticket, Err: err.Error()}
	}
	return actors.Applied{Ticket: ticket, Verdicts: verdicts}
}

// spared suspends the faults of the disk until the caller calls the returned function.
func (f *file) spared() func() {
	was := f.troubles
	f.troubles = troubles{}
	return func() { f.troubles = was }
}

// refused returns the error for a process that tries to lead and cannot write.
func (f *file) refused(holder string) error {
	if f == nil || !f.troubles.full {
		return nil
	}
	epoch, err := f.kept.Lead(holder)
	if err == nil {
		f.w.violate("S8 acknowledged-kept", "the file gives epoch %d on a disk that is full", epoch)
	}
	return err
}

// storeFull fills the disk of the scheduler's host for a while.
func storeFull(f *faults) bool {
	s := f.w.store
	if s.file == nil || s.file.troubles.full {
		return false
	}
	d := f.w.luck.skewed(time.Second, min(5*time.Minute, 2*f.w.draw.Pace))
	f.w.say("the store's disk is full for %s", d)
	s.file.troubles.full = true
	f.until(d, func() {
		if s.file != nil {
			s.file.troubles.full = false
		}
	})
	return true
}

// storeIO makes one write meet a failing disk.
func storeIO(f *faults) bool {
	s := f.w.store
	if s.file == nil || s.file.troubles.next || f.w.leader() == nil {
		return false
	}
	s.file.troubles.next = true
	return true
}
