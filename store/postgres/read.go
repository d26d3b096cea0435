package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/topology"
)

// This file owns the reads, and the forgetting. Each read sees one moment.

// snapshot reads as of one moment. Where the connection breaks it reads again:
// read must start anew then.
func (s *Store) snapshot(ctx context.Context, read func(pgx.Tx) error) error {
	return anew(func() error {
		return pgx.BeginTxFunc(ctx, s.reads, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, read)
	})
}

// Load implements store.Store.
func (s *Store) Load(epoch uint64) (*actors.Loaded, error) {
	_, leave, err := s.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	loaded, err := s.live()
	if err != nil {
		return nil, fmt.Errorf("store: load: %w", judged(err))
	}
	if epoch == 0 || epoch != loaded.epoch || loaded.holder != s.name() {
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
	liveJobs = `SELECT id, owner, record FROM synapse.job WHERE live`
	// Of a job's attempts the latest, and earlier ones that lack evidence.
	liveAttempts = `SELECT a.job, a.epoch, a.counter, a.record FROM synapse.job j JOIN synapse.attempt a ON a.job = j.id
		WHERE j.live AND (a.owes OR NOT EXISTS
			(SELECT 1 FROM synapse.attempt b WHERE b.job = a.job AND (b.epoch, b.counter) > (a.epoch, a.counter)))`
)

// live reads all that a leader needs, and checks every record of it.
func (s *Store) live() (*living, error) {
	ctx, cancel := context.WithTimeout(context.Background(), loadTimeouts*s.options.Timeout)
	defer cancel()
	var out *living
	err := s.snapshot(ctx, func(tx pgx.Tx) error {
		out = new(living)
		if _, err := tx.Exec(ctx, unbounded); err != nil {
			return err
		}
		var arrival uint64
		if err := tx.QueryRow(ctx, "SELECT epoch, holder, arrival FROM synapse.leader").Scan(&out.epoch, &out.holder, &arrival); err != nil {
			return err
		}
		found := store.NewLiving()
		err := liveRows(ctx, tx, found)
		out.Loaded = found.Loaded(arrival)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func liveRows(ctx context.Context, tx pgx.Tx, found *store.Living) error {
	err := query(ctx, tx, func(rows pgx.Rows) error {
		var id topology.JobID
		var owner string
		var sealed pgtype.DriverBytes
		if err := rows.Scan(&id, &owner, &sealed); err != nil {
			return err
		}
		job, err := store.ReadJob(id, sealed)
		found.Job(id, owner, job, err)
		return nil
	}, liveJobs)
	if err != nil {
		return err
	}
	err = query(ctx, tx, func(rows pgx.Rows) error {
		job, attempt, bad, err := scanAttempt(rows)
		if err == nil {
			found.Attempt(job, attempt, bad)
		}
		return err
	}, liveAttempts)
	if err != nil {
		return err
	}
	return query(ctx, tx, func(rows pgx.Rows) error {
		var id topology.NodeID
		var sealed []byte
		if err := rows.Scan(&id, &sealed); err != nil {
			return err
		}
		node, err := store.ReadNode(id, sealed)
		found.Node(id, node, err)
		return nil
	}, "SELECT id, record FROM synapse.node ORDER BY id")
}

// query calls found for every row.
func query(ctx context.Context, tx pgx.Tx, found func(pgx.Rows) error, text string, args ...any) error {
	rows, err := tx.Query(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := found(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// readJob reads a row of an id and a record. The record is decoded where it
// lies: what is decoded has copies of all it keeps.
func readJob(rows pgx.Rows) (*messages.JobRecord, error) {
	var id topology.JobID
	var sealed pgtype.DriverBytes
	if err := rows.Scan(&id, &sealed); err != nil {
		return nil, err
	}
	return store.ReadJob(id, sealed)
}

// readAttempt reads a row of a job, an epoch, a counter and a record.
func readAttempt(rows pgx.Rows) (*messages.AttemptRecord, error) {
	_, attempt, bad, err := scanAttempt(rows)
	return attempt, errors.Join(err, bad)
}

// scanAttempt keeps apart that the record is bad, and that there is no row.
func scanAttempt(rows pgx.Rows) (job topology.JobID, attempt *messages.AttemptRecord, bad, err error) {
	var token topology.Token
	var sealed []byte
	if err := rows.Scan(&job, &token.Epoch, &token.Counter, &sealed); err != nil {
		return "", nil, nil, err
	}
	attempt, bad = store.ReadAttempt(job, token, sealed)
	return job, attempt, bad, nil
}

// Job implements store.Store.
func (s *Store) Job(id topology.JobID) (*messages.JobRecord, []*messages.AttemptRecord, error) {
	return s.read("SELECT id, record FROM synapse.job WHERE id = $1 AND record IS NOT NULL", string(id))
}

// Requested implements store.Store.
func (s *Store) Requested(owner, requestID string) (*messages.JobRecord, []*messages.AttemptRecord, error) {
	return s.read("SELECT id, record FROM synapse.job WHERE owner = $1 AND request_id = $2 AND request_id <> ''", owner, requestID)
}

// read reads one job with all its attempts.
func (s *Store) read(text string, key ...string) (job *messages.JobRecord, attempts []*messages.AttemptRecord, err error) {
	ctx, leave, err := s.enter()
	if err != nil {
		return nil, nil, err
	}
	defer leave()
	var args []any
	for _, k := range key {
		if strings.IndexByte(k, 0) >= 0 { // the server's text has no such byte, and so no such key
			return nil, nil, store.ErrNotFound
		}
		args = append(args, k)
	}
	err = s.snapshot(ctx, func(tx pgx.Tx) error {
		job, attempts = nil, nil
		err := query(ctx, tx, func(rows pgx.Rows) (err error) {
			job, err = readJob(rows)
			return err
		}, text, args...)
		if err != nil || job == nil {
			return err
		}
		return query(ctx, tx, func(rows pgx.Rows) error {
			attempt, err := readAttempt(rows)
			attempts = append(attempts, attempt)
			return err
		}, "SELECT job, epoch, counter, record FROM synapse.attempt WHERE job = $1 ORDER BY epoch, counter", job.Id)
	})
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("store: read a job: %w", judged(err))
	case job == nil:
		return nil, nil, store.ErrNotFound
	}
	return job, attempts, nil
}

// Finished implements store.Store.
func (s *Store) Finished(after store.Position, limit int) ([]*messages.JobRecord, error) {
	ctx, leave, err := s.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	var out []*messages.JobRecord
	err = s.snapshot(ctx, func(tx pgx.Tx) error {
		out = nil
		return query(ctx, tx, func(rows pgx.Rows) error {
			job, err := readJob(rows)
			out = append(out, job)
			return err
		}, `SELECT id, record FROM synapse.job WHERE is_over AND (finished_unix_ms, id) > ($1, $2)
			ORDER BY finished_unix_ms, id LIMIT $3`, after.FinishedUnixMs, after.Job, max(limit, 0))
	})
	if err != nil {
		return nil, fmt.Errorf("store: read finished jobs: %w", judged(err))
	}
	return out, nil
}

// Prune implements store.Store. It is one transaction in three messages: which
// jobs go is known before they go.
func (s *Store) Prune(epoch uint64, finishedBeforeUnixMs int64, limit int) (int, error) {
	ctx, leave, err := s.enter()
	if err != nil {
		return 0, err
	}
	defer leave()
	s.writing.Lock()
	defer s.writing.Unlock()
	var ids []string
	err = s.led(ctx, epoch, func(batch *pgx.Batch) {
		ids = nil
		each(batch, func(rows pgx.Rows) error {
			var id string
			err := rows.Scan(&id)
			ids = append(ids, id)
			return err
		}, `SELECT id FROM synapse.job WHERE is_over AND NOT live AND finished_unix_ms < $1
			ORDER BY finished_unix_ms, id LIMIT $2`, finishedBeforeUnixMs, max(limit, 0))
	}, func(batch *pgx.Batch) {
		forget(batch, ids)
	})
	if err != nil {
		return 0, fmt.Errorf("store: prune: %w", judged(err))
	}
	return len(ids), nil
}

// forget queues what leaves of jobs only that their ids were used.
func forget[ID ~string](batch *pgx.Batch, ids []ID) {
	if len(ids) > 0 {
		batch.Queue("DELETE FROM synapse.attempt WHERE job = ANY($1::text[])", ids)
	}
	exactly(batch, len(ids), `UPDATE synapse.job SET request_id = '', owner = '', queue = '', script = '', is_over = false, live = false, record = NULL
		WHERE id = ANY($1::text[])`, ids)
}

// Check reads every record, those of the past too, and holds it against the
// columns beside it. It may take longer than a call is given; ctx bounds it.
func (s *Store) Check(ctx context.Context) error {
	_, leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	err = s.snapshot(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, unbounded); err != nil {
			return err
		}
		return check(ctx, tx)
	})
	if err != nil {
		return fmt.Errorf("store: check: %w", judged(err))
	}
	return nil
}

func check(ctx context.Context, tx pgx.Tx) error {
	texts, err := schemas()
	if err != nil {
		return err
	}
	if have, err := version(ctx, tx); err != nil || have != len(texts) {
		return errors.Join(fmt.Errorf("the schema is %d, and this program knows %d", have, len(texts)), err)
	}
	for _, c := range slices.Concat(store.Records, store.Scripts) {
		if err := query(ctx, tx, func(rows pgx.Rows) error { return c.Row(rows) }, c.Query("synapse.")); err != nil {
			return err
		}
	}
	return nil
}
