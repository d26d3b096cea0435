package postgres

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/store/postgres/pgtest"
	"github.com/yi-json/synapse/store/storetest"
)

// This file owns that PostgreSQL keeps the contract of all stores, and what the
// tests of this package share: one server, with a database for each test.

var (
	server  *pgtest.Server
	missing error // why there is none
)

func TestMain(m *testing.M) {
	server, missing = pgtest.New()
	if missing != nil && !errors.Is(missing, pgtest.ErrMissing) {
		fmt.Fprintln(os.Stderr, missing)
		os.Exit(1)
	}
	code := m.Run()
	if server != nil {
		if err := server.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// database is an empty one; without PostgreSQL the test is skipped.
func database(t testing.TB) string {
	t.Helper()
	if missing != nil {
		t.Skip(missing)
	}
	return server.Database(t)
}

func opened(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func fresh(t testing.TB) *Store {
	t.Helper()
	return opened(t, Options{URL: database(t), Lease: 3 * time.Second})
}

// killable is an empty store and what a kill leaves of it: everything that the
// server has, and a lease that its successor of the same name need not await.
func killable(t *testing.T) (store.Store, func() store.Store) {
	s := fresh(t)
	return s, func() store.Store {
		s.letGo()
		return opened(t, s.options)
	}
}

func TestPostgresKeepsTheContract(t *testing.T) { storetest.Contract(t, killable, harm) }

// harm takes the last byte of records.
func harm(t *testing.T, s store.Store, table, id string) {
	t.Helper()
	key := map[string]string{"job": "id", "attempt": "job", "node": "id"}[table]
	text := "UPDATE synapse." + table + " SET record = substr(record, 1, length(record) - 1) WHERE " + key + " = $1"
	if tag, err := s.(*Store).writes.Exec(t.Context(), text, id); err != nil || tag.RowsAffected() != 1 {
		t.Fatalf("%v, %v", tag, err)
	}
}

func TestPostgresDoesAsMemoryDoes(t *testing.T) { storetest.Histories(t, killable, 5, 100) }
