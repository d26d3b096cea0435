package sqlite

import (
	"embed"
	"fmt"

	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/topology"
)

// This file owns the schema's versions. Each migration is one file, run once,
// in one transaction with the number that says so.

//go:embed migrations/*.sql
var migrations embed.FS

// applicationID stands in the file's header, so that neither this program nor
// file(1) takes another program's database for one of ours.
const applicationID = 0x53594e41 // "SYNA"

// schemas are the migrations in order; the schema's version is their number.
func schemas() ([]string, error) { return store.Schemas(migrations) }

// version reads the schema's version, and refuses what this program must not touch.
func (w *writer) version(known int) (int, error) {
	var application, version, tables int
	if err := w.one("PRAGMA application_id", nil, &application); err != nil {
		return 0, err
	}
	if err := w.one("PRAGMA user_version", nil, &version); err != nil {
		return 0, err
	}
	if err := w.one("SELECT count(*) FROM sqlite_schema", nil, &tables); err != nil {
		return 0, err
	}
	switch {
	case application == 0 && version == 0 && tables == 0:
		return 0, nil
	case application != applicationID:
		return 0, fmt.Errorf("the file holds the data of another program; give the scheduler a file of its own")
	case version > known:
		return 0, fmt.Errorf("a newer synapse-scheduler wrote it (schema %d, this one knows up to %d); run that version, "+
			"or restore a backup from before it", version, known)
	}
	return version, nil
}

// prepare makes a file ready that may be new, old, or another program's. Nothing in it is changed before that is known.
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
		return fmt.Errorf("its file system has no shared memory for a write-ahead log (journal mode %s, synchronous %s); "+
			"put it on a local disk", mode, synchronous)
	}
	return w.migrate(have, texts)
}

// filled are the migrations whose new columns SQL alone cannot fill: their values are in the records.
var filled = map[int]func(*writer) error{3: fillQueues}

// fillBatch is how many records are held at once.
const fillBatch = 1_000

// fillQueues gives the jobs that are stored their column queue.
func fillQueues(w *writer) error {
	type row struct {
		seq   int64
		queue string
	}
	for seq := int64(-1); ; {
		var rows []row
		err := w.each(`SELECT seq, id, record FROM job WHERE seq > ? AND record IS NOT NULL ORDER BY seq LIMIT ?`, []any{seq, fillBatch}, func(r store.Row) error {
			var id topology.JobID
			var sealed []byte
			if err := r.Scan(&seq, &id, &sealed); err != nil {
				return err
			}
			job, _ := store.ReadJob(id, sealed) // the queue of a damaged one is unknown
			rows = append(rows, row{seq, job.GetSpec().GetQueue()})
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

// migrate brings the schema up to date.
func (w *writer) migrate(have int, texts []string) error {
	for n := have; n < len(texts); n++ {
		err := w.transact(func() error {
			if err := w.script(texts[n] + fmt.Sprintf(";\nPRAGMA application_id = %d;\nPRAGMA user_version = %d;", applicationID,
				n+1)); err != nil {
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
