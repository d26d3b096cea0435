// Package sqlite keeps the leader's records in one SQLite file, for a cluster with one scheduler. It needs no
// installation and no server. A second process on the same file is refused.
//
// One connection writes and a few read. In WAL mode, neither waits for the other. A transaction is on disk before Apply
// returns (synchronous=FULL), and no reader sees it earlier.
//
// # Constraints of the database
//
// Unique indexes enforce one COMMIT per token, one open attempt per job, and one job per request and per ID, in
// addition to the rules that all stores share. One of those rules ensures that the ranks of one attempt do not exceed a
// device.
//
// The database does not enforce that two attempts never hold the same device, because its records may show two. A
// device is free on its node's evidence, which takes two ways. The ledger's version reports to the Scheduler that the
// device is free, and the exit reaches this store through the Job. The next attempt's COMMIT may overtake that write,
// or precede it in the same transaction. In between, the table shows two owners of a device that has one, and a
// constraint would refuse a legitimate COMMIT. Nothing in the records orders the two: tokens order decisions, not
// evidence. A deferred constraint ends with its transaction, while the overlap may span several. The node's ledger
// prevents double allocation, because only the node knows.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/yi-json/synapse/store"
)

// Store implements store.Store on one file.
type Store struct {
	path  string
	lock  *os.File
	reads *sql.DB
	write *writer // guarded by writing

	writing sync.Mutex
	broken  map[store.Rule]int     // guarded by writing
	holder  atomic.Pointer[string] // name under which this process led last; nil: it has not

	written        atomic.Uint64 // counts the writer's operations
	looked, rested atomic.Uint64 // values of written: at the last call of Rest, and at the last release

	// A call holds it for reading, Close for writing.
	calls  sync.RWMutex
	closed bool
}

const (
	driver  = "sqlite"
	readers = 4

	// Only the owner may read the file, because jobs contain their environment.
	fileMode = 0o600
)

// whileWriting is set on the connection that writes. A checkpoint copies the log into the file and stops the writer
// meanwhile. It copies a page once, however often it was written, so it runs once per 16 MiB.
var whileWriting = []string{
	"synchronous(full)", "wal_autocheckpoint(4000)", "cache_size(-65536)", "temp_store(memory)",
}

// Open opens the file, or creates it. It refuses a file that another process uses, that a newer program wrote, or that
// is damaged as a whole. Load sets single damaged records aside.
func Open(path string) (*Store, error) { return OpenBy(driver, path) }

// OpenBy is Open with another SQLite driver than the usual one, such as one whose disk fails.
func OpenBy(driver, path string) (*Store, error) {
	path, err := create(path)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	s := &Store{path: path, broken: map[store.Rule]int{}}
	if s.lock, err = lockFile(path); err != nil {
		return nil, err
	}
	if err := s.start(driver); err != nil {
		return nil, fmt.Errorf("store: open %s: %w", path, errors.Join(judged(err), s.letGo()))
	}
	return s, nil
}

// start connects, updates the schema, and reads the records that a leader needs. A damaged file must end the process at
// once, instead of causing retries later.
func (s *Store) start(driver string) (err error) {
	if s.write, err = newWriter(driver, source(s.path, whileWriting...)); err != nil {
		return err
	}
	if err = s.write.prepare(); err != nil {
		return err
	}
	if s.reads, err = sql.Open(driver, source(s.path, "query_only(on)")); err != nil {
		return err
	}
	s.reads.SetMaxOpenConns(readers)
	s.reads.SetMaxIdleConns(readers)
	_, _, _, err = s.live()
	return err
}

// create creates the file if needed, because SQLite would make it readable for all users. It returns the path without
// links, because the lock must be the same for every name.
func create(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return "", err
	}
	if err := f.Close(); err != nil {
		return "", err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", err
	}
	return path, syncFolder(path)
}

// syncFolder makes a file's name durable.
func syncFolder(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// source returns the name under which the driver opens the file, with the settings of each connection.
func source(path string, pragmas ...string) string {
	q := url.Values{"_pragma": append([]string{"busy_timeout(10000)"}, pragmas...)}
	u := url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}
	return u.String()
}

// enter begins a call. The caller must end it with s.calls.RUnlock.
func (s *Store) enter() error {
	s.calls.RLock()
	if s.closed {
		s.calls.RUnlock()
		return store.ErrClosed
	}
	return nil
}

// snapshot is a call that reads in one snapshot.
func (s *Store) snapshot(what string, read func(*sql.Tx) error) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.calls.RUnlock()
	return said(what, s.moment(read))
}

func (s *Store) moment(read func(*sql.Tx) error) error {
	tx, err := s.reads.BeginTx(context.Background(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	return errors.Join(read(tx), tx.Rollback())
}

// alone runs do with the single connection that writes.
func (s *Store) alone(what string, do func(*writer) error) error {
	s.written.Add(1)
	return s.resting(what, do)
}

// resting is like alone, but does not count as a write.
func (s *Store) resting(what string, do func(*writer) error) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.calls.RUnlock()
	s.writing.Lock()
	defer s.writing.Unlock()
	return said(what, do(s.write))
}

// asLeader runs a transaction as the leader of an epoch.
func (s *Store) asLeader(epoch uint64, what string, do func(*writer) error) error {
	return s.alone(what, func(w *writer) error {
		return w.led(epoch, s.holder.Load(), func() error { return do(w) })
	})
}

// said wraps an error with the operation that failed.
func said(what string, err error) error {
	if err != nil {
		return fmt.Errorf("store: %s: %w", what, judged(err))
	}
	return nil
}

// Close implements store.Store. It waits for the calls in progress.
func (s *Store) Close() error {
	s.calls.Lock()
	defer s.calls.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if err := s.letGo(); err != nil {
		return fmt.Errorf("store: close %s: %w", s.path, err)
	}
	return nil
}

// letGo closes everything that is open, the lock last.
func (s *Store) letGo() error {
	var errs []error
	if s.reads != nil {
		errs = append(errs, s.reads.Close())
	}
	if s.write != nil {
		errs = append(errs, s.write.close())
	}
	return errors.Join(append(errs, s.lock.Close())...)
}

// Broken counts the refused changes by rule.
func (s *Store) Broken() map[store.Rule]int {
	s.writing.Lock()
	defer s.writing.Unlock()
	return maps.Clone(s.broken)
}

func (s *Store) tally(draft *store.Draft) {
	s.writing.Lock()
	defer s.writing.Unlock()
	draft.Tally(s.broken)
}
