package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/topology"
)

// This file owns the reads. Each sees one moment, and never waits for a writer
// nor makes one wait.

// snapshot reads as of one moment.
func (s *Store) snapshot(read func(*sql.Tx) error) error {
	tx, err := s.reads.BeginTx(context.Background(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	return errors.Join(read(tx), tx.Rollback())
}

// Load implements store.Store.
func (s *Store) Load(epoch uint64) (*actors.Loaded, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.calls.RUnlock()
	loaded, err := s.live()
	if err != nil {
		return nil, fmt.Errorf("store: load: %w", judged(err))
	}
	if h := s.holder.Load(); epoch == 0 || epoch != loaded.epoch || h == nil || *h != loaded.holder {
		return nil, store.ErrDeposed
	}
	return &loaded.Loaded, nil
}

// living is what is not over, and whose it is to go on with.
type living struct {
	actors.Loaded
	epoch  uint64
	holder string
}

const (
	liveJobs = `SELECT id, owner, record FROM job INDEXED BY job_live WHERE live = 1`
	// Of a job's attempts the latest, and earlier ones that lack evidence. CROSS
	// JOIN keeps the order of the tables: what is over must not be walked.
	liveAttempts = `SELECT a.job, a.epoch, a.counter, a.record FROM job j INDEXED BY job_live CROSS JOIN attempt a ON a.job = j.id
		WHERE j.live = 1 AND (a.owes = 1 OR NOT EXISTS
			(SELECT 1 FROM attempt b WHERE b.job = a.job AND (b.epoch, b.counter) > (a.epoch, a.counter)))`
)

// live reads all that a leader needs, and checks every record of it.
func (s *Store) live() (*living, error) {
	out, found := new(living), store.NewLiving()
	err := s.snapshot(func(tx *sql.Tx) error {
		var arrival uint64
		if err := tx.QueryRow("SELECT epoch, holder, arrival FROM leader").Scan(&out.epoch, &out.holder, &arrival); err != nil {
			return err
		}
		err := liveRows(tx, found)
		out.Loaded = found.Loaded(arrival)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func liveRows(tx *sql.Tx, found *store.Living) error {
	var sealed sql.RawBytes
	err := query(tx, liveJobs, func(rows *sql.Rows) error {
		var id topology.JobID
		var owner string
		if err := rows.Scan(&id, &owner, &sealed); err != nil {
			return err
		}
		job, err := store.ReadJob(id, sealed)
		found.Job(id, owner, job, err)
		return nil
	})
	if err != nil {
		return err
	}
	err = query(tx, liveAttempts, func(rows *sql.Rows) error {
		var job topology.JobID
		var token topology.Token
		if err := rows.Scan(&job, &token.Epoch, &token.Counter, &sealed); err != nil {
			return err
		}
		attempt, err := store.ReadAttempt(job, token, sealed)
		found.Attempt(job, attempt, err)
		return nil
	})
	if err != nil {
		return err
	}
	return query(tx, "SELECT id, record FROM node ORDER BY id", func(rows *sql.Rows) error {
		var id topology.NodeID
		if err := rows.Scan(&id, &sealed); err != nil {
			return err
		}
		node, err := store.ReadNode(id, sealed)
		found.Node(id, node, err)
		return nil
	})
}

func query(tx *sql.Tx, text string, found func(*sql.Rows) error, args ...any) error {
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
	if err := s.enter(); err != nil {
		return nil, nil, err
	}
	defer s.calls.RUnlock()
	err = s.snapshot(func(tx *sql.Tx) error {
		var id topology.JobID
		var sealed []byte
		if err := tx.QueryRow(text, key...).Scan(&id, &sealed); err != nil {
			return err
		}
		if job, err = store.ReadJob(id, sealed); err != nil {
			return err
		}
		return query(tx, "SELECT epoch, counter, record FROM attempt WHERE job = ? ORDER BY epoch, counter", func(rows *sql.Rows) error {
			var token topology.Token
			if err := rows.Scan(&token.Epoch, &token.Counter, &sealed); err != nil {
				return err
			}
			attempt, err := store.ReadAttempt(id, token, sealed)
			attempts = append(attempts, attempt)
			return err
		}, string(id))
	})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil, store.ErrNotFound
	case err != nil:
		return nil, nil, fmt.Errorf("store: read a job: %w", judged(err))
	}
	return job, attempts, nil
}

// Finished implements store.Store.
func (s *Store) Finished(after store.Position, limit int) ([]*messages.JobRecord, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.calls.RUnlock()
	var out []*messages.JobRecord
	err := s.snapshot(func(tx *sql.Tx) error {
		return query(tx, `SELECT id, record FROM job INDEXED BY job_finished WHERE is_over = 1 AND (finished_unix_ms, id) > (?, ?)
			ORDER BY finished_unix_ms, id LIMIT ?`, func(rows *sql.Rows) error {
			var id topology.JobID
			var sealed []byte
			if err := rows.Scan(&id, &sealed); err != nil {
				return err
			}
			job, err := store.ReadJob(id, sealed)
			out = append(out, job)
			return err
		}, after.FinishedUnixMs, string(after.Job), max(limit, 0))
	})
	if err != nil {
		return nil, fmt.Errorf("store: read finished jobs: %w", judged(err))
	}
	return out, nil
}
