package storetest

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/store/postgres"
	"github.com/yi-json/synapse/store/sqlite"
	"github.com/yi-json/synapse/test/pgtest"
)

// This file owns the tested stores, and the effects of a kill, a restart and a bad disk on each.

// tried is a store with the events that may happen to it.
type tried struct {
	s      store.Store
	killed func() store.Store // opens the files that a killed process leaves; replaces the earlier stores
	again  func() store.Store // closes it and opens it again, as the next process does
	// damage makes records unreadable, as a disk does: the job's or node's own, or all attempts of the job.
	damage func(table, id string)
}

// opener creates an empty store.
type opener func(testing.TB) tried

func TestMemoryKeepsTheContract(t *testing.T)   { contract(t, openMemory) }
func TestSQLiteKeepsTheContract(t *testing.T)   { contract(t, openSQLite) }
func TestPostgresKeepsTheContract(t *testing.T) { contract(t, postgresOf(t, lease)) }

func TestMemoryDoesAsTheModel(t *testing.T)   { histories(t, openMemory, 60, 150) }
func TestSQLiteDoesAsTheModel(t *testing.T)   { histories(t, openSQLite, 20, 120) }
func TestPostgresDoesAsTheModel(t *testing.T) { histories(t, postgresOf(t, lease), 3, 120) }

func BenchmarkSQLite(b *testing.B)   { benchmarks(b, openSQLite) }
func BenchmarkPostgres(b *testing.B) { benchmarks(b, postgresOf(b, lease)) }

func openMemory(testing.TB) tried {
	m := store.NewMemory()
	return tried{s: m, killed: func() store.Store { m.Crash(); return m }, damage: m.Damage}
}

func openSQLite(t testing.TB) tried {
	path := filepath.Join(t.TempDir(), "synapse.db")
	var s store.Store
	open := func() store.Store {
		t.Helper()
		var err error
		s, err = sqlite.Open(path)
		must(t, err)
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	return tried{
		s: open(),
		// A killed process leaves the files as they are on disk, without the effects of closing.
		killed: func() store.Store {
			to := filepath.Join(t.TempDir(), "synapse.db")
			for _, suffix := range []string{"", "-wal"} {
				data, err := os.ReadFile(path + suffix)
				must(t, err)
				must(t, os.WriteFile(to+suffix, data, 0o600))
			}
			path = to
			return open()
		},
		again: func() store.Store { must(t, s.Close()); return open() },
		damage: func(table, id string) {
			t.Helper()
			db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
			must(t, err)
			defer db.Close()
			changed, err := db.Exec(fmt.Sprintf(shorten, table, keyOf[table], "?"), id)
			must(t, err)
			n, err := changed.RowsAffected()
			only(t, n, err)
		},
	}
}

// shorten removes the last byte of records.
const shorten = "UPDATE %s SET record = substr(record, 1, length(record) - 1) WHERE %s = %s"

// keyOf maps a table to the column that names the job or node of a record.
var keyOf = map[string]string{"job": "id", "attempt": "job", "node": "id", "policy": "''", "queues": "''", "pass": "id"}

// only fails the test unless exactly one record was damaged.
func only(t testing.TB, changed int64, err error) {
	t.Helper()
	if err != nil || changed != 1 {
		t.Fatalf("%d records are damaged: %v", changed, err)
	}
}

// lease is how long no other leader takes over in PostgreSQL.
const lease = 3 * time.Second

// postgresOf opens databases of one server. Without PostgreSQL, it skips the test.
func postgresOf(t testing.TB, lease time.Duration) opener {
	server := pgtest.Start(t)
	return func(t testing.TB) tried {
		url := server.Database(t)
		var s store.Store
		open := func() store.Store {
			t.Helper()
			var err error
			s, err = postgres.Open(postgres.Options{URL: url, Lease: lease})
			must(t, err)
			t.Cleanup(func() { _ = s.Close() })
			return s
		}
		// After a kill, the server keeps everything, including a lease. A successor with the same name need not wait for it.
		again := func() store.Store { must(t, s.Close()); return open() }
		return tried{s: open(), killed: again, again: again, damage: func(table, id string) {
			t.Helper()
			conn, err := pgx.Connect(t.Context(), url)
			must(t, err)
			defer conn.Close(t.Context())
			changed, err := conn.Exec(t.Context(), fmt.Sprintf(shorten, "synapse."+table, keyOf[table], "$1"), id)
			only(t, changed.RowsAffected(), err)
		}}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
