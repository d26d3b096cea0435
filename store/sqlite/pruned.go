package sqlite

import (
	"database/sql"
	"errors"
	"fmt"

	"github.com/yi-json/synapse/topology"
)

// This file owns what is still known of a job that was forgotten: that it was.

// Pruned implements store.Store.
func (s *Store) Pruned(id topology.JobID) (pruned bool, err error) {
	if err := s.enter(); err != nil {
		return false, err
	}
	defer s.calls.RUnlock()
	err = s.snapshot(func(tx *sql.Tx) error {
		return tx.QueryRow("SELECT record IS NULL FROM job WHERE id = ?", string(id)).Scan(&pruned)
	})
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return false, fmt.Errorf("store: read whether a job was pruned: %w", judged(err))
	}
	return pruned, nil
}
