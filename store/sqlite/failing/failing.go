// Package failing is SQLite's driver with a disk that fails on demand, for tests of failed writes. It is the real
// driver, but a test decides for each file whether a statement is skipped, or executed and reported as failed. No
// production program uses it.
package failing

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"net/url"
	"sync"

	"modernc.org/sqlite"
)

// This file owns the driver.

// Driver is its name in database/sql.
const Driver = "sqlite-failing"

// Fault is called before each executed statement. With instead, the statement is skipped. With after, it is executed
// and still fails.
type Fault func(text string) (instead, after error)

var faults sync.Map // by a file's path: Fault

func init() { sql.Register(Driver, &over{&sqlite.Driver{}}) }

// Set sets the fault of the statements on a file. A nil fault restores normal operation.
func Set(path string, f Fault) {
	if f == nil {
		faults.Delete(path)
		return
	}
	faults.Store(path, f)
}

type over struct{ *sqlite.Driver }

func (o *over) Open(name string) (driver.Conn, error) {
	c, err := o.Driver.Open(name)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(name)
	if err != nil {
		return nil, err
	}
	return &conn{c, u.Path}, nil
}

type conn struct {
	driver.Conn
	path string
}

// ExecContext executes scripts. They never fail.
func (c *conn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, text, args)
}

func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
}

func (c *conn) Prepare(text string) (driver.Stmt, error) {
	s, err := c.Conn.Prepare(text)
	if err != nil {
		return nil, err
	}
	return &stmt{s, c.path, text}, nil
}

type stmt struct {
	driver.Stmt
	path, text string
}

// ExecContext executes the statement, or skips it.
func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	instead, after := s.asked()
	if instead != nil {
		return nil, instead
	}
	done, err := s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
	if err == nil && after != nil {
		return nil, after
	}
	return done, err
}

// QueryContext reads. It never fails on demand.
func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
}

func (s *stmt) asked() (instead, after error) {
	if f, ok := faults.Load(s.path); ok {
		return f.(Fault)(s.text)
	}
	return nil, nil
}
