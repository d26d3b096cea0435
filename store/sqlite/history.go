package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/topology"
)

// This file owns queries of finished jobs. Each page is a separate snapshot, because a snapshot that stayed open for a
// million jobs would prevent checkpoints of the log.

// pastJobs examines jobs in the order of an index. It reads a record only if the columns allow a match. The caller
// checks the remaining conditions.
const pastJobs = `SELECT id, finished_unix_ms, CASE WHEN (? = '' OR owner = ?) AND (? = '' OR queue = ?) AND (? = 0 OR (? >> state) & 1) THEN record END
	FROM job INDEXED BY %s WHERE is_over = 1 %s AND (finished_unix_ms, id) < (?, ?) AND finished_unix_ms >= ?
	ORDER BY finished_unix_ms DESC, id DESC LIMIT ?`

// pastQuery selects the index with the fewest jobs. An owner usually has fewer jobs than a queue.
func pastQuery(p *store.Past) (text string, args []any) {
	mask := p.StateMask()
	args = []any{p.Owner, p.Owner, p.Queue, p.Queue, mask, mask}
	index, equal := "job_finished", ""
	switch {
	case p.Owner != "":
		index, equal, args = "job_finished_owner", "AND owner = ?", append(args, p.Owner)
	case p.Queue != "":
		index, equal, args = "job_finished_queue", "AND queue = ?", append(args, p.Queue)
	}
	from := p.From()
	return fmt.Sprintf(pastJobs, index, equal), append(args, from.FinishedUnixMs, string(from.Job), p.SinceUnixMs,
		max(p.Look, 0))
}

// History implements store.Store.
func (s *Store) History(past store.Past) (page store.Page, err error) {
	err = s.snapshot("read the history", func(tx *sql.Tx) (err error) {
		g := past.Gather()
		text, args := pastQuery(&past)
		if err := lookPast(tx, g, text, args); err != nil {
			return err
		}
		page, err = attemptsPast(tx, g)
		return err
	})
	if err != nil {
		return store.Page{}, err
	}
	return page, nil
}

func lookPast(tx *sql.Tx, g *store.Gathering, text string, args []any) error {
	rows, err := tx.Query(text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for more := true; more && rows.Next(); {
		if more, err = store.PastRow[sql.RawBytes](g, rows); err != nil {
			return err
		}
	}
	return errors.Join(rows.Err(), rows.Close())
}

// attemptsPast reads the attempts of the matching jobs up to the size limit.
func attemptsPast(tx *sql.Tx, g *store.Gathering) (store.Page, error) {
	jobs := g.Jobs()
	stmt, err := tx.PrepareContext(context.Background(),
		"SELECT epoch, counter, record FROM attempt WHERE job = ? ORDER BY epoch, counter")
	if err != nil {
		return store.Page{}, err
	}
	defer stmt.Close()
	var sealed sql.RawBytes
	for i, job := range jobs {
		if !g.Takes(i) {
			return g.Page(i), nil
		}
		rows, err := stmt.Query(string(job))
		if err != nil {
			return store.Page{}, err
		}
		err = drain(rows, func(rows store.Row) error {
			var token topology.Token
			if err := rows.Scan(&token.Epoch, &token.Counter, &sealed); err != nil {
				return err
			}
			attempt, err := store.ReadAttempt(job, token, sealed)
			g.Attempt(i, attempt, err, len(sealed))
			return nil
		})
		if err != nil {
			return store.Page{}, err
		}
	}
	return g.Page(len(jobs)), nil
}
