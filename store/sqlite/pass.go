package sqlite

import (
	"database/sql"

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
	return s.asLeader(epoch, "keep a token", func(w *writer) error {
		_, err := w.exec("INSERT INTO pass (id, record) VALUES (?, ?) ON CONFLICT (id) DO NOTHING", pass.Id, sealed)
		return err
	})
}

// DropPass implements store.Store.
func (s *Store) DropPass(epoch uint64, id string) error {
	return s.asLeader(epoch, "revoke a token", func(w *writer) error {
		_, err := w.exec("DELETE FROM pass WHERE id = ?", id)
		return err
	})
}

// Pass implements store.Store.
func (s *Store) Pass(id string) (*messages.PassRecord, error) {
	found := store.FoundPass{ID: id}
	err := s.snapshot("read a token", func(tx *sql.Tx) error {
		return query(tx, "SELECT record FROM pass WHERE id = ?", found.Row, id)
	})
	if err != nil {
		return nil, err
	}
	return found.Pass()
}

// Passes implements store.Store.
func (s *Store) Passes() (all []*messages.PassRecord, err error) {
	err = s.snapshot("read the tokens", func(tx *sql.Tx) error {
		return query(tx, "SELECT id, record FROM pass ORDER BY id", store.PassRow[sql.RawBytes](&all))
	})
	return all, err
}
