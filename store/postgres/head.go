package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/yi-json/synapse/store"
)

// This file owns the table of audit heads.

// KeepHead implements store.Store. If the connection breaks, the write is repeated, which has no further effect.
func (s *Store) KeepHead(head store.AuditHead) error {
	if err := head.Check(); err != nil {
		return err
	}
	ctx, leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	return said("keep the head of an audit", again(func() error {
		_, err := s.writes.Exec(ctx, "INSERT INTO synapse.head (scheduler, line, hash) VALUES ($1, $2, $3) "+
			"ON CONFLICT (scheduler) DO UPDATE SET line = excluded.line, hash = excluded.hash",
			head.Scheduler, head.N, head.Hash)
		return err
	}))
}

// Heads implements store.Store.
func (s *Store) Heads() (all []store.AuditHead, err error) {
	err = s.snapshot("read the heads of audits", func(ctx context.Context, tx pgx.Tx) error {
		all = nil
		return query(ctx, tx, store.HeadRow(&all), "SELECT scheduler, line, hash FROM synapse.head ORDER BY scheduler")
	})
	return all, err
}
