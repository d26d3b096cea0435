package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/topology"
)

// This file owns the writes. What they come to is decided by a store.Draft;
// here it is only looked up and put.

// Lead implements store.Store.
func (s *Store) Lead(holder string) (uint64, error) {
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.calls.RUnlock()
	s.writing.Lock()
	defer s.writing.Unlock()
	var epoch uint64
	err := s.write.transact(func() error {
		return s.write.one("UPDATE leader SET epoch = epoch + 1, holder = ? RETURNING epoch", []any{holder}, &epoch)
	})
	if err != nil {
		return 0, fmt.Errorf("store: lead: %w", judged(err))
	}
	s.holder.Store(&holder)
	return epoch, nil
}

// Apply implements store.Store.
func (s *Store) Apply(epoch uint64, changes []actors.Change) ([]actors.Verdict, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.calls.RUnlock()
	draft := store.NewDraft(changes)
	var verdicts []actors.Verdict
	s.writing.Lock()
	defer s.writing.Unlock()
	err := s.write.led(epoch, s.holder.Load(), func() error {
		if err := s.write.look(draft); err != nil {
			return err
		}
		verdicts = draft.Judge()
		return s.write.put(draft.Rows())
	})
	if err != nil {
		return nil, fmt.Errorf("store: apply: %w", judged(err))
	}
	draft.Tally(s.broken)
	return verdicts, nil
}

// keysMost is how many keys one statement asks for. The lists are filled up
// with their last key, so that a few prepared statements do for all lengths.
const keysMost = 64

// in asks for many keys at once: text has one %s where the list of keys goes, and
// a key has width columns.
func (w *writer) in(text string, width int, keys []any, found func(*sql.Rows) error) error {
	for len(keys) > 0 {
		n := min(len(keys)/width, keysMost)
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

// values is (?,?),(?,?) for rows of so many columns.
func values(rows, columns int) string {
	row := "(" + strings.Repeat("?,", columns-1) + "?)"
	return strings.Repeat(row+",", rows-1) + row
}

// Each has one list of keys where %s stands.
const (
	jobsByID = `SELECT id, revision, writer_epoch, writer_counter, owner, request_id, arrival, state, exit_code, finished_unix_ms, record IS NULL
		FROM job WHERE id IN (VALUES %s)`
	nodesByID     = `SELECT id, record FROM node WHERE id IN (VALUES %s)`
	jobsByRequest = `SELECT owner, request_id FROM job WHERE request_id <> '' AND (owner, request_id) IN (VALUES %s)`
	headsByJob    = `SELECT job, epoch, counter, ended, owes FROM attempt INDEXED BY attempt_job WHERE job IN (VALUES %s)
		ORDER BY job, epoch, counter`
	attemptsByToken = `SELECT job, epoch, counter, record FROM attempt WHERE (epoch, counter) IN (VALUES %s)`
)

// look tells the draft what is stored.
func (w *writer) look(d *store.Draft) error {
	keys := make([]any, 0, 2*len(d.Jobs))
	var known []any
	for _, id := range d.Jobs {
		keys = append(keys, string(id))
	}
	err := w.in(jobsByID, 1, keys, func(rows *sql.Rows) error {
		var id topology.JobID
		var h store.Head
		var pruned bool
		if err := rows.Scan(&id, &h.Revision, &h.WrittenBy.Epoch, &h.WrittenBy.Counter, &h.Owner, &h.RequestID,
			&h.Arrival, &h.State, &h.ExitCode, &h.FinishedUnixMs, &pruned); err != nil {
			return err
		}
		if pruned {
			d.FoundPruned(id)
			return nil
		}
		known = append(known, string(id))
		d.FoundJob(id, h)
		return nil
	})
	if err != nil {
		return err
	}
	if err := w.lookRequests(d); err != nil {
		return err
	}
	if err := errors.Join(w.lookAttempts(d, known), w.lookDrops(d)); err != nil {
		return err
	}
	keys = keys[:0]
	for _, id := range d.Nodes {
		keys = append(keys, string(id))
	}
	return w.in(nodesByID, 1, keys, func(rows *sql.Rows) error {
		var id topology.NodeID
		var sealed []byte
		if err := rows.Scan(&id, &sealed); err != nil {
			return err
		}
		d.FoundNode(id, sealed)
		return nil
	})
}

// lookDrops reads all that there is of jobs that are to be dropped.
func (w *writer) lookDrops(d *store.Draft) error {
	for _, id := range d.Drops {
		err := w.each("SELECT record FROM job WHERE id = ? AND record IS NOT NULL", []any{string(id)}, func(rows *sql.Rows) error {
			var sealed []byte
			if err := rows.Scan(&sealed); err != nil {
				return err
			}
			_, err := store.ReadJob(id, sealed)
			d.Read(id, err)
			return nil
		})
		if err != nil {
			return err
		}
		err = w.each("SELECT epoch, counter, record FROM attempt WHERE job = ?", []any{string(id)}, func(rows *sql.Rows) error {
			var token topology.Token
			var sealed []byte
			if err := rows.Scan(&token.Epoch, &token.Counter, &sealed); err != nil {
				return err
			}
			_, err := store.ReadAttempt(id, token, sealed)
			d.Read(id, err)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) lookRequests(d *store.Draft) error {
	keys := make([]any, 0, 2*len(d.Requests))
	for _, r := range d.Requests {
		keys = append(keys, r.Owner, r.ID)
	}
	return w.in(jobsByRequest, 2, keys, func(rows *sql.Rows) error {
		var r store.Request
		if err := rows.Scan(&r.Owner, &r.ID); err != nil {
			return err
		}
		d.FoundRequest(r)
		return nil
	})
}

// lookAttempts reads of all attempts of the jobs only what an index has.
func (w *writer) lookAttempts(d *store.Draft, jobs []any) error {
	err := w.in(headsByJob, 1, jobs, func(rows *sql.Rows) error {
		var job topology.JobID
		var token topology.Token
		var ended, owes bool
		if err := rows.Scan(&job, &token.Epoch, &token.Counter, &ended, &owes); err != nil {
			return err
		}
		return d.FoundHead(job, token, ended, owes)
	})
	if err != nil {
		return err
	}
	keys := make([]any, 0, 2*len(d.Tokens))
	for _, t := range d.Tokens {
		keys = append(keys, int64(t.Epoch), int64(t.Counter))
	}
	return w.in(attemptsByToken, 2, keys, func(rows *sql.Rows) error {
		var job topology.JobID
		var token topology.Token
		var sealed []byte
		if err := rows.Scan(&job, &token.Epoch, &token.Counter, &sealed); err != nil {
			return err
		}
		return d.FoundAttempt(job, token, sealed)
	})
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

// put writes rows. Attempts come in the order of their tokens, so that one has
// ended before the next one of its job is open.
func (w *writer) put(rows store.Rows) error {
	if rows.Arrival > 0 {
		if err := w.change(1, "UPDATE leader SET arrival = max(arrival, ?)", int64(rows.Arrival)); err != nil {
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
	return nil
}

// insertsMost is how many jobs one statement inserts: submits come in crowds.
const insertsMost = 8

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
			args = append(args, string(j.ID), int64(h.Revision), int64(h.WrittenBy.Epoch), int64(h.WrittenBy.Counter), h.Owner, h.RequestID,
				int64(h.Arrival), int64(h.State), int64(h.ExitCode), h.FinishedUnixMs, h.State.Terminal(), j.Live,
				j.Sealed, j.Queue, j.Script)
			if waiting++; waiting == insertsMost {
				if err := flush(); err != nil {
					return err
				}
			}
			continue
		}
		if err := w.change(1, updateJob, int64(h.Revision), int64(h.WrittenBy.Epoch), int64(h.WrittenBy.Counter), int64(h.Arrival),
			int64(h.State), int64(h.ExitCode), h.FinishedUnixMs, h.State.Terminal(), j.Live, j.Sealed, j.Queue,
			j.Script, string(j.ID)); err != nil {
			return err
		}
	}
	return flush()
}

// Prune implements store.Store.
func (s *Store) Prune(epoch uint64, finishedBeforeUnixMs int64, limit int) (int, error) {
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.calls.RUnlock()
	s.writing.Lock()
	defer s.writing.Unlock()
	gone := 0
	w := s.write
	err := w.led(epoch, s.holder.Load(), func() error {
		var ids []string
		err := w.each(`SELECT id FROM job INDEXED BY job_finished WHERE is_over = 1 AND live = 0 AND finished_unix_ms < ?
			ORDER BY finished_unix_ms, id LIMIT ?`, []any{finishedBeforeUnixMs, max(limit, 0)}, func(rows *sql.Rows) error {
			var id string
			err := rows.Scan(&id)
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
		return 0, fmt.Errorf("store: prune: %w", judged(err))
	}
	return gone, nil
}

// prune leaves of a job only that its id was used.
func (w *writer) prune(id string) error {
	stmt, err := w.statement("DELETE FROM attempt WHERE job = ?")
	if err != nil {
		return err
	}
	if _, err := stmt.Exec(id); err != nil {
		return err
	}
	return w.change(1, `UPDATE job SET request_id = '', owner = '', queue = '', script = '', is_over = 0, live = 0, record = NULL WHERE id = ?`, id)
}

var _ store.Store = (*Store)(nil)
