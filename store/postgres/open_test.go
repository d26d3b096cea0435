package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
)

// This file owns the tests of refusals by Open, and of the constraints of the tables.

func refused(t *testing.T, url string, words ...string) error {
	t.Helper()
	s, err := Open(Options{URL: url})
	if err == nil {
		_ = s.Close()
		t.Fatalf("it opened; want a refusal with %q", words)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Fatalf("refused with\n%v\nwithout %q", err, w)
		}
	}
	return err
}

func TestSchedulersMigrateOnce(t *testing.T) {
	url := database(t)
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			s, err := Open(Options{URL: url})
			if err != nil {
				t.Error(err)
				return
			}
			_ = s.Close()
		})
	}
	wait.Wait()
	s := opened(t, Options{URL: url})
	if err := s.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.Exec(t, url, "UPDATE synapse.version SET version = 99")
	refused(t, url, "newer synapse-scheduler", "schema 99", "run that version")
}

// TestMigrationsAreWhole checks that an interrupted migration leaves the old schema, and that the next start repeats
// it.
func TestMigrationsAreWhole(t *testing.T) {
	s := fresh(t)
	texts, err := schemas()
	if err != nil {
		t.Fatal(err)
	}
	err = pgx.BeginFunc(t.Context(), s.writes, func(tx pgx.Tx) error {
		return migrate(t.Context(), tx,
			append(texts, "CREATE TABLE synapse.more (x integer); CREATE TABLE synapse.job (x integer)"))
	})
	if err == nil {
		t.Fatal("a migration that makes a table twice went through")
	}
	if err := s.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	var there bool
	if err := s.reads.QueryRow(t.Context(), "SELECT to_regclass('synapse.more') IS NOT NULL").
		Scan(&there); err != nil || there {
		t.Fatalf("half of the failed migration is there (%v)", err)
	}
}

// TestOpenSetsDamagedRecordsAside checks that the store opens, and that the error names the damaged record and the
// problem.
func TestOpenSetsDamagedRecordsAside(t *testing.T) {
	s := fresh(t)
	epoch := mustLead(t, s, "tester")
	over := submitted(epoch, "over", 9)
	over.State, over.FinishedUnixMs = messages.JobState_JOB_STATE_SUCCEEDED, 5
	applied(t, s, epoch, append(three(epoch), actors.Change{Job: over})...)
	url := s.options.URL
	for _, c := range []struct{ name, damage, table, key string }{
		{"a job cut off", "UPDATE synapse.job SET record = substr(record, 1, length(record) - 3) WHERE id = 'a'", "job", "a"},
		{"an attempt cut off", "UPDATE synapse.attempt SET record = substr(record, 1, length(record) - 1)", "attempt",
			"a/00000001.00000001"},
		{"a machine of a later format", "UPDATE synapse.node SET record = '\\x02'::bytea || substr(record, 2)", "node", "n0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server.Exec(t, url, "CREATE TABLE kept AS SELECT * FROM synapse."+c.table, c.damage)
			opened(t, Options{URL: url})
			l, err := s.Load(epoch)
			if err != nil || len(l.Damaged) != 1 {
				t.Fatalf("load: %+v, %v", l, err)
			}
			for _, words := range []string{"table " + c.table + ",", fmt.Sprintf("key %q", c.key)} {
				if !strings.Contains(l.Damaged[0].What, words) {
					t.Fatalf("it is %q, without %q", l.Damaged[0].What, words)
				}
			}
			server.Exec(t, url, "TRUNCATE synapse."+c.table, "INSERT INTO synapse."+c.table+" SELECT * FROM kept",
				"DROP TABLE kept")
			opened(t, Options{URL: url})
		})
	}
	// Check also finds damage in records that no leader reads any more.
	server.Exec(t, url, "UPDATE synapse.job SET record = substr(record, 1, length(record) - 3) WHERE id = 'over'")
	opened(t, Options{URL: url})
	if err := s.Check(t.Context()); !errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), `key "over"`) {
		t.Fatalf("check of a damaged record: %v", err)
	}
}

// TestTheTablesHaveTheLastWord checks a change that the judge accepts and the tables refuse. An index is damaged, so a
// retry is useless.
func TestTheTablesHaveTheLastWord(t *testing.T) {
	s := fresh(t)
	epoch := mustLead(t, s, "tester")
	applied(t, s, epoch, three(epoch)...)
	for name, text := range map[string]string{
		"a token twice":     "INSERT INTO synapse.attempt VALUES (1, 1, 'b', true, true, '')",
		"two open attempts": "INSERT INTO synapse.attempt VALUES (1, 2, 'a', false, true, '')",
		"an id twice": "INSERT INTO synapse.job SELECT id, 1, 1, 1, 'bob', '', 1, 1, 0, 0, false, true, '' " +
			"FROM synapse.job",
		"a request twice": "INSERT INTO synapse.job SELECT 'c', 1, 1, 1, owner, request_id, 1, 1, 0, 0, false, " +
			"true, '' FROM synapse.job WHERE id = 'a'",
		"a second row of leaders": "INSERT INTO synapse.leader VALUES (false, 0, 0)",
		"a second lease":          "INSERT INTO synapse.lease VALUES (true, 0, '', now())",
		"a machine twice":         "INSERT INTO synapse.node VALUES ('n0', '')",
	} {
		if _, err := s.writes.Exec(t.Context(), text); err == nil || !errors.Is(judged(err), store.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTheServerMustSync checks that a server without fsync is refused. If a role's settings disable synchronous
// commits, the store enables them.
func TestTheServerMustSync(t *testing.T) {
	url := database(t)
	name := url[strings.LastIndex(url, "=")+1:]
	server.Exec(t, url, "ALTER DATABASE "+name+" SET synchronous_commit = off")
	s := opened(t, Options{URL: url})
	var setting string
	if err := s.writes.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&setting); err != nil || setting != "on" {
		t.Fatalf("synchronous_commit is %s (%v)", setting, err)
	}
	server.Exec(t, url, "ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
	defer server.Exec(t, url, "ALTER SYSTEM RESET fsync", "SELECT pg_reload_conf()")
	awaitSetting(t, url, "off")
	refused(t, url, "may lose acknowledged writes", "fsync off")
	server.Exec(t, url, "ALTER SYSTEM RESET fsync", "SELECT pg_reload_conf()")
	awaitSetting(t, url, "on")
	opened(t, Options{URL: url})
}

// awaitSetting waits until new connections have the server's new setting.
func awaitSetting(t *testing.T, url, want string) {
	t.Helper()
	for range 1000 {
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		var got string
		err = conn.QueryRow(t.Context(), "SHOW fsync").Scan(&got)
		_ = conn.Close(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if got == want {
			return
		}
	}
	t.Fatalf("the server never had fsync %s", want)
}

// TestQueriesGoByIndexes checks that every query for live jobs uses an index and does not scan finished jobs.
func TestQueriesGoByIndexes(t *testing.T) {
	s := fresh(t)
	conn, err := s.reads.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if _, err := conn.Exec(t.Context(), "SET plan_cache_mode = force_generic_plan"); err != nil {
		t.Fatal(err)
	}
	for i, text := range []string{
		liveJobs, liveAttempts, jobsByID, jobsByRequest, headsByJob, attemptsByToken, nodesByID, updateJobs,
		updateAttempts, updateNodes, unlearnedJobs, unlearnedAttempts, unnote, unnoteJobs,
	} {
		arguments := ""
		for n := 1; strings.Contains(text, fmt.Sprintf("$%d", n)); n++ {
			arguments += ", NULL"
		}
		if arguments != "" {
			arguments = "(" + arguments[2:] + ")"
		}
		if _, err := conn.Exec(t.Context(), fmt.Sprintf("PREPARE q%d AS %s", i, text)); err != nil {
			t.Fatal(err)
		}
		rows, err := conn.Query(t.Context(), fmt.Sprintf("EXPLAIN EXECUTE q%d%s", i, arguments),
			pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		if whole := strings.Join(plan, "\n"); !strings.Contains(whole, "Index") || strings.Contains(whole, "Seq Scan") {
			t.Errorf("%s\nwalks a whole table:\n%s", text, whole)
		}
	}
}

func TestOpenTellsThatNobodyIsThere(t *testing.T) {
	refused(t, "host="+t.TempDir()+" user=postgres password=secret dbname=none", "open PostgreSQL", "no such file")
	refused(t, "postgres://user:secret@[", "open PostgreSQL")
	for _, url := range []string{"host=" + t.TempDir() + " password=secret", "postgres://user:secret@["} {
		if _, err := Open(Options{URL: url}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Fatalf("the refusal shows the password: %v", err)
		}
	}
}
