package sqlite

import (
	"embed"
	"errors"
	"fmt"

	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/topology"
)

// This file owns the schema's versions. Each migration is one file and runs once, in one transaction with the new
// version numbers (store.Version).

//go:embed migrations/*.sql
var migrations embed.FS

// applicationID is in the file's header, so that this program and file(1) recognize the file.
const applicationID = 0x53594e41 // "SYNA"

const (
	// breaking is the last breaking migration. A program without it must not open the file.
	breaking = 10
	// noting is the migration that introduced a table with the number of the schema. Since then, user_version is the last
	// breaking migration. Earlier programs open a file only if user_version is the number of migrations that they know.
	// Programs of the last release can therefore open a current file.
	noting = 9
)

// schemas returns the migrations in order. The schema's version is their number.
func schemas() ([]string, error) { return store.Schemas(migrations) }

// version reads the schema's version, and refuses a file that this program must not touch.
func (w *writer) version(known int) (v store.Version, err error) {
	var application, tables, noted int
	if err := w.one("PRAGMA application_id", nil, &application); err != nil {
		return v, err
	}
	if err := w.one("PRAGMA user_version", nil, &v.Oldest); err != nil {
		return v, err
	}
	if err := w.one("SELECT count(*), count(*) FILTER (WHERE name = 'version') FROM sqlite_schema", nil, &tables,
		&noted); err != nil {
		return v, err
	}
	switch {
	case application == 0 && v.Oldest == 0 && tables == 0:
		return v, nil
	case application != applicationID:
		return v, fmt.Errorf("file contains the data of another program; give the scheduler another file")
	case noted > 0:
		err = w.one("SELECT schema FROM version", nil, &v.Schema)
	}
	v.Schema = max(v.Schema, v.Oldest)
	return v, errors.Join(err, v.Refused(known))
}

// numbers returns the statements that record a completed migration.
func numbers(schema int) string {
	if schema < noting {
		return fmt.Sprintf("PRAGMA user_version = %d", schema)
	}
	return fmt.Sprintf("UPDATE version SET schema = %d; PRAGMA user_version = %d", schema, breaking)
}

// prepare prepares a file that may be new, old, or another program's. It changes nothing before it knows which.
func (w *writer) prepare() error {
	texts, err := schemas()
	if err != nil {
		return err
	}
	have, err := w.version(len(texts))
	if err != nil {
		return err
	}
	var mode, synchronous string
	if err := w.one("PRAGMA journal_mode = wal", nil, &mode); err != nil {
		return err
	}
	if err := w.one("PRAGMA synchronous", nil, &synchronous); err != nil {
		return err
	}
	// SQLite does not report a mode that it cannot set.
	if mode != "wal" || synchronous != "2" {
		return fmt.Errorf("its file system does not support a write-ahead log (journal mode %s, synchronous %s); "+
			"move the file to a local disk", mode, synchronous)
	}
	return w.migrate(have.Schema, texts)
}

// filled lists the migrations whose new columns are filled from the records, which SQL alone cannot do.
var filled = map[int]func(*writer) error{3: fillQueues}

// fillBatch is the number of records in memory at a time.
const fillBatch = 1_000

// fillQueues fills the column queue of stored jobs.
func fillQueues(w *writer) error {
	type queuedJob struct {
		seq   int64
		queue string
	}
	for seq := int64(-1); ; {
		var rows []queuedJob
		err := w.each(`SELECT seq, id, record FROM job WHERE seq > ? AND record IS NOT NULL ORDER BY seq LIMIT ?`, []any{seq, fillBatch}, func(r store.Row) error {
			var id topology.JobID
			var sealed []byte
			if err := r.Scan(&seq, &id, &sealed); err != nil {
				return err
			}
			job, _ := store.ReadJob(id, sealed) // the queue of an unreadable job is unknown
			rows = append(rows, queuedJob{seq, job.GetSpec().GetQueue()})
			return nil
		})
		if err != nil || len(rows) == 0 {
			return err
		}
		for _, r := range rows {
			if r.queue == "" {
				continue
			}
			if err := w.change(1, "UPDATE job SET queue = ? WHERE seq = ?", r.queue, r.seq); err != nil {
				return err
			}
		}
	}
}

// migrate updates the schema to the latest version.
func (w *writer) migrate(have int, texts []string) error {
	for n := have; n < len(texts); n++ {
		err := w.transact(func() error {
			if err := w.script(texts[n] + fmt.Sprintf(";\nPRAGMA application_id = %d;\n%s;", applicationID,
				numbers(n+1))); err != nil {
				return err
			}
			if fill := filled[n+1]; fill != nil {
				return fill(w)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("migrate to schema %d: %w", n+1, err)
		}
	}
	return nil
}
