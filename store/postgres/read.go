package postgres

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/topology"
)

// This file owns the reads, and pruning. Each read is one snapshot.

// snapshot reads in one snapshot, within the timeout of a call.
func (s *Store) snapshot(what string, read func(context.Context, pgx.Tx) error) error {
	ctx, leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	return said(what, s.within(ctx, func(tx pgx.Tx) error { return read(ctx, tx) }))
}

// within reads in one snapshot. If the connection breaks, it reads again. The function read must then start from the
// beginning.
func (s *Store) within(ctx context.Context, read func(pgx.Tx) error) error {
	return again(func() error {
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
	loaded, now, holder, err := s.live()
	if err != nil {
		return nil, said("load", err)
	}
	if epoch == 0 || epoch != now || holder != s.name() {
		return nil, store.ErrDeposed
	}
	return &loaded, nil
}

// live reads the live jobs, and the leader that has the epoch.
func (s *Store) live() (loaded actors.Loaded, epoch uint64, holder string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), loadTimeouts*s.options.Timeout)
	defer cancel()
	err = s.within(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, unbounded); err != nil {
			return err
		}
		var arrival, turn uint64
		if err := tx.QueryRow(ctx, "SELECT epoch, holder, arrival, uid_turn FROM synapse.leader").
			Scan(&epoch, &holder, &arrival, &turn); err != nil {
			return err
		}
		found := store.NewLiving()
		err := liveRows(ctx, tx, found)
		loaded = found.Loaded(arrival, turn)
		return err
	})
	return loaded, epoch, holder, err
}

const (
	allNodes = `SELECT id, record FROM synapse.node ORDER BY id`
	liveJobs = `SELECT id, owner, record FROM synapse.job WHERE live`
	// liveAttempts reads the latest attempt of each live job, and earlier ones with unconfirmed exits.
	liveAttempts = `SELECT a.job, a.epoch, a.counter, a.record FROM synapse.job j JOIN synapse.attempt a ON a.job = j.id
		WHERE j.live AND (a.owes OR NOT EXISTS
			(SELECT 1 FROM synapse.attempt b WHERE b.job = a.job AND (b.epoch, b.counter) > (a.epoch, a.counter)))`
)

// liveRows reads all rows that a leader needs, and checks each record.
func liveRows(ctx context.Context, tx pgx.Tx, found *store.Living) error {
	job, attempt, node := store.LiveRows[pgtype.DriverBytes](found)
	if err := queryEach(ctx, tx, readQuery{job, liveJobs}, readQuery{attempt, liveAttempts},
		readQuery{node, allNodes}); err != nil {
		return err
	}
	if err := policyRows(ctx, tx, found); err != nil {
		return err
	}
	return queryEach(ctx, tx, readQuery{store.QueuesRow[pgtype.DriverBytes](found), queuesRecord})
}

// readQuery is a query with the function that reads its rows.
type readQuery struct {
	found func(store.Row) error
	text  string
}

// queryEach runs the queries one after the other.
func queryEach(ctx context.Context, tx pgx.Tx, all ...readQuery) error {
	for _, r := range all {
		if err := query(ctx, tx, r.found, r.text); err != nil {
			return err
		}
	}
	return nil
}

// query calls found for every row.
func query(ctx context.Context, tx pgx.Tx, found func(store.Row) error, text string, args ...any) error {
	rows, err := tx.Query(ctx, text, args...)
	if err != nil {
		return err
	}
	return drain(rows, found)
}

// drain reads all rows and closes them.
func drain(rows pgx.Rows, found func(store.Row) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := found(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Job implements store.Store.
func (s *Store) Job(id topology.JobID) (*messages.JobRecord, []*messages.AttemptRecord, error) {
	return s.read("SELECT id, record FROM synapse.job WHERE id = $1 AND record IS NOT NULL", string(id))
}

// Requested implements store.Store.
func (s *Store) Requested(owner, requestID string) (*messages.JobRecord, []*messages.AttemptRecord, error) {
	return s.read("SELECT id, record FROM synapse.job WHERE owner = $1 AND request_id = $2 AND request_id <> ''",
		owner, requestID)
}

// read reads one job with all its attempts.
func (s *Store) read(text string,
	key ...string) (job *messages.JobRecord, attempts []*messages.AttemptRecord, err error) {
	if noText(key...) {
		return nil, nil, store.ErrNotFound
	}
	var args []any
	for _, k := range key {
		args = append(args, k)
	}
	err = s.snapshot("read a job", func(ctx context.Context, tx pgx.Tx) error {
		job, attempts = nil, nil
		err := query(ctx, tx, func(row store.Row) (err error) {
			job, err = store.ScanJob[pgtype.DriverBytes](row)
			return err
		}, text, args...)
		if err != nil || job == nil {
			return err
		}
		return query(ctx, tx, func(row store.Row) error {
			attempt, err := store.ScanAttempt[pgtype.DriverBytes](row)
			attempts = append(attempts, attempt)
			return err
		}, "SELECT job, epoch, counter, record FROM synapse.attempt WHERE job = $1 ORDER BY epoch, counter", job.Id)
	})
	switch {
	case err != nil:
		return nil, nil, err
	case job == nil:
		return nil, nil, store.ErrNotFound
	}
	return job, attempts, nil
}

// Finished implements store.Store.
func (s *Store) Finished(after store.Position, limit int) ([]*messages.JobRecord, error) {
	var out []*messages.JobRecord
	err := s.snapshot("read finished jobs", func(ctx context.Context, tx pgx.Tx) error {
		out = nil
		return query(ctx, tx, func(row store.Row) error {
			job, err := store.ScanJob[pgtype.DriverBytes](row)
			out = append(out, job)
			return err
		}, `SELECT id, record FROM synapse.job WHERE is_over AND (finished_unix_ms, id) > ($1, $2)
			ORDER BY finished_unix_ms, id LIMIT $3`, after.FinishedUnixMs, after.Job, max(limit, 0))
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Prune implements store.Store. It is one transaction in three messages, because the jobs must be known before they are
// deleted.
func (s *Store) Prune(epoch uint64, finishedBeforeUnixMs int64, limit int) (int, error) {
	var ids []string
	err := s.asLeader(epoch, "prune", func(batch *pgx.Batch) {
		ids = nil
		each(batch, func(row store.Row) error {
			var id string
			err := row.Scan(&id)
			ids = append(ids, id)
			return err
		}, `SELECT id FROM synapse.job WHERE is_over AND NOT live AND finished_unix_ms < $1
			ORDER BY finished_unix_ms, id LIMIT $2`, finishedBeforeUnixMs, max(limit, 0))
	}, func(batch *pgx.Batch) {
		forget(batch, ids)
	})
	if err != nil {
		return 0, err
	}
	return len(ids), nil
}

// forget queues the statements that keep only the used IDs of jobs.
func forget[ID ~string](batch *pgx.Batch, ids []ID) {
	if len(ids) > 0 {
		batch.Queue(unnoteJobs, ids)
		batch.Queue("DELETE FROM synapse.attempt WHERE job = ANY($1::text[])", ids)
	}
	exactly(batch, len(ids), `UPDATE synapse.job SET request_id = '', owner = '', queue = '', script = '', is_over = false, live = false, record = NULL
		WHERE id = ANY($1::text[])`, ids)
}

// Check reads every record, including those of finished jobs, and compares it with the other columns. It may take
// longer than other calls. The context limits it.
func (s *Store) Check(ctx context.Context) error {
	_, leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	return said("check", s.within(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, unbounded); err != nil {
			return err
		}
		return check(ctx, tx)
	}))
}

func check(ctx context.Context, tx pgx.Tx) error {
	texts, err := schemas()
	if err != nil {
		return err
	}
	have, err := version(ctx, tx)
	if err := errors.Join(err, have.Complete(len(texts))); err != nil {
		return err
	}
	for _, c := range slices.Concat(store.Records, store.Scripts, store.Policies, store.Queues, store.Passes) {
		if err := query(ctx, tx, c.Row, c.Query("synapse.")); err != nil {
			return err
		}
	}
	return nil
}
