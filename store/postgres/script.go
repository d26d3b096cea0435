package postgres

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
)

// This file owns the scripts that came with jobs. Which of them are still named is
// looked up in the jobs' index, so that no count of users can ever be wrong.

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
	return s.scripts(epoch, "keep a script", func(batch *pgx.Batch) {
		batch.Queue(keepScript, messages.ScriptDigest(text), text)
	})
}

// Script implements store.Store.
func (s *Store) Script(digest string) (text []byte, err error) {
	ctx, leave, err := s.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	if strings.IndexByte(digest, 0) >= 0 { // the server's text has no such byte, and so no such key
		return nil, store.ErrNotFound
	}
	err = s.snapshot(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, "SELECT text FROM synapse.script WHERE digest = $1", digest).Scan(&text)
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, store.ErrNotFound
	case err != nil:
		return nil, fmt.Errorf("store: read a script: %w", judged(err))
	}
	return text, store.CheckScript(digest, text)
}

// PruneScripts implements store.Store.
func (s *Store) PruneScripts(epoch uint64, limit int) (gone int, err error) {
	err = s.scripts(epoch, "prune scripts", func(batch *pgx.Batch) {
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

// scripts writes as the leader of an epoch.
func (s *Store) scripts(epoch uint64, what string, put func(*pgx.Batch)) error {
	ctx, leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.led(ctx, epoch, func(*pgx.Batch) {}, put); err != nil {
		return fmt.Errorf("store: %s: %w", what, judged(err))
	}
	return nil
}
