package sqlite

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/store/sqlite/failing"
	"github.com/yi-json/synapse/topology"
)

// This file owns the tests of a write during which the disk or the driver fails. A part of it is never stored, and a
// repeated write is stored once.

// plan fails the next statement with this prefix: instead of executing it, or after it.
type plan struct {
	begins string
	after  bool
	hits   int
}

var errInjected = errors.New("the cable came out")

func (p *plan) fail(text string) (instead, after error) {
	if p.hits > 0 || !strings.HasPrefix(text, p.begins) {
		return nil, nil
	}
	if p.hits++; p.after {
		return nil, errInjected
	}
	return errInjected, nil
}

// three returns a transaction that affects every table.
func three(epoch uint64) []actors.Change {
	return []actors.Change{
		{Job: submitted(epoch, "a", 1), Attempts: []*messages.AttemptRecord{committed(epoch, "a", 1)}},
		{Job: submitted(epoch, "b", 2)},
		{Node: &messages.NodeRecord{Id: "n0", Revision: 1, WrittenBy: &messages.Token{Epoch: epoch, Counter: 3}}},
	}
}

func TestInDoubtIsAllOrNothing(t *testing.T) {
	for _, c := range []struct {
		begins  string
		after   bool
		written bool
	}{
		{"BEGIN", false, false},
		{"BEGIN", true, true}, // an open transaction is rolled back and started again
		{"INSERT OR ROLLBACK INTO job", false, false},
		{"INSERT OR ROLLBACK INTO job", true, false},
		{"INSERT OR ROLLBACK INTO attempt", false, false},
		{"INSERT OR ROLLBACK INTO node", true, false},
		{"UPDATE leader", true, false},
		{"COMMIT", false, false},
		{"COMMIT", true, true}, // it succeeded, but the answer was lost
	} {
		t.Run(c.begins+map[bool]string{false: ", not done", true: ", done"}[c.after], func(t *testing.T) {
			s, err := OpenBy(failing.Driver, filepath.Join(t.TempDir(), "synapse.db"))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			epoch, err := s.Lead("tester")
			if err != nil {
				t.Fatal(err)
			}
			p := &plan{begins: c.begins, after: c.after}
			failing.Set(s.path, p.fail)
			defer failing.Set(s.path, nil)
			if _, err := s.Apply(epoch, three(epoch)); !errors.Is(err, errInjected) && c.begins != "BEGIN" {
				t.Fatalf("apply: %v", err)
			}
			if p.hits != 1 {
				t.Fatalf("the fault happened %d times", p.hits)
			}
			presence(t, s, epoch, c.written)
			applied(t, s, epoch, three(epoch)...)
			presence(t, s, epoch, true)
			if err := s.Check(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// presence checks that the changes of three are stored completely or not at all.
func presence(t *testing.T, s *Store, epoch uint64, want bool) {
	t.Helper()
	l, err := s.Load(epoch)
	if err != nil {
		t.Fatal(err)
	}
	n := map[bool]int{true: 1, false: 0}[want]
	if len(l.Jobs) != 2*n || len(l.Attempts) != n || len(l.Nodes) != n {
		t.Fatalf("stored are %d jobs, %d attempts, %d machines; want all: %v",
			len(l.Jobs), len(l.Attempts), len(l.Nodes), want)
	}
	for _, id := range []topology.JobID{"a", "b"} {
		if _, _, err := s.Job(id); (err == nil) != want {
			t.Fatalf("job %s: %v", id, err)
		}
	}
}

// TestFullDisk checks that a full disk refuses writes and keeps its records. When there is space again, writes succeed.
func TestFullDisk(t *testing.T) {
	s := fresh(t)
	epoch, err := s.Lead("tester")
	if err != nil {
		t.Fatal(err)
	}
	applied(t, s, epoch, actors.Change{Job: submitted(epoch, "before", 1)})
	full := func(pages int) {
		t.Helper()
		var now int
		if err := s.write.conn.QueryRowContext(t.Context(), fmt.Sprintf("PRAGMA max_page_count = %d", pages)).
			Scan(&now); err != nil {
			t.Fatal(err)
		}
	}
	full(1) // limited to the used size
	big := submitted(epoch, "big", 2)
	big.Spec.Command = []string{strings.Repeat("x", 100_000)}
	change := []actors.Change{{Job: submitted(epoch, "beside", 3)}, {Job: big}}
	if _, err := s.Apply(epoch, change); err == nil || !strings.Contains(err.Error(), "full") ||
		errors.Is(err, store.ErrDamaged) {
		t.Fatalf("apply on a full disk: %v", err)
	}
	if _, _, err := s.Job("beside"); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("half a transaction is stored: %v", err)
	}
	if _, _, err := s.Job("before"); err != nil {
		t.Fatal(err)
	}
	full(1 << 30)
	applied(t, s, epoch, change...)
}

// TestFailingWrites checks writes while the kernel refuses to extend the log, as with a quota.
func TestFailingWrites(t *testing.T) {
	s := fresh(t)
	epoch, err := s.Lead("tester")
	if err != nil {
		t.Fatal(err)
	}
	applied(t, s, epoch, actors.Change{Job: submitted(epoch, "before", 1)})
	info, err := os.Stat(s.path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	limit := was
	limit.Cur = uint64(info.Size()) + 8192
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Skipf("the size of files cannot be limited here: %v", err)
	}
	big := submitted(epoch, "big", 2)
	big.Spec.Command = []string{strings.Repeat("x", 100_000)}
	_, failure := s.Apply(epoch, []actors.Change{{Job: big}})
	_, _, readErr := s.Job("before")
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	if failure == nil || errors.Is(failure, store.ErrDamaged) {
		t.Fatalf("apply without room: %v", failure)
	}
	if readErr != nil {
		t.Fatalf("reading meanwhile: %v", readErr)
	}
	applied(t, s, epoch, actors.Change{Job: big})
	s = opened(t, left(t, s))
	for _, id := range []topology.JobID{"before", "big"} {
		if _, _, err := s.Job(id); err != nil {
			t.Fatalf("job %s: %v", id, err)
		}
	}
}

// TestTheTablesHaveTheLastWord checks a change that the judge accepts and the tables refuse. An index is damaged, so a
// retry is useless.
func TestTheTablesHaveTheLastWord(t *testing.T) {
	s := fresh(t)
	epoch, err := s.Lead("tester")
	if err != nil {
		t.Fatal(err)
	}
	applied(t, s, epoch, actors.Change{
		Job: submitted(epoch, "a", 1), Attempts: []*messages.AttemptRecord{committed(epoch, "a", 1)},
	})
	for name, text := range map[string]string{
		"a token twice": "INSERT INTO attempt (job, epoch, counter, ended, owes, record) VALUES ('b', 1, 1, 0, " +
			"0, x'')",
		"two open attempts": "INSERT INTO attempt (job, epoch, counter, ended, owes, record) VALUES ('a', 1, 2, 0, " +
			"0, x'')",
		"an id twice": "INSERT INTO job SELECT 9, id, 1, 1, 1, 'bob', '', 1, 1, 0, 0, 0, 1, x'', '', '' " +
			"FROM job",
		"a request twice": "INSERT INTO job SELECT 9, 'c', 1, 1, 1, owner, request_id, 1, 1, 0, 0, 0, 1, x'', '', " +
			"'' FROM job",
		"a second row of leaders":  "INSERT INTO leader VALUES (2, 0, '', 0, 0)",
		"a machine twice":          "INSERT INTO node SELECT 'n', x'' UNION ALL SELECT 'n', x''",
		"a record that is no blob": "UPDATE job SET record = 'text'",
	} {
		err := s.write.transact(func() error { return s.write.script(text) })
		if err == nil || !errors.Is(judged(err), store.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
