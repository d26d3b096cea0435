package sqlite

import (
	"database/sql"
	"errors"
	"fmt"

	"github.com/yi-json/synapse/store"
)

// This file owns the operations on a running store: a backup, and a check of all records. Operations on files are in
// copy.go.

// Backup writes a snapshot to a new file while the store is in use. The file appears under its name when it is complete
// and durable. It can be opened like the original.
func (s *Store) Backup(path string) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.calls.RUnlock()
	return appear(path, func(partial string) error {
		// The driver writes into an existing empty file, because it would create one that every user can read.
		if err := empty(partial); err != nil {
			return err
		}
		return copyInto(s.path, partial)
	})
}

// Check reads everything: the file's structure, the schema's version, and every record, including those of finished
// jobs. Its duration depends on the size of the file.
func (s *Store) Check() error {
	return s.snapshot("check "+s.path, check)
}

func check(tx *sql.Tx) error {
	texts, err := schemas()
	if err != nil {
		return err
	}
	var version store.Version
	if err := tx.QueryRow("SELECT schema, user_version FROM version, pragma_user_version").
		Scan(&version.Schema, &version.Oldest); err != nil {
		return err
	}
	if err := version.Complete(len(texts)); err != nil {
		return err
	}
	return checkWhole(tx)
}

// checkWhole checks the structure, then every record.
func checkWhole(tx *sql.Tx) error {
	err := query(tx, "PRAGMA integrity_check", func(rows store.Row) error {
		var finding string
		if err := rows.Scan(&finding); err != nil {
			return err
		}
		if finding != "ok" {
			return fmt.Errorf("file: %s: %w", finding, store.ErrDamaged)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return errors.Join(checkAll(tx, store.Records), checkLater(tx, "script", store.Scripts),
		checkLater(tx, "policy", store.Policies), checkLater(tx, "queues", store.Queues),
		checkLater(tx, "pass", store.Passes))
}

// checkLater checks a table that an older copy may not have.
func checkLater(tx *sql.Tx, table string, all []store.Check) error {
	var tables int
	if err := tx.QueryRow("SELECT count(*) FROM sqlite_schema WHERE name = ?", table).
		Scan(&tables); err != nil || tables == 0 {
		return err
	}
	return checkAll(tx, all)
}

func checkAll(tx *sql.Tx, all []store.Check) error {
	for _, c := range all {
		if err := query(tx, c.Query(""), c.Row); err != nil {
			return err
		}
	}
	return nil
}
