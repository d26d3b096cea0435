package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
)

// This file owns the table of users' tokens. Package store defines their records.

// KeepPass implements store.Store.
func (s *Store) KeepPass(epoch uint64, pass *messages.PassRecord) error {
	sealed, err := store.SealPass(pass)
	if err != nil {
		return err
	}
	return s.asLeader(epoch, "keep a token", func(*pgx.Batch) {}, func(batch *pgx.Batch) {
		batch.Queue("INSERT INTO synapse.pass (id, record) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING", pass.Id, sealed)
	})
}

// DropPass implements store.Store.
func (s *Store) DropPass(epoch uint64, id string) error {
	return s.asLeader(epoch, "revoke a token", func(*pgx.Batch) {}, func(batch *pgx.Batch) {
		batch.Queue("DELETE FROM synapse.pass WHERE id = $1", id)
	})
}

// Pass implements store.Store.
func (s *Store) Pass(id string) (*messages.PassRecord, error) {
	if noText(id) {
		return nil, store.ErrNotFound
	}
	found := store.FoundPass{ID: id}
	err := s.snapshot("read a token", func(ctx context.Context, tx pgx.Tx) error {
		return query(ctx, tx, found.Row, "SELECT record FROM synapse.pass WHERE id = $1", id)
	})
	if err != nil {
		return nil, err
	}
	return found.Pass()
}

// Passes implements store.Store.
func (s *Store) Passes() (all []*messages.PassRecord, err error) {
	err = s.snapshot("read the tokens", func(ctx context.Context, tx pgx.Tx) error {
		all = nil
		return query(ctx, tx, store.PassRow[pgtype.DriverBytes](&all), "SELECT id, record FROM synapse.pass ORDER BY id")
	})
	return all, err
}
