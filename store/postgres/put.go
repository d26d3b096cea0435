package postgres

import (
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/yi-json/synapse/store"
)

// This file owns the writing of rows: each kind in one statement, with its columns as arrays.

const (
	insertJobs = `INSERT INTO synapse.job (id, revision, writer_epoch, writer_counter, owner, request_id,
		arrival, state, exit_code, finished_unix_ms, is_over, live, record, queue, script)
		SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[],
			$7::bigint[], $8::integer[], $9::integer[], $10::bigint[], $11::boolean[], $12::boolean[], $13::bytea[], $14::text[], $15::text[])`
	updateJobs = `UPDATE synapse.job j SET revision = n.revision, writer_epoch = n.writer_epoch, writer_counter = n.writer_counter,
		arrival = n.arrival, state = n.state, exit_code = n.exit_code, finished_unix_ms = n.finished_unix_ms,
		is_over = n.is_over, live = n.live, record = n.record, queue = n.queue, script = n.script
		FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[],
			$7::bigint[], $8::integer[], $9::integer[], $10::bigint[], $11::boolean[], $12::boolean[], $13::bytea[],
				$14::text[], $15::text[])
			AS n (id, revision, writer_epoch, writer_counter, owner, request_id,
				arrival, state, exit_code, finished_unix_ms, is_over, live, record, queue, script)
		WHERE j.id = n.id`
	insertAttempts = `INSERT INTO synapse.attempt (job, epoch, counter, ended, owes, record)
		SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::boolean[], $5::boolean[], $6::bytea[])`
	updateAttempts = `UPDATE synapse.attempt a SET ended = n.ended, owes = n.owes, record = n.record
		FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::boolean[], $5::boolean[], $6::bytea[])
			AS n (job, epoch, counter, ended, owes, record)
		WHERE a.epoch = n.epoch AND a.counter = n.counter AND a.job = n.job`
	insertNodes = `INSERT INTO synapse.node (id, record) SELECT * FROM unnest($1::text[], $2::bytea[])`
	updateNodes = `UPDATE synapse.node m SET record = n.record FROM unnest($1::text[], $2::bytea[]) AS n (id, record) WHERE m.id = n.id`
)

// exactly queues a statement that must affect this many rows. A different number means that the tables have changed
// since the lookup.
func exactly(batch *pgx.Batch, rows int, text string, args ...any) {
	if rows == 0 {
		return
	}
	batch.Queue(text, args...).Exec(func(tag pgconn.CommandTag) error {
		if n := tag.RowsAffected(); n != int64(rows) {
			return fmt.Errorf("%d rows written instead of %d: %w: %s", n, rows, store.ErrDamaged, text)
		}
		return nil
	})
}

// put queues the writes. Stored attempts precede new ones, so one has ended before the next attempt of its job is open.
func put(batch *pgx.Batch, rows store.Rows) {
	if rows.Arrival > 0 {
		exactly(batch, 1, "UPDATE synapse.leader SET arrival = greatest(arrival, $1), uid_turn = greatest(uid_turn, $2)",
			int64(rows.Arrival), int64(rows.UIDTurn))
	}
	oldJobs, newJobs := columns(rows.Jobs, func(j *store.JobRow) bool { return j.Insert }, (*jobColumns).add)
	exactly(batch, len(oldJobs.id), updateJobs, oldJobs.args()...)
	exactly(batch, len(newJobs.id), insertJobs, newJobs.args()...)
	oldAttempts, newAttempts := columns(rows.Attempts, func(a *store.AttemptRow) bool { return a.Insert },
		(*attemptColumns).add)
	exactly(batch, len(oldAttempts.job), updateAttempts, oldAttempts.args()...)
	exactly(batch, len(newAttempts.job), insertAttempts, newAttempts.args()...)
	forget(batch, rows.Drops)
	oldNodes, newNodes := columns(rows.Nodes, func(n *store.NodeRow) bool { return n.Insert }, (*nodeColumns).add)
	exactly(batch, len(oldNodes.id), updateNodes, oldNodes.id, oldNodes.record)
	exactly(batch, len(newNodes.id), insertNodes, newNodes.id, newNodes.record)
	putPolicy(batch, &rows)
	putSingle(batch, rows.Queues, insertQueues, updateQueues)
}

// columns converts rows into columns, separately for stored and new ones.
func columns[C, R any](rows []R, isNew func(*R) bool, add func(*C, *R)) (old, fresh C) {
	for i := range rows {
		if isNew(&rows[i]) {
			add(&fresh, &rows[i])
		} else {
			add(&old, &rows[i])
		}
	}
	return old, fresh
}

// jobColumns holds jobs column by column.
type jobColumns struct {
	id, owner, request, queue, script           []string
	revision, epoch, counter, arrival, finished []int64
	state, exit                                 []int32
	over, live                                  []bool
	record                                      [][]byte
}

func (c *jobColumns) add(j *store.JobRow) {
	h := &j.Head
	c.id, c.owner, c.request = append(c.id, string(j.ID)), append(c.owner, h.Owner), append(c.request, h.RequestID)
	c.revision, c.arrival = append(c.revision, int64(h.Revision)), append(c.arrival, int64(h.Arrival))
	c.epoch, c.counter = append(c.epoch, int64(h.WrittenBy.Epoch)), append(c.counter, int64(h.WrittenBy.Counter))
	c.state, c.exit = append(c.state, int32(h.State)), append(c.exit, h.ExitCode)
	c.finished = append(c.finished, h.FinishedUnixMs)
	c.over, c.live = append(c.over, h.State.Terminal()), append(c.live, j.Live)
	c.record, c.queue = append(c.record, j.Sealed), append(c.queue, j.Queue)
	c.script = append(c.script, j.Script)
}

func (c *jobColumns) args() []any {
	return []any{c.id, c.revision, c.epoch, c.counter, c.owner, c.request, c.arrival, c.state, c.exit, c.finished,
		c.over, c.live, c.record, c.queue, c.script}
}

// attemptColumns holds attempts column by column.
type attemptColumns struct {
	job            []string
	epoch, counter []int64
	ended, owes    []bool
	record         [][]byte
}

func (c *attemptColumns) add(a *store.AttemptRow) {
	c.job = append(c.job, string(a.Job))
	c.epoch, c.counter = append(c.epoch, int64(a.Token.Epoch)), append(c.counter, int64(a.Token.Counter))
	c.ended, c.owes, c.record = append(c.ended, a.Ended), append(c.owes, a.Owes), append(c.record, a.Sealed)
}

func (c *attemptColumns) args() []any {
	return []any{c.job, c.epoch, c.counter, c.ended, c.owes, c.record}
}

// nodeColumns holds nodes column by column.
type nodeColumns struct {
	id     []string
	record [][]byte
}

func (c *nodeColumns) add(n *store.NodeRow) {
	c.id, c.record = append(c.id, string(n.ID)), append(c.record, n.Sealed)
}
