package sqlite

import (
	"database/sql"

	"github.com/yi-json/synapse/store"
)

// This file owns the table of audit heads.

// KeepHead implements store.Store.
func (s *Store) KeepHead(head store.AuditHead) error {
	if err := head.Check(); err != nil {
		return err
	}
	return s.alone("keep the head of an audit", func(w *writer) error {
		return w.transact(func() error {
			_, err := w.exec("INSERT INTO head (scheduler, line, hash) VALUES (?, ?, ?) "+
				"ON CONFLICT (scheduler) DO UPDATE SET line = excluded.line, hash = excluded.hash",
				head.Scheduler, head.N, head.Hash)
			return err
		})
	})
}

// Heads implements store.Store.
func (s *Store) Heads() (all []store.AuditHead, err error) {
	err = s.snapshot("read the heads of audits", func(tx *sql.Tx) error {
		return query(tx, "SELECT scheduler, line, hash FROM head ORDER BY scheduler", store.HeadRow(&all))
	})
	return all, err
}
