package postgres

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/pgtest"
)

// This file owns the setup of this package's tests: one server, with a database for each test.

var (
	server  *pgtest.Server
	missing error // why there is no server
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

// database returns the URL of an empty database. Without PostgreSQL, it skips the test.
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
