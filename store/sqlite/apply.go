package sqlite

import (
	"fmt"
	"strings"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/store"
)

// This file owns the writes. A store.Draft decides the result. Here rows are only looked up and written.

// Lead implements store.Store.
func (s *Store) Lead(holder string) (uint64, error) {
	var epoch uint64
	err := s.alone("lead", func(w *writer) error {
		err := w.transact(func() error {
			return w.one("UPDATE leader SET epoch = epoch + 1, holder = ? RETURNING epoch", []any{holder}, &epoch)
		})
		if err == nil {
			s.holder.Store(&holder)
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	return epoch, nil
}

// Apply implements store.Store.
func (s *Store) Apply(epoch uint64, changes []actors.Change) ([]actors.Verdict, error) {
	draft := store.NewDraft(changes)
	var verdicts []actors.Verdict
	err := s.asLeader(epoch, "apply", func(w *writer) error {
		if err := w.look(draft); err != nil {
			return err
		}
		verdicts = draft.Judge()
		return w.put(draft.Rows())
	})
	if err != nil {
		return nil, err
	}
	s.tally(draft)
	return verdicts, nil
}

// maxKeys is the number of keys in one statement. Lists are filled up with their last key, so that a few prepared
// statements serve all lengths.
const maxKeys = 64

// in queries many keys at once. The text has one %s in the place of the list of keys, and a key has width columns.
func (w *writer) in(text string, width int, keys []any, found func(store.Row) error) error {
	for len(keys) > 0 {
		n := min(len(keys)/width, maxKeys)
		size := 1
		for size < n {
			size *= 4
		}
		args := make([]any, 0, size*width)
		args = append(args, keys[:n*width]...)
		for len(args) < size*width {
			args = append(args, keys[(n-1)*width:n*width]...)
		}
		if err := w.each(fmt.Sprintf(text, values(size, width)), args, found); err != nil {
			return err
		}
		keys = keys[n*width:]
	}
	return nil
}

// values returns (?,?),(?,?) for this number of rows and columns.
func values(rows, columns int) string {
	row := "(" + strings.Repeat("?,", columns-1) + "?)"
	return strings.Repeat(row+",", rows-1) + row
}

// Each query has one list of keys in the place of %s.
const (
	jobsByID = `SELECT id, revision, writer_epoch, writer_counter, owner, request_id, arrival, state, exit_code, finished_unix_ms, record IS NULL
		FROM job WHERE id IN (VALUES %s)`
	nodesByID     = `SELECT id, record FROM node WHERE id IN (VALUES %s)`
	jobsByRequest = `SELECT owner, request_id FROM job WHERE request_id <> '' AND (owner, request_id) IN (VALUES %s)`
	headsByJob    = `SELECT job, epoch, counter, ended, owes FROM attempt INDEXED BY attempt_job WHERE job IN (VALUES %s)
		ORDER BY job, epoch, counter`
	attemptsByToken = `SELECT job, epoch, counter, record FROM attempt WHERE (epoch, counter) IN (VALUES %s)`
	// These queries read all records of jobs that are to be dropped.
	dropsByID     = `SELECT id, record FROM job WHERE id IN (VALUES %s) AND record IS NOT NULL`
	attemptsByJob = `SELECT job, epoch, counter, record FROM attempt WHERE job IN (VALUES %s)`
)

// look passes the stored rows to the draft. It reads only the indexed columns of the jobs' attempts.
func (w *writer) look(d *store.Draft) error {
	if err := w.in(jobsByID, 1, keysOf(d.Jobs), d.FoundJob); err != nil {
		return err
	}
	if d.Policy {
		if err := w.each(policyWriter, nil, d.FoundPolicy); err != nil {
			return err
		}
	}
	if d.Queues {
		if err := w.each(queuesWriter, nil, d.FoundQueues); err != nil {
			return err
		}
	}
	requests, tokens, drops := make([]any, 0, 2*len(d.Requests)), tokenKeys(d.Tokens), keysOf(d.Drops)
	for _, r := range d.Requests {
		requests = append(requests, r.Owner, r.ID)
	}
	for _, q := range []struct {
		text  string
		width int
		keys  []any
		found func(store.Row) error
	}{
		{jobsByRequest, 2, requests, d.FoundRequest},
		{headsByJob, 1, keysOf(d.Found()), d.FoundHead},
		{attemptsByToken, 2, tokens, d.FoundAttempt},
		{dropsByID, 1, drops, d.DroppedJob},
		{attemptsByJob, 1, drops, d.DroppedAttempt},
		{nodesByID, 1, keysOf(d.Nodes), d.FoundNode},
	} {
		if err := w.in(q.text, q.width, q.keys, q.found); err != nil {
			return err
		}
	}
	return nil
}

func keysOf[ID ~string](ids []ID) []any {
	keys := make([]any, len(ids))
	for i, id := range ids {
		keys[i] = string(id)
	}
	return keys
}

const (
	insertJob = `INSERT OR ROLLBACK INTO job (id, revision, writer_epoch, writer_counter, owner, request_id,
		arrival, state, exit_code, finished_unix_ms, is_over, live, record, queue, script) VALUES %s`
	updateJob = `UPDATE OR ROLLBACK job SET revision = ?, writer_epoch = ?, writer_counter = ?, arrival = ?,
		state = ?, exit_code = ?, finished_unix_ms = ?, is_over = ?, live = ?, record = ?, queue = ?, script = ? WHERE id = ?`
	insertAttempt = `INSERT OR ROLLBACK INTO attempt (job, epoch, counter, ended, owes, record) VALUES (?, ?, ?, ?, ?, ?)`
	updateAttempt = `UPDATE OR ROLLBACK attempt SET ended = ?, owes = ?, record = ? WHERE epoch = ? AND counter = ?`
	insertNode    = `INSERT OR ROLLBACK INTO node (record, id) VALUES (?, ?)`
	updateNode    = `UPDATE OR ROLLBACK node SET record = ? WHERE id = ?`
)

// put writes rows. Attempts are in the order of their tokens, so that one has ended before the next one of its job is
// open.
func (w *writer) put(rows store.Rows) error {
	if rows.Arrival > 0 {
		err := w.change(1, "UPDATE leader SET arrival = max(arrival, ?), uid_turn = max(uid_turn, ?)",
			int64(rows.Arrival), int64(rows.UIDTurn))
		if err != nil {
			return err
		}
	}
	if err := w.putJobs(rows.Jobs); err != nil {
		return err
	}
	for i := range rows.Attempts {
		a := &rows.Attempts[i]
		epoch, counter := int64(a.Token.Epoch), int64(a.Token.Counter)
		var err error
		if a.Insert {
			err = w.change(1, insertAttempt, string(a.Job), epoch, counter, a.Ended, a.Owes, a.Sealed)
		} else {
			err = w.change(1, updateAttempt, a.Ended, a.Owes, a.Sealed, epoch, counter)
		}
		if err != nil {
			return err
		}
	}
	for _, id := range rows.Drops {
		if err := w.prune(string(id)); err != nil {
			return err
		}
	}
	for _, n := range rows.Nodes {
		text := updateNode
		if n.Insert {
			text = insertNode
		}
		if err := w.change(1, text, n.Sealed, string(n.ID)); err != nil {
			return err
		}
	}
	if err := w.putPolicy(&rows); err != nil {
		return err
	}
	return w.putSingle(rows.Queues, insertQueues, updateQueues)
}

// maxInserts is the number of jobs in one insert, because submits come in bursts.
const maxInserts = 8

func (w *writer) putJobs(jobs []store.JobRow) error {
	var args []any
	waiting := 0
	flush := func() error {
		if waiting == 0 {
			return nil
		}
		err := w.change(waiting, fmt.Sprintf(insertJob, values(waiting, len(args)/waiting)), args...)
		args, waiting = args[:0], 0
		return err
	}
	for i := range jobs {
		j := &jobs[i]
		h := &j.Head
		if j.Insert {
			args = append(args, string(j.ID), int64(h.Revision), int64(h.WrittenBy.Epoch), int64(h.WrittenBy.Counter),
				h.Owner, h.RequestID,
				int64(h.Arrival), int64(h.State), int64(h.ExitCode), h.FinishedUnixMs, h.State.Terminal(), j.Live,
				j.Sealed, j.Queue, j.Script)
			if waiting++; waiting == maxInserts {
				if err := flush(); err != nil {
					return err
				}
			}
			continue
		}
		if err := w.change(1, updateJob, int64(h.Revision), int64(h.WrittenBy.Epoch), int64(h.WrittenBy.Counter),
			int64(h.Arrival),
			int64(h.State), int64(h.ExitCode), h.FinishedUnixMs, h.State.Terminal(), j.Live, j.Sealed, j.Queue,
			j.Script, string(j.ID)); err != nil {
			return err
		}
	}
	return flush()
}

// Prune implements store.Store.
func (s *Store) Prune(epoch uint64, finishedBeforeUnixMs int64, limit int) (int, error) {
	gone := 0
	err := s.asLeader(epoch, "prune", func(w *writer) error {
		var ids []string
		err := w.each(`SELECT id FROM job INDEXED BY job_finished WHERE is_over = 1 AND live = 0 AND finished_unix_ms < ?
			ORDER BY finished_unix_ms, id LIMIT ?`, []any{finishedBeforeUnixMs, max(limit, 0)}, func(row store.Row) error {
			var id string
			err := row.Scan(&id)
			ids = append(ids, id)
			return err
		})
		if err != nil {
			return err
		}
		for _, id := range ids {
			if err := w.prune(id); err != nil {
				return err
			}
		}
		gone = len(ids)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return gone, nil
}

// prune keeps only the used ID of a job.
func (w *writer) prune(id string) error {
	if _, err := w.exec(unnoteJob, id); err != nil {
		return err
	}
	if _, err := w.exec("DELETE FROM attempt WHERE job = ?", id); err != nil {
		return err
	}
	return w.change(1, `UPDATE job SET request_id = '', owner = '', queue = '', script = '', is_over = 0, live = 0, record = NULL WHERE id = ?`, id)
}

var _ store.Store = (*Store)(nil)
