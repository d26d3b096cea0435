package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/topology"
)

// This file owns the IDs of deleted jobs.

// Pruned implements store.Store.
func (s *Store) Pruned(id topology.JobID) (pruned bool, err error) {
	if noText(string(id)) {
		return false, nil
	}
	err = s.snapshot("read whether a job was pruned", func(ctx context.Context, tx pgx.Tx) error {
		pruned = false
		return query(ctx, tx, func(row store.Row) error { return row.Scan(&pruned) },
			"SELECT record IS NULL FROM synapse.job WHERE id = $1", string(id))
	})
	return pruned, err
}
