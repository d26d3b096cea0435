package sqlite

import (
	"database/sql"
	"errors"
	"fmt"

	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/topology"
)

// This file owns what operators do with a store that runs: take a copy, and
// look whether it is whole. What they do with files is in copy.go.

// Backup writes a copy as of one moment to a new file, while the store goes on.
// The file appears when it is whole and durable. It is opened like the original.
func (s *Store) Backup(path string) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.calls.RUnlock()
	return appear(path, func(partial string) error {
		// The driver adds to an empty file, and so does not make one readable for all.
		if err := empty(partial); err != nil {
			return err
		}
		return copyInto(s.path, partial)
	})
}

// Check reads everything: the file's structure, the schema's version, and every
// record, those of the past too. It takes as long as the file is large.
func (s *Store) Check() error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.calls.RUnlock()
	if err := s.snapshot(check); err != nil {
		return fmt.Errorf("store: check %s: %w", s.path, judged(err))
	}
	return nil
}

func check(tx *sql.Tx) error {
	texts, err := schemas()
	if err != nil {
		return err
	}
	var version int
	if err := tx.QueryRow("PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	if version != len(texts) {
		return fmt.Errorf("the schema is %d, and this program knows %d", version, len(texts))
	}
	return checkWhole(tx)
}

// checkWhole looks at the structure, then at every record.
func checkWhole(tx *sql.Tx) error {
	err := query(tx, "PRAGMA integrity_check", func(rows *sql.Rows) error {
		var finding string
		if err := rows.Scan(&finding); err != nil {
			return err
		}
		if finding != "ok" {
			return fmt.Errorf("the file: %s: %w", finding, store.ErrDamaged)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return errors.Join(checkRecords(tx), checkScripts(tx))
}

// checkScripts reads every script. A copy from before there were any has no table of them.
func checkScripts(tx *sql.Tx) error {
	var tables int
	if err := tx.QueryRow("SELECT count(*) FROM sqlite_schema WHERE name = 'script'").Scan(&tables); err != nil ||
		tables == 0 {
		return err
	}
	err := query(tx, "SELECT digest, text FROM script", func(rows *sql.Rows) error {
		var digest string
		var text []byte
		if err := rows.Scan(&digest, &text); err != nil {
			return err
		}
		return store.CheckScript(digest, text)
	})
	if err != nil {
		return err
	}
	return query(tx, `SELECT id, script, record FROM job WHERE script <> '' AND record IS NOT NULL`,
		func(rows *sql.Rows) error {
			var id topology.JobID
			var digest string
			var sealed []byte
			if err := rows.Scan(&id, &digest, &sealed); err != nil {
				return err
			}
			job, err := store.ReadJob(id, sealed)
			if err != nil {
				return err
			}
			return store.CheckNamed(job, digest)
		})
}

// checkRecords holds every record against the columns beside it.
func checkRecords(tx *sql.Tx) error {
	err := query(tx, `SELECT id, revision, state, finished_unix_ms, queue, record FROM job WHERE record IS NOT NULL`, func(rows *sql.Rows) error {
		var id topology.JobID
		var sealed []byte
		var h store.Head
		var queue string
		if err := rows.Scan(&id, &h.Revision, &h.State, &h.FinishedUnixMs, &queue, &sealed); err != nil {
			return err
		}
		job, err := store.ReadJob(id, sealed)
		if err != nil {
			return err
		}
		if h.Revision != job.Revision || h.State != job.State || h.FinishedUnixMs != job.FinishedUnixMs || queue != job.Spec.Queue {
			return fmt.Errorf("table job, key %q: the columns differ from the record: %w", id, store.ErrDamaged)
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = query(tx, `SELECT job, epoch, counter, ended, owes, record FROM attempt`, func(rows *sql.Rows) error {
		var job topology.JobID
		var token topology.Token
		var ended, owes bool
		var sealed []byte
		if err := rows.Scan(&job, &token.Epoch, &token.Counter, &ended, &owes, &sealed); err != nil {
			return err
		}
		attempt, err := store.ReadAttempt(job, token, sealed)
		if err != nil {
			return err
		}
		if ended != (attempt.End != nil) || owes != attempt.Owes() {
			return fmt.Errorf("table attempt, key %q: the columns differ from the record: %w", string(job)+"/"+token.String(), store.ErrDamaged)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return query(tx, `SELECT id, record FROM node`, func(rows *sql.Rows) error {
		var id topology.NodeID
		var sealed []byte
		if err := rows.Scan(&id, &sealed); err != nil {
			return err
		}
		_, err := store.ReadNode(id, sealed)
		return err
	})
}
