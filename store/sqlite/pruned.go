package sqlite

import (
	"database/sql"
	"errors"

	"github.com/yi-json/synapse/topology"
)

// This file owns the IDs of deleted jobs.

// Pruned implements store.Store.
func (s *Store) Pruned(id topology.JobID) (pruned bool, err error) {
	err = s.snapshot("read whether a job was pruned", func(tx *sql.Tx) error {
		return tx.QueryRow("SELECT record IS NULL FROM job WHERE id = ?", string(id)).Scan(&pruned)
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return pruned, err
}
