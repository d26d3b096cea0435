package sqlite

import (
	"database/sql"
	"errors"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
)

// This file owns the scripts of jobs. An index of jobs shows which scripts are still named, so no reference count can
// be wrong.

// KeepScript implements store.Store.
func (s *Store) KeepScript(epoch uint64, text []byte) error {
	return s.asLeader(epoch, "keep a script", func(w *writer) error {
		_, err := w.exec(`INSERT INTO script (digest, idle, text) VALUES (?, 0, ?)
			ON CONFLICT (digest) DO UPDATE SET idle = 0, text = excluded.text WHERE idle <> 0 OR text <> excluded.text`,
			messages.ScriptDigest(text), text)
		return err
	})
}

// Script implements store.Store.
func (s *Store) Script(digest string) (text []byte, err error) {
	err = s.snapshot("read a script", func(tx *sql.Tx) error {
		return tx.QueryRow("SELECT text FROM script WHERE digest = ?", digest).Scan(&text)
	})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, store.ErrNotFound
	case err != nil:
		return nil, err
	}
	return text, store.CheckScript(digest, text)
}

const (
	unnamed     = `NOT EXISTS (SELECT 1 FROM job INDEXED BY job_script WHERE job.script <> '' AND job.script = script.digest)`
	dropScripts = `DELETE FROM script WHERE digest IN (SELECT digest FROM script WHERE idle = 1 AND ` + unnamed + ` LIMIT ?)`
	usedScripts = `UPDATE script SET idle = 0 WHERE idle = 1 AND NOT ` + unnamed
	idleScripts = `UPDATE script SET idle = 1 WHERE idle = 0 AND ` + unnamed
)

// PruneScripts implements store.Store.
func (s *Store) PruneScripts(epoch uint64, limit int) (gone int, err error) {
	err = s.asLeader(epoch, "prune scripts", func(w *writer) error {
		result, err := w.exec(dropScripts, max(limit, 0))
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		if gone = int(n); err != nil {
			return err
		}
		for _, text := range []string{usedScripts, idleScripts} {
			if _, err = w.exec(text); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return gone, nil
}
