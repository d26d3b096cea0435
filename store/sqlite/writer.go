package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/yi-json/synapse/store"
)

// This file owns the single connection that writes, and its transactions.

// writer is that connection with its prepared statements.
type writer struct {
	db       *sql.DB
	conn     *sql.Conn
	prepared map[string]*sql.Stmt
}

func newWriter(driver, source string) (*writer, error) {
	db, err := sql.Open(driver, source)
	if err != nil {
		return nil, err
	}
	conn, err := db.Conn(context.Background())
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &writer{db: db, conn: conn, prepared: map[string]*sql.Stmt{}}, nil
}

func (w *writer) close() error {
	var errs []error
	for _, stmt := range w.prepared { //order: all are closed
		errs = append(errs, stmt.Close())
	}
	return errors.Join(append(errs, w.conn.Close(), w.db.Close())...)
}

// statement prepares a text once.
func (w *writer) statement(text string) (*sql.Stmt, error) {
	if stmt := w.prepared[text]; stmt != nil {
		return stmt, nil
	}
	stmt, err := w.conn.PrepareContext(context.Background(), text)
	if err != nil {
		return nil, err
	}
	w.prepared[text] = stmt
	return stmt, nil
}

// exec runs a statement that returns no rows.
func (w *writer) exec(text string, args ...any) (sql.Result, error) {
	stmt, err := w.statement(text)
	if err != nil {
		return nil, err
	}
	return stmt.Exec(args...)
}

// change runs a statement that must affect this many rows. A different number means that the tables have changed since
// the lookup.
func (w *writer) change(rows int, text string, args ...any) error {
	result, err := w.exec(text, args...)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n != int64(rows) {
		return errors.Join(fmt.Errorf("%d rows written instead of %d: %s", n, rows, text), err, store.ErrDamaged)
	}
	return nil
}

// each calls found for every row.
func (w *writer) each(text string, args []any, found func(store.Row) error) error {
	stmt, err := w.statement(text)
	if err != nil {
		return err
	}
	rows, err := stmt.Query(args...)
	if err != nil {
		return err
	}
	return drain(rows, found)
}

// one reads one row.
func (w *writer) one(text string, args []any, into ...any) error {
	stmt, err := w.statement(text)
	if err != nil {
		return err
	}
	return stmt.QueryRow(args...).Scan(into...)
}

// judged marks the errors that mean that the file is damaged, for which a retry is useless.
func judged(err error) error {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return err
	}
	const primary = 0xff // the low byte of an extended code
	switch e.Code() & primary {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CONSTRAINT:
		return fmt.Errorf("%w: %w; restore a backup of the database", err, store.ErrDamaged)
	}
	return err
}

// script runs several statements.
func (w *writer) script(text string) error {
	_, err := w.conn.ExecContext(context.Background(), text)
	return err
}

// drain reads all rows and closes them.
func drain(rows *sql.Rows, found func(store.Row) error) error {
	for rows.Next() {
		if err := found(rows); err != nil {
			return errors.Join(err, rows.Close())
		}
	}
	return errors.Join(rows.Err(), rows.Close())
}

// transact runs a transaction. After an error of COMMIT, its result is unknown.
func (w *writer) transact(do func() error) error {
	if err := w.run("BEGIN IMMEDIATE"); err != nil {
		// The last rollback may have failed and left its transaction open.
		if w.run("ROLLBACK") != nil {
			return err
		}
		if err := w.run("BEGIN IMMEDIATE"); err != nil {
			return err
		}
	}
	err := do()
	if err == nil {
		if err = w.run("COMMIT"); err == nil {
			return nil
		}
	}
	// SQLite rolls back by itself after some errors. This statement then fails, which is harmless.
	_ = w.run("ROLLBACK")
	return err
}

func (w *writer) run(text string) error {
	stmt, err := w.statement(text)
	if err != nil {
		return err
	}
	_, err = stmt.Exec()
	return err
}

// led runs a transaction as the leader of an epoch, under the name of its holder.
func (w *writer) led(epoch uint64, holder *string, do func() error) error {
	return w.transact(func() error {
		var now uint64
		var by string
		if err := w.one("SELECT epoch, holder FROM leader", nil, &now, &by); err != nil {
			return err
		}
		if epoch == 0 || epoch != now || holder == nil || *holder != by {
			return store.ErrDeposed
		}
		return do()
	})
}
