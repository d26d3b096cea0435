package sqlite

import (
	"database/sql"
	"errors"
	"fmt"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
)

// This file owns the scripts that came with jobs. Which of them are still named is
// looked up in the jobs' index, so that no count of users can ever be wrong.

// KeepScript implements store.Store.
func (s *Store) KeepScript(epoch uint64, text []byte) error {
	return s.scripts(epoch, "keep a script", func(w *writer) error {
		stmt, err := w.statement(`INSERT INTO script (digest, idle, text) VALUES (?, 0, ?)
			ON CONFLICT (digest) DO UPDATE SET idle = 0, text = excluded.text WHERE idle <> 0 OR text <> excluded.text`)
		if err == nil {
			_, err = stmt.Exec(messages.ScriptDigest(text), text)
		}
		return err
	})
}

// Script implements store.Store.
func (s *Store) Script(digest string) (text []byte, err error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.calls.RUnlock()
	err = s.snapshot(func(tx *sql.Tx) error {
		return tx.QueryRow("SELECT text FROM script WHERE digest = ?", digest).Scan(&text)
	})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, store.ErrNotFound
	case err != nil:
		return nil, fmt.Errorf("store: read a script: %w", judged(err))
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
	err = s.scripts(epoch, "prune scripts", func(w *writer) error {
		stmt, err := w.statement(dropScripts)
		if err != nil {
			return err
		}
		result, err := stmt.Exec(max(limit, 0))
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		if gone = int(n); err != nil {
			return err
		}
		for _, text := range []string{usedScripts, idleScripts} {
			if stmt, err = w.statement(text); err != nil {
				return err
			}
			if _, err = stmt.Exec(); err != nil {
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

// scripts writes as the leader of an epoch.
func (s *Store) scripts(epoch uint64, what string, do func(*writer) error) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.calls.RUnlock()
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.write.led(epoch, s.holder.Load(), func() error { return do(s.write) }); err != nil {
		return fmt.Errorf("store: %s: %w", what, judged(err))
	}
	return nil
}
