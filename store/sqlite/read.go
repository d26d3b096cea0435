package sqlite

import (
	"database/sql"
	"errors"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/topology"
)

// This file owns the reads. Each is one snapshot, and neither waits for a writer nor delays one.

// Load implements store.Store.
func (s *Store) Load(epoch uint64) (*actors.Loaded, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.calls.RUnlock()
	loaded, now, holder, err := s.live()
	if err != nil {
		return nil, said("load", err)
	}
	if h := s.holder.Load(); epoch == 0 || epoch != now || h == nil || *h != holder {
		return nil, store.ErrDeposed
	}
	return &loaded, nil
}

// live reads the live jobs, and the leader that has the epoch.
func (s *Store) live() (loaded actors.Loaded, epoch uint64, holder string, err error) {
	err = s.moment(func(tx *sql.Tx) error {
		var arrival, turn uint64
		if err := tx.QueryRow("SELECT epoch, holder, arrival, uid_turn FROM leader").
			Scan(&epoch, &holder, &arrival, &turn); err != nil {
			return err
		}
		found := store.NewLiving()
		err := liveRows(tx, found)
		loaded = found.Loaded(arrival, turn)
		return err
	})
	return loaded, epoch, holder, err
}

const (
	liveJobs = `SELECT id, owner, record FROM job INDEXED BY job_live WHERE live = 1`
	// liveAttempts reads the latest attempt of each live job, and earlier ones with unconfirmed exits. CROSS JOIN keeps
	// the order of the tables, so that finished jobs are not scanned.
	liveAttempts = `SELECT a.job, a.epoch, a.counter, a.record FROM job j INDEXED BY job_live CROSS JOIN attempt a ON a.job = j.id
		WHERE j.live = 1 AND (a.owes = 1 OR NOT EXISTS
			(SELECT 1 FROM attempt b WHERE b.job = a.job AND (b.epoch, b.counter) > (a.epoch, a.counter)))`
)

// liveRows reads all rows that a leader needs, and checks each record.
func liveRows(tx *sql.Tx, found *store.Living) error {
	job, attempt, node := store.LiveRows[sql.RawBytes](found)
	if err := query(tx, liveJobs, job); err != nil {
		return err
	}
	if err := query(tx, liveAttempts, attempt); err != nil {
		return err
	}
	if err := query(tx, "SELECT id, record FROM node ORDER BY id", node); err != nil {
		return err
	}
	if err := policyRows(tx, found); err != nil {
		return err
	}
	return query(tx, queuesRecord, store.QueuesRow[sql.RawBytes](found))
}

func query(tx *sql.Tx, text string, found func(store.Row) error, args ...any) error {
	rows, err := tx.Query(text, args...)
	if err != nil {
		return err
	}
	return drain(rows, found)
}

// Job implements store.Store.
func (s *Store) Job(id topology.JobID) (*messages.JobRecord, []*messages.AttemptRecord, error) {
	return s.read("SELECT id, record FROM job WHERE id = ? AND record IS NOT NULL", string(id))
}

// Requested implements store.Store.
func (s *Store) Requested(owner, requestID string) (*messages.JobRecord, []*messages.AttemptRecord, error) {
	return s.read("SELECT id, record FROM job WHERE owner = ? AND request_id = ? AND request_id <> ''", owner, requestID)
}

// read reads one job with all its attempts.
func (s *Store) read(text string, key ...any) (job *messages.JobRecord, attempts []*messages.AttemptRecord, err error) {
	err = s.snapshot("read a job", func(tx *sql.Tx) error {
		if job, err = store.ScanJob[[]byte](tx.QueryRow(text, key...)); err != nil {
			return err
		}
		return query(tx, "SELECT job, epoch, counter, record FROM attempt WHERE job = ? ORDER BY epoch, counter",
			func(row store.Row) error {
				attempt, err := store.ScanAttempt[sql.RawBytes](row)
				attempts = append(attempts, attempt)
				return err
			}, job.Id)
	})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil, store.ErrNotFound
	case err != nil:
		return nil, nil, err
	}
	return job, attempts, nil
}

// Finished implements store.Store.
func (s *Store) Finished(after store.Position, limit int) ([]*messages.JobRecord, error) {
	var out []*messages.JobRecord
	err := s.snapshot("read finished jobs", func(tx *sql.Tx) error {
		return query(tx, `SELECT id, record FROM job INDEXED BY job_finished WHERE is_over = 1 AND (finished_unix_ms, id) > (?, ?)
			ORDER BY finished_unix_ms, id LIMIT ?`, func(row store.Row) error {
			job, err := store.ScanJob[sql.RawBytes](row)
			out = append(out, job)
			return err
		}, after.FinishedUnixMs, string(after.Job), max(limit, 0))
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
