// Package postgres keeps the leader's records in PostgreSQL, for a cluster with several schedulers. One of them leads,
// and the others stand by and take over when its lease has expired.
//
// Every transaction of a leader first locks the row with the epoch. A deposed leader therefore writes nothing, and a
// successor's Lead waits for the transaction in progress. A leader that freezes during a transaction cannot block its
// successor, because the server ends idle transactions.
//
// A transaction is on disk before Apply returns. Open refuses a server that does not sync. With replicas, leadership is
// only as safe as their promotion: an asynchronous replica loses the last acknowledged writes in a failover. Use
// synchronous replicas.
//
// The unique indexes are those of SQLite. No constraint prevents two attempts from using one device, for the reason
// given in package sqlite.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/yi-json/synapse/store"
)

// Options holds the address of the database, and the settings of leadership.
type Options struct {
	// URL is a connection string, as for psql.
	URL string
	// Lease is how long no other scheduler may lead after Lead or Renew. With 0, any scheduler may lead at any time.
	Lease time.Duration
	// Timeout limits every call. Load may take six times as long. The default for 0 is ten seconds.
	Timeout time.Duration
}

// Store implements store.Store on one database.
type Store struct {
	options Options
	reads   *pgxpool.Pool
	writes  *pgxpool.Pool // separate, so that readers never delay a leader

	writing sync.Mutex
	broken  map[store.Rule]int     // guarded by writing
	holder  atomic.Pointer[string] // name under which this process led last; nil: it has not

	// A call holds it for reading, Close for writing.
	calls  sync.RWMutex
	closed bool
}

const (
	usualTimeout = 10 * time.Second
	readers      = 4
	writers      = 3 // one transaction, one renewal, and a spare while a dead connection is detected

	// maxIdle is how long the server keeps an idle transaction open.
	maxIdle = 3 * time.Second

	loadTimeouts = 6 // for a Load
	maxMigration = time.Hour
	unbounded    = "SET LOCAL statement_timeout = 0" // for calls that only their context limits
)

// Open connects, updates the schema, and reads the records that a leader needs, so that damaged tables are reported at
// once.
func Open(o Options) (*Store, error) {
	if o.Timeout <= 0 {
		o.Timeout = usualTimeout
	}
	s := &Store{options: o, broken: map[store.Rule]int{}}
	if err := s.start(); err != nil {
		s.letGo()
		return nil, fmt.Errorf("store: open PostgreSQL: %w", judged(err))
	}
	return s, nil
}

func (s *Store) start() (err error) {
	ctx, cancel := s.bounded()
	defer cancel()
	if s.writes, err = s.pool(ctx, writers); err != nil {
		return err
	}
	if s.reads, err = s.pool(ctx, readers); err != nil {
		return err
	}
	// An unreachable server must be reported soon, while a migration may take long.
	if err = s.writes.Ping(ctx); err != nil {
		return err
	}
	if err = s.migrate(); err != nil {
		return err
	}
	_, _, _, err = s.live()
	return err
}

func (s *Store) bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), s.options.Timeout)
}

func (s *Store) pool(ctx context.Context, size int32) (*pgxpool.Pool, error) {
	c, err := pgxpool.ParseConfig(s.options.URL)
	if err != nil {
		return nil, err
	}
	c.MaxConns = size
	c.ConnConfig.ConnectTimeout = min(s.options.Timeout, usualTimeout/2)
	p := c.ConnConfig.RuntimeParams
	p["application_name"] = "synapse-scheduler"
	p["idle_in_transaction_session_timeout"] = milliseconds(maxIdle)
	// A statement whose client was disconnected must not hold its locks for long.
	p["statement_timeout"] = milliseconds(s.options.Timeout)
	p["default_transaction_isolation"] = "read committed"
	// Every query has its index. The planner uses the size of a table at its last analysis, and would scan a table that
	// has grown since.
	p["enable_seqscan"], p["enable_hashjoin"], p["enable_mergejoin"], p["jit"] = "off", "off", "off", "off"
	c.AfterConnect = greet
	return pgxpool.NewWithConfig(ctx, c)
}

func milliseconds(d time.Duration) string { return fmt.Sprint(d.Milliseconds()) }

// greet checks that a server keeps what it acknowledges.
func greet(ctx context.Context, conn *pgx.Conn) error {
	var fsync, pages string
	err := conn.QueryRow(ctx, `SELECT current_setting('fsync'), current_setting('full_page_writes')`).Scan(&fsync, &pages)
	if err != nil {
		return err
	}
	if fsync != "on" || pages != "on" {
		return fmt.Errorf("server may lose acknowledged writes (fsync %s, full_page_writes %s): turn both on",
			fsync, pages)
	}
	_, err = conn.Exec(ctx, `SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') IN ('off', 'local')`)
	return err
}

// enter begins a call. The caller must call the returned function leave.
func (s *Store) enter() (ctx context.Context, leave func(), err error) {
	s.calls.RLock()
	if s.closed {
		s.calls.RUnlock()
		return nil, nil, store.ErrClosed
	}
	ctx, cancel := s.bounded()
	return ctx, func() { cancel(); s.calls.RUnlock() }, nil
}

// said wraps an error with the operation that failed.
func said(what string, err error) error {
	if err != nil {
		return fmt.Errorf("store: %s: %w", what, judged(err))
	}
	return nil
}

// noText reports whether a key has a zero byte. PostgreSQL text cannot contain one, so nothing is stored under such a
// key.
func noText(keys ...string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { return strings.IndexByte(key, 0) >= 0 })
}

// Close implements store.Store. It waits for the calls in progress.
func (s *Store) Close() error {
	s.calls.Lock()
	defer s.calls.Unlock()
	if !s.closed {
		s.closed = true
		s.letGo()
	}
	return nil
}

func (s *Store) letGo() {
	for _, p := range []*pgxpool.Pool{s.reads, s.writes} {
		if p != nil {
			p.Close()
		}
	}
}

// Broken counts the refused changes by rule.
func (s *Store) Broken() map[store.Rule]int {
	s.writing.Lock()
	defer s.writing.Unlock()
	return maps.Clone(s.broken)
}

func (s *Store) tally(draft *store.Draft) {
	s.writing.Lock()
	defer s.writing.Unlock()
	draft.Tally(s.broken)
}

// judged marks the errors that mean that the database is damaged, for which a retry is useless.
func judged(err error) error {
	var e *pgconn.PgError
	if !errors.As(err, &e) || len(e.Code) < 2 {
		return err
	}
	const integrity, corruption = "23", "XX"
	if class := e.Code[:2]; class == integrity || class == corruption && e.Code != "XX000" {
		return fmt.Errorf("%w: %w; restore a backup of the database", err, store.ErrDamaged)
	}
	return err
}

var _ store.Store = (*Store)(nil)
