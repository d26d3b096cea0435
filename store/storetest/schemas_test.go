package storetest

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/store/postgres"
	"github.com/yi-json/synapse/store/sqlite"
	"github.com/yi-json/synapse/test/pgtest"
)

// This file owns the tests of which programs may open a database: those that lack only additive migrations. They also
// check that a migration which is called additive looks additive.

var (
	comments = regexp.MustCompile(`--[^\n]*`)
	adds     = regexp.MustCompile(`(?s)^(CREATE TABLE (\S+) |CREATE INDEX |INSERT INTO (\S+) |` +
		`CREATE UNIQUE INDEX \S+ ON (\S+) |ALTER TABLE \S+ ADD COLUMN (.+)$)`)
)

// breaks returns the first breaking statement of a migration, or the empty string if there is none.
func breaks(migration string) string {
	made := map[string]bool{}
	for _, text := range strings.Split(comments.ReplaceAllString(migration, ""), ";") {
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		found := adds.FindStringSubmatch(text)
		if found == nil {
			return text
		}
		table, filled, unique, column := found[2], found[3], found[4], found[5]
		made[table], made[""] = true, true
		if !made[filled] || !made[unique] || strings.Contains(column, "NOT NULL") && !strings.Contains(column, "DEFAULT") {
			return text
		}
	}
	return ""
}

func TestBreaks(t *testing.T) {
	for _, c := range []struct {
		migration string
		breaks    bool
	}{
		{"-- DROP TABLE a;\nCREATE TABLE a (x INTEGER NOT NULL);\nINSERT INTO a VALUES (1);", false},
		{"CREATE TABLE a (x INTEGER); CREATE UNIQUE INDEX only ON a (x);", false},
		{"ALTER TABLE a ADD COLUMN x INTEGER; CREATE INDEX found ON a (x)", false},
		{"ALTER TABLE a ADD COLUMN x TEXT NOT NULL DEFAULT '';", false},
		{"ALTER TABLE a ADD COLUMN x TEXT NOT NULL;", true}, // an earlier program inserts no x
		{"CREATE UNIQUE INDEX only ON a (x);", true},        // and does not know the constraint
		{"INSERT INTO a VALUES (2);", true},
		{"UPDATE a SET x = 1;", true},
		{"CREATE TABLE b (x INTEGER); DROP TABLE a;", true},
		{"ALTER TABLE a DROP COLUMN x;", true},
		{"ALTER TABLE a RENAME COLUMN x TO y;", true},
	} {
		if got := breaks(c.migration); got != "" != c.breaks {
			t.Errorf("%s breaks by %q", c.migration, got)
		}
	}
}

// base is a database in its file or server, opened by the present program and changed from outside.
type base struct {
	migrations, prefix string // the folder of its migrations; the prefix of table names
	open               func() (store.Store, error)
	exec               func(statement string)
	number             func(query string) int
	// These statements read and write its version numbers: the schema's, and that of the last breaking migration.
	schema, oldest, setSchema, setOldest string
}

func TestSQLiteGoesOnWithAdditions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "synapse.db")
	connect := func() *sql.DB {
		db, err := sql.Open("sqlite", "file:"+path)
		must(t, err)
		return db
	}
	goesOnWithAdditions(t, &base{
		migrations: "../sqlite", open: func() (store.Store, error) { return sqlite.Open(path) },
		exec: func(statement string) {
			db := connect()
			defer db.Close()
			_, err := db.Exec(statement)
			must(t, err)
		},
		number: func(query string) (n int) {
			db := connect()
			defer db.Close()
			must(t, db.QueryRow(query).Scan(&n))
			return n
		},
		schema: "SELECT schema FROM version", setSchema: "UPDATE version SET schema = %d",
		oldest: "PRAGMA user_version", setOldest: "PRAGMA user_version = %d",
	})
}

func TestPostgresGoesOnWithAdditions(t *testing.T) {
	server := pgtest.Start(t)
	url := server.Database(t)
	goesOnWithAdditions(t, &base{
		migrations: "../postgres", prefix: "synapse.",
		open: func() (store.Store, error) { return postgres.Open(postgres.Options{URL: url, Lease: lease}) },
		exec: func(statement string) { server.Exec(t, url, statement) },
		number: func(query string) (n int) {
			conn, err := pgx.Connect(t.Context(), url)
			must(t, err)
			defer conn.Close(t.Context())
			must(t, conn.QueryRow(t.Context(), query).Scan(&n))
			return n
		},
		schema: "SELECT schema FROM synapse.version", setSchema: "UPDATE synapse.version SET schema = %d",
		oldest: "SELECT version FROM synapse.version", setOldest: "UPDATE synapse.version SET version = %d",
	})
}

// goesOnWithAdditions checks that a database with an unknown additive migration opens, and that the additions survive
// later writes. A database with an unknown breaking migration is refused.
func goesOnWithAdditions(t *testing.T, b *base) {
	w := &world{T: t, tried: tried{s: b.opened(t)}}
	w.lead()
	job, attempt := w.running("a", 1, 1)
	must(t, w.s.Close())

	all := schemasUpTo(t, b.migrations, 1000)
	schema, oldest := b.number(b.schema), b.number(b.oldest)
	if schema != len(all) || oldest == 0 || oldest > schema {
		t.Fatalf("it notes schema %d of %d, to be opened from %d on", schema, len(all), oldest)
	}
	for i, text := range all[oldest:] {
		if first := breaks(text); first != "" {
			t.Errorf("schema %d is called additive, and has: %s", oldest+i+1, first)
		}
	}
	later := fmt.Sprintf("CREATE TABLE %[1]slater (x INTEGER); INSERT INTO %[1]slater VALUES (7); "+
		"ALTER TABLE %[1]sjob ADD COLUMN later INTEGER NOT NULL DEFAULT 0; UPDATE %[1]sjob SET later = 8", b.prefix)
	b.exec(later)
	b.exec(fmt.Sprintf(b.setSchema, schema+1))

	w.s = b.opened(t)
	w.lead()
	w.stored(job, attempt)
	next := w.active(job, attempt)
	w.wrote("DD", jobChange(next), jobChange(w.submit("b", 2)))
	must(t, w.s.Close())
	for query, want := range map[string]int{ //order: each is asked for by itself
		"SELECT x FROM " + b.prefix + "later": 7, "SELECT later FROM " + b.prefix + "job WHERE id = 'a'": 8,
		"SELECT later FROM " + b.prefix + "job WHERE id = 'b'": 0, b.schema: schema + 1, b.oldest: oldest,
	} {
		if got := b.number(query); got != want {
			t.Errorf("%s: %d, want %d", query, got, want)
		}
	}

	b.exec(fmt.Sprintf(b.setOldest, schema+1))
	_, err := b.open()
	if err == nil {
		t.Fatal("a database with a breaking migration opened")
	}
	for _, words := range []string{"newer synapse-scheduler", fmt.Sprintf("schema %d", schema+1),
		fmt.Sprintf("with at least %d", schema+1), fmt.Sprintf("has %d", schema), "run that version"} {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("refused with\n%v\nwithout %q", err, words)
		}
	}
}

// opened opens the database with the present program.
func (b *base) opened(t *testing.T) store.Store {
	t.Helper()
	s, err := b.open()
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}
