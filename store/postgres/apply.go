package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/store"
)

// This file owns the writes. A store.Draft decides the result. Here rows are only looked up and written. A transaction
// is two messages to the server: one that begins, checks the leader and looks up, and one that writes and commits.

// Apply implements store.Store.
func (s *Store) Apply(epoch uint64, changes []actors.Change) ([]actors.Verdict, error) {
	var draft *store.Draft
	var verdicts []actors.Verdict
	err := s.asLeader(epoch, "apply", func(batch *pgx.Batch) {
		draft = store.NewDraft(changes)
		look(batch, draft)
	}, func(batch *pgx.Batch) {
		verdicts = draft.Judge()
		put(batch, draft.Rows())
	})
	if err != nil {
		return nil, err
	}
	s.tally(draft)
	return verdicts, nil
}

// asLeader runs a transaction as the leader of an epoch: see led.
func (s *Store) asLeader(epoch uint64, what string, look, put func(*pgx.Batch)) error {
	ctx, leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	s.writing.Lock()
	defer s.writing.Unlock()
	return said(what, s.led(ctx, epoch, look, put))
}

// led runs a transaction as the leader of an epoch. After an error of the second message, its result is unknown. The
// first message only reads, so it is repeated if only the connection was broken. The function look must then start from
// the beginning.
func (s *Store) led(ctx context.Context, epoch uint64, look, put func(*pgx.Batch)) error {
	var conn *pgxpool.Conn
	var now uint64
	var by string
	err := again(func() (err error) {
		if conn, err = s.writes.Acquire(ctx); err != nil {
			return err
		}
		batch := new(pgx.Batch)
		batch.Queue("BEGIN")
		batch.Queue("SELECT epoch, holder FROM synapse.leader FOR NO KEY UPDATE").
			QueryRow(func(row pgx.Row) error { return row.Scan(&now, &by) })
		look(batch)
		if err = send(ctx, conn, batch); err != nil {
			err = errors.Join(err, rollBack(ctx, conn))
			conn.Release()
		}
		return err
	})
	if err != nil {
		return err
	}
	// A connection that is returned during a transaction is closed.
	defer conn.Release()
	if epoch == 0 || epoch != now || by != s.name() {
		return errors.Join(store.ErrDeposed, rollBack(ctx, conn))
	}
	batch := new(pgx.Batch)
	put(batch)
	batch.Queue("COMMIT").Exec(func(tag pgconn.CommandTag) error {
		if tag.String() != "COMMIT" {
			return fmt.Errorf("the server answered %s to COMMIT", tag)
		}
		return nil
	})
	if err := send(ctx, conn, batch); err != nil {
		return errors.Join(err, rollBack(ctx, conn))
	}
	return nil
}

// again repeats a read on another connection while connections turn out to be broken. After an outage of the server,
// all connections in the pool are.
func again(try func() error) error {
	err := try()
	for range readers + writers {
		if err == nil || !stale(err) {
			break
		}
		err = try()
	}
	return err
}

// stale reports whether an error comes from a broken connection. Answers of the server, an unreachable server and a
// timeout are other errors.
func stale(err error) bool {
	if said := new(pgconn.PgError); errors.As(err, &said) {
		const shutdown = "57P" // the server ends the connection
		return strings.HasPrefix(said.Code, shutdown)
	}
	return !errors.Is(err, context.DeadlineExceeded) && (pgconn.SafeToRetry(err) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET))
}

func send(ctx context.Context, conn *pgxpool.Conn, batch *pgx.Batch) error {
	return conn.SendBatch(ctx, batch).Close()
}

// rollBack releases the leader's row at once. If it cannot, the server releases the row when it detects the lost
// connection.
func rollBack(ctx context.Context, conn *pgxpool.Conn) error {
	if conn.Conn().IsClosed() {
		return nil
	}
	_, err := conn.Exec(ctx, "ROLLBACK")
	return err
}

// each calls found for every row of a query in a batch.
func each(batch *pgx.Batch, found func(store.Row) error, text string, args ...any) {
	batch.Queue(text, args...).Query(func(rows pgx.Rows) error {
		return drain(rows, found)
	})
}

const (
	jobsByID = `SELECT id, revision, writer_epoch, writer_counter, owner, request_id, arrival, state, exit_code, finished_unix_ms, record IS NULL
		FROM synapse.job WHERE id = ANY($1::text[])`
	jobsByRequest = `SELECT j.owner, j.request_id FROM unnest($1::text[], $2::text[]) AS r (owner, id)
		JOIN synapse.job j ON j.owner = r.owner AND j.request_id = r.id AND j.request_id <> ''`
	headsByJob = `SELECT job, epoch, counter, ended, owes FROM synapse.attempt WHERE job = ANY($1::text[])
		ORDER BY job, epoch, counter`
	attemptsByToken = `SELECT a.job, a.epoch, a.counter, a.record FROM unnest($1::bigint[], $2::bigint[]) AS t (epoch, counter)
		JOIN synapse.attempt a ON a.epoch = t.epoch AND a.counter = t.counter`
	nodesByID = `SELECT id, record FROM synapse.node WHERE id = ANY($1::text[])`
	// These queries read all records of jobs that are to be dropped.
	dropsByID     = `SELECT id, record FROM synapse.job WHERE id = ANY($1::text[]) AND record IS NOT NULL`
	attemptsByJob = `SELECT job, epoch, counter, record FROM synapse.attempt WHERE job = ANY($1::text[])`
)

// look passes the stored rows to the draft.
func look(batch *pgx.Batch, d *store.Draft) {
	if len(d.Jobs) > 0 {
		each(batch, d.FoundJob, jobsByID, d.Jobs)
		each(batch, d.FoundHead, headsByJob, d.Jobs)
	}
	if len(d.Requests) > 0 {
		var owners, ids []string
		for _, r := range d.Requests {
			owners, ids = append(owners, r.Owner), append(ids, r.ID)
		}
		each(batch, d.FoundRequest, jobsByRequest, owners, ids)
	}
	if len(d.Tokens) > 0 {
		epochs, counters := tokenColumns(d.Tokens)
		each(batch, d.FoundAttempt, attemptsByToken, epochs, counters)
	}
	if len(d.Nodes) > 0 {
		each(batch, d.FoundNode, nodesByID, d.Nodes)
	}
	if d.Policy {
		each(batch, d.FoundPolicy, policyWriter)
	}
	if d.Queues {
		each(batch, d.FoundQueues, queuesWriter)
	}
	if len(d.Drops) > 0 {
		each(batch, d.DroppedJob, dropsByID, d.Drops)
		each(batch, d.DroppedAttempt, attemptsByJob, d.Drops)
	}
}
