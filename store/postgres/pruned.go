package postgres

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/yi-json/synapse/topology"
)

// This file owns what is still known of a job that was forgotten: that it was.

// Pruned implements store.Store.
func (s *Store) Pruned(id topology.JobID) (pruned bool, err error) {
	ctx, leave, err := s.enter()
	if err != nil {
		return false, err
	}
	defer leave()
	if strings.IndexByte(string(id), 0) >= 0 { // the server's text has no such byte, and so no such key
		return false, nil
	}
	err = s.snapshot(ctx, func(tx pgx.Tx) error {
		pruned = false
		return query(ctx, tx, func(rows pgx.Rows) error { return rows.Scan(&pruned) },
			"SELECT record IS NULL FROM synapse.job WHERE id = $1", string(id))
	})
	if err != nil {
		return false, fmt.Errorf("store: read whether a job was pruned: %w", judged(err))
	}
	return pruned, nil
}
