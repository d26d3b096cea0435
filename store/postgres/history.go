package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/topology"
)

// This file owns queries of finished jobs. Each page is two queries in one snapshot.

const (
	// pastJobs examines jobs in the order of an index. It reads a record only if the columns allow a match. The caller
	// checks the remaining conditions.
	pastJobs = `SELECT id, finished_unix_ms, CASE WHEN ($1 = '' OR owner = $1) AND ($2 = '' OR queue = $2)
			AND ($3::bigint = 0 OR ($3::bigint >> state) & 1 = 1) THEN record END
		FROM synapse.job WHERE is_over %s AND (finished_unix_ms, id) < ($4, $5) AND finished_unix_ms >= $6
		ORDER BY finished_unix_ms DESC, id DESC LIMIT $7`
	// pastAttempts reads the attempts of these jobs up to the size limit: all of a job's attempts or none. A job without
	// attempts has a row of nulls.
	pastAttempts = `SELECT n, epoch, counter, record FROM (
			SELECT w.n, a.epoch, a.counter, a.record,
				sum(coalesce(octet_length(a.record), 0)) OVER (ORDER BY w.n)
				- sum(coalesce(octet_length(a.record), 0)) OVER (PARTITION BY w.n) AS before
			FROM unnest($1::text[]) WITH ORDINALITY AS w (job, n) LEFT JOIN synapse.attempt a ON a.job = w.job) all_of_them
		WHERE before < $2 ORDER BY n, epoch, counter`
)

// pastQuery selects the index with the fewest jobs. An owner usually has fewer jobs than a queue.
func pastQuery(p *store.Past) (text string, args []any) {
	equal := ""
	switch {
	case p.Owner != "":
		equal = "AND owner = $1"
	case p.Queue != "":
		equal = "AND queue = $2"
	}
	from := p.From()
	return fmt.Sprintf(pastJobs, equal), []any{
		p.Owner, p.Queue, p.StateMask(), from.FinishedUnixMs, string(from.Job), p.SinceUnixMs, max(p.Look, 0),
	}
}

// History implements store.Store.
func (s *Store) History(past store.Past) (page store.Page, err error) {
	if noText(past.Owner, past.Queue, string(past.Before.Job)) {
		return store.Page{}, nil
	}
	const what = "read the history"
	if past.Queue != "" {
		if err := s.fillLate(what); err != nil {
			return store.Page{}, err
		}
	}
	err = s.snapshot(what, func(ctx context.Context, tx pgx.Tx) (err error) {
		g := past.Gather()
		text, args := pastQuery(&past)
		if err := lookPast(ctx, tx, g, text, args); err != nil {
			return err
		}
		page, err = attemptsPast(ctx, tx, g)
		return err
	})
	if err != nil {
		return store.Page{}, err
	}
	return page, nil
}

func lookPast(ctx context.Context, tx pgx.Tx, g *store.Gathering, text string, args []any) error {
	rows, err := tx.Query(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for more := true; more && rows.Next(); {
		if more, err = store.PastRow[pgtype.DriverBytes](g, rows); err != nil {
			return err
		}
	}
	rows.Close()
	return rows.Err()
}

// attemptsPast reads the attempts of the matching jobs up to the size limit.
func attemptsPast(ctx context.Context, tx pgx.Tx, g *store.Gathering) (store.Page, error) {
	jobs := g.Jobs()
	if len(jobs) == 0 {
		return g.Page(0), nil
	}
	whole := 0
	err := query(ctx, tx, func(rows store.Row) error {
		var n int
		var epoch, counter *uint64
		var sealed pgtype.DriverBytes
		if err := rows.Scan(&n, &epoch, &counter, &sealed); err != nil {
			return err
		}
		whole = n
		if epoch == nil {
			return nil
		}
		token := topology.Token{Epoch: *epoch, Counter: *counter}
		attempt, err := store.ReadAttempt(jobs[n-1], token, sealed)
		g.Attempt(n-1, attempt, err, len(sealed))
		return nil
	}, pastAttempts, jobs, g.Room())
	if err != nil {
		return store.Page{}, err // the query may have failed before the first row
	}
	return g.Page(whole), nil
}
