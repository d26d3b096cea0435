package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
)

// This file owns the scripts of jobs. An index of jobs shows which scripts are still named, so no reference count can
// be wrong.

const (
	keepScript = `INSERT INTO synapse.script AS s (digest, idle, text) VALUES ($1, false, $2)
		ON CONFLICT (digest) DO UPDATE SET idle = false, text = excluded.text WHERE s.idle OR s.text <> excluded.text`
	unnamed     = `NOT EXISTS (SELECT 1 FROM synapse.job j WHERE j.script = s.digest AND j.script <> '' AND j.record IS NOT NULL)`
	dropScripts = `DELETE FROM synapse.script WHERE digest IN (SELECT s.digest FROM synapse.script s WHERE s.idle AND ` + unnamed + ` LIMIT $1)`
	usedScripts = `UPDATE synapse.script s SET idle = false WHERE s.idle AND NOT ` + unnamed
	idleScripts = `UPDATE synapse.script s SET idle = true WHERE NOT s.idle AND ` + unnamed
)

// KeepScript implements store.Store.
func (s *Store) KeepScript(epoch uint64, text []byte) error {
	return s.asLeader(epoch, "keep a script", func(*pgx.Batch) {}, func(batch *pgx.Batch) {
		batch.Queue(keepScript, messages.ScriptDigest(text), text)
	})
}

// Script implements store.Store.
func (s *Store) Script(digest string) (text []byte, err error) {
	if noText(digest) {
		return nil, store.ErrNotFound
	}
	err = s.snapshot("read a script", func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, "SELECT text FROM synapse.script WHERE digest = $1", digest).Scan(&text)
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, store.ErrNotFound
	case err != nil:
		return nil, err
	}
	return text, store.CheckScript(digest, text)
}

// PruneScripts implements store.Store.
func (s *Store) PruneScripts(epoch uint64, limit int) (gone int, err error) {
	err = s.asLeader(epoch, "prune scripts", func(*pgx.Batch) {}, func(batch *pgx.Batch) {
		batch.Queue(dropScripts, max(limit, 0)).Exec(func(tag pgconn.CommandTag) error {
			gone = int(tag.RowsAffected())
			return nil
		})
		batch.Queue(usedScripts)
		batch.Queue(idleScripts)
	})
	if err != nil {
		return 0, err
	}
	return gone, nil
}
