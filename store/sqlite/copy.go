package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"

	"github.com/yi-json/synapse/store"
)

// This file owns copies of a store's file that is not opened as a store: a backup during use by another process, and a
// restore after a loss.

// restoredEpochs is the amount by which a restore increases the epoch. Leaders after the backup gave their epochs to
// nodes, which refuse every lower one and know their tokens. The copy does not contain these epochs. A scheduler does
// not start a million times between two backups.
const restoredEpochs = 1_000_000

// BackupFile makes a backup of a store that another process may use. SQLite's own locks provide one snapshot of the
// file, and delay neither readers nor the writer. The complete copy is checked before it appears under its name.
func BackupFile(from, to string) error {
	from, err := filepath.Abs(from)
	if err == nil {
		_, err = os.Stat(from)
	}
	if err != nil {
		return fmt.Errorf("store: backup: database does not exist: %w", err)
	}
	err = appear(to, func(partial string) error {
		if err := empty(partial); err != nil {
			return err
		}
		if err := copyInto(from, partial); err != nil {
			return fmt.Errorf("%s: %w", from, judged(err))
		}
		return checkFile(partial)
	})
	if errors.Is(err, store.ErrDamaged) {
		return fmt.Errorf("%w; the scheduler may continue to run, but keep older backups", err)
	}
	return err
}

// Restore creates a store from a backup, at a path without a file.
func Restore(from, to string) error {
	from, err := filepath.Abs(from)
	if err != nil {
		return fmt.Errorf("store: restore: %w", err)
	}
	for _, side := range []string{"-wal", "-shm", "-journal"} {
		if _, err := os.Stat(from + side); err == nil {
			return fmt.Errorf("store: restore: %s exists, so a scheduler uses %s or crashed: take a backup of that file "+
				"first", from+side, from)
		}
	}
	if err := checkFile(from); err != nil {
		return fmt.Errorf("store: restore: %s: %w", from, err)
	}
	return appear(to, func(partial string) error {
		if err := copyBytes(from, partial); err != nil {
			return err
		}
		db, err := sql.Open(driver, source(partial, "synchronous(full)"))
		if err != nil {
			return err
		}
		_, err = db.Exec("UPDATE leader SET epoch = epoch + ?", restoredEpochs)
		return errors.Join(err, db.Close())
	})
}

// Partial returns the name of an incomplete copy.
func Partial(path string) string { return path + ".partial" }

// appear creates a file under another name, and gives it its own name when it is complete and durable. It never
// replaces a file. Its path may be relative, while SQLite's URIs need an absolute one.
func appear(path string, fill func(partial string) error) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("store: %s: %w; choose another name", path, os.ErrExist)
	}
	partial := Partial(path)
	if _, err := os.Lstat(partial); err == nil {
		return fmt.Errorf("store: %s: %w; another copy is in progress, or was interrupted: in that case remove the file",
			partial, os.ErrExist)
	}
	err = fill(partial)
	if err == nil {
		err = syncFile(partial) // SQLite leaves it to the kernel when a copy reaches the disk
	}
	if err == nil {
		err = os.Link(partial, path) // unlike a rename, it never replaces a file
	}
	if gone := os.Remove(partial); !errors.Is(gone, os.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	if err == nil {
		err = syncFolder(path)
	}
	if err != nil {
		return fmt.Errorf("store: copy to %s: %w", path, err)
	}
	return nil
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// empty creates the file of a copy, readable only by its owner.
func empty(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	return f.Close()
}

func copyInto(from, to string) error {
	db, err := sql.Open(driver, existing(from, "rw"))
	if err != nil {
		return err
	}
	_, err = db.Exec("VACUUM INTO ?", to)
	return errors.Join(err, db.Close())
}

func copyBytes(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_RDWR|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// existing is like source for a file that must already exist.
func existing(path, mode string) string {
	q := url.Values{"_pragma": {"busy_timeout(10000)"}, "mode": {mode}}
	if mode == "ro" {
		q.Set("immutable", "1") // no other process writes it, and no file may be created next to it
	}
	u := url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}
	return u.String()
}

// checkFile checks a complete copy without changing it.
func checkFile(path string) error {
	if _, err := os.Stat(path); err != nil {
		return err
	}
	texts, err := schemas()
	if err != nil {
		return err
	}
	w, err := newWriter(driver, existing(path, "ro"))
	if err != nil {
		return judged(err)
	}
	have, err := w.version(len(texts))
	if err = errors.Join(err, w.close()); err != nil {
		return judged(err)
	}
	if have.Schema == 0 {
		return errors.New("file is empty")
	}
	db, err := sql.Open(driver, existing(path, "ro"))
	if err != nil {
		return err
	}
	tx, err := db.Begin()
	if err == nil {
		err = errors.Join(checkWhole(tx), tx.Rollback())
	}
	return judged(errors.Join(err, db.Close()))
}
