package sqlite

import (
	"bytes"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
)

// This file owns the tests of refusals by Open, and of their texts.

func refused(t *testing.T, path string, words ...string) {
	t.Helper()
	s, err := Open(path)
	if err == nil {
		_ = s.Close()
		t.Fatalf("it opened; want a refusal with %q", words)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Fatalf("refused with\n%v\nwithout %q", err, w)
		}
	}
}

// edit changes a closed file without the store.
func edit(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open(driver, source(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range statements {
		if _, err := db.Exec(text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// small creates a closed file with one running job, one finished job, and one node.
func small(t *testing.T) string {
	t.Helper()
	s := fresh(t)
	epoch, err := s.Lead("tester")
	if err != nil {
		t.Fatal(err)
	}
	running, attempt := submitted(epoch, "running", 1), committed(epoch, "running", 1)
	over := submitted(epoch, "over", 2)
	over.State, over.FinishedUnixMs = messages.JobState_JOB_STATE_SUCCEEDED, 5
	node := &messages.NodeRecord{
		Id: "n0", Revision: 1, WrittenBy: &messages.Token{Epoch: epoch, Counter: 3}, MachineId: "m0",
	}
	applied(t, s, epoch, actors.Change{Job: running, Attempts: []*messages.AttemptRecord{attempt}},
		actors.Change{Job: over}, actors.Change{Node: node})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return s.path
}

func submitted(epoch uint64, id string, write uint64) *messages.JobRecord {
	return &messages.JobRecord{
		Id: id, Revision: 1, WrittenBy: &messages.Token{Epoch: epoch, Counter: write}, Arrival: write,
		Spec:  &messages.JobSpec{Name: "train", Image: "host", Gang: &messages.GangSpec{ReplicasMin: 1, ReplicasMax: 1}},
		Owner: &messages.Principal{Name: "alice"}, RequestId: "r" + id, State: messages.JobState_JOB_STATE_QUEUED,
	}
}

func committed(epoch uint64, job string, counter uint64) *messages.AttemptRecord {
	return &messages.AttemptRecord{
		Job: job, Token: &messages.Token{Epoch: epoch, Counter: counter}, Run: 1, CommittedUnixMs: 1,
		Places: []*messages.Place{{Node: "n0", MachineId: "m0", Grant: &messages.Grant{
			Amount: &messages.Resources{MilliGpu: 1000}, Gpus: []*messages.GpuShare{{GpuId: "gpu-a", Milli: 1000}},
		}}},
	}
}

func applied(t testing.TB, s *Store, epoch uint64, changes ...actors.Change) {
	t.Helper()
	verdicts, err := s.Apply(epoch, changes)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range verdicts {
		if v != actors.Done {
			t.Fatalf("change %d is a conflict: %v", i, s.Broken())
		}
	}
}

func TestOnlyOneProcessHasTheFile(t *testing.T) {
	s := fresh(t)
	who := fmt.Sprintf("is in use by another synapse-scheduler (pid %d)", os.Getpid())
	refused(t, s.path, s.path, who)
	alias := filepath.Join(t.TempDir(), "alias.db")
	if err := os.Symlink(s.path, alias); err != nil {
		t.Fatal(err)
	}
	refused(t, alias, who)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	opened(t, alias)
}

func TestOpenRefusesWhatIsNotItsOwn(t *testing.T) {
	t.Run("a newer schema", func(t *testing.T) {
		path := small(t)
		edit(t, path, "PRAGMA user_version = 99")
		refused(t, path, path, "newer synapse-scheduler", "schema 99", "run that version")
	})
	t.Run("another program's database", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "other.db")
		edit(t, path, "CREATE TABLE song (title TEXT)")
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		refused(t, path, path, "another program")
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
			t.Fatalf("it was changed (%v)", err)
		}
	})
	t.Run("no database at all", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "letter.db")
		if err := os.WriteFile(path, bytes.Repeat([]byte("Dear all, "), 500), 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, path, path, "not a database", "damaged")
	})
	t.Run("a folder that is not there", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "none", "synapse.db")
		refused(t, path, path)
	})
}

// TestMigrationsAreWhole checks that an interrupted migration leaves the old schema, and that the next start repeats
// it.
func TestMigrationsAreWhole(t *testing.T) {
	s := fresh(t)
	before := version(t, s)
	if err := s.write.migrate(before,
		append(make([]string, before), "CREATE TABLE more (x INTEGER) STRICT; CREATE TABLE job (x)")); err == nil {
		t.Fatal("a migration that makes a table twice went through")
	}
	var tables int
	if err := s.write.one("SELECT count(*) FROM sqlite_schema WHERE name = 'more'", nil, &tables); err != nil ||
		tables != 0 {
		t.Fatalf("%d tables of the failed migration are there (%v)", tables, err)
	}
	if after := version(t, s); after != before {
		t.Fatalf("the schema was %d and is %d", before, after)
	}
}

func version(t *testing.T, s *Store) int {
	t.Helper()
	v, err := s.write.version(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	return v.Schema
}

// TestOpenSetsDamagedRecordsAside checks that the store opens, and that the error names the damaged record and the
// problem.
func TestOpenSetsDamagedRecordsAside(t *testing.T) {
	const attempt = "running/00000001.00000001"
	cut := func(b []byte) []byte { return b[:len(b)-1] }
	foreign := func(b []byte) []byte { b[0] = 2; return b }
	for _, c := range []struct {
		name, table, key string
		damage           func([]byte) []byte
		words            string
	}{
		{"a job cut off", "job", "running", cut, "checksum"},
		{"a job cut to nothing", "job", "running", func([]byte) []byte { return []byte{} }, "fewer than a seal"},
		{"a job of a later format", "job", "running", foreign, "format 2"},
		{"one bit of a job", "job", "running", func(b []byte) []byte { b[20] ^= 4; return b }, "checksum"},
		{"an attempt cut off", "attempt", attempt, cut, "checksum"},
		{"an attempt of nothing", "attempt", attempt, func([]byte) []byte { return sealed(nil) }, "record is invalid"},
		{"an attempt that is no message", "attempt", attempt, func([]byte) []byte { return sealed([]byte{0xff}) },
			"cannot be decoded"},
		{"an attempt of another job", "attempt", attempt,
			func([]byte) []byte { return sealed(encoded(t, committed(1, "other", 1))) }, `it contains the record of "other/`},
		{"a machine cut off", "node", "n0", cut, "checksum"},
		{"a machine of another name", "node", "n0", func([]byte) []byte {
			return sealed(encoded(t, &messages.NodeRecord{Id: "n1", Revision: 1, WrittenBy: &messages.Token{Epoch: 1}}))
		}, `it contains the record of "n1"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := small(t)
			damage(t, path, c.table, c.damage)
			s := opened(t, path)
			epoch, err := s.Lead("tester")
			if err != nil {
				t.Fatal(err)
			}
			l, err := s.Load(epoch)
			if err != nil || len(l.Damaged) != 1 || len(l.Jobs)+len(l.Nodes) != 1 {
				t.Fatalf("%+v, %v", l, err)
			}
			for _, words := range []string{"table " + c.table + ",", fmt.Sprintf("key %q", c.key), c.words} {
				if !strings.Contains(l.Damaged[0].What, words) {
					t.Fatalf("it is %q, without %q", l.Damaged[0].What, words)
				}
			}
		})
	}
}

// damage changes the first record of a table.
func damage(t *testing.T, path, table string, how func([]byte) []byte) {
	t.Helper()
	db, err := sql.Open(driver, source(path))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var record []byte
	if err := db.QueryRow("SELECT record FROM " + table + " ORDER BY rowid LIMIT 1").Scan(&record); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("UPDATE "+table+" SET record = ? WHERE rowid = (SELECT min(rowid) FROM "+table+")",
		how(record)); err != nil {
		t.Fatal(err)
	}
}

// sealed returns the stored form of an invalid record.
func sealed(record []byte) []byte {
	out := binary.BigEndian.AppendUint32([]byte{1}, crc32.Checksum(record, crc32.MakeTable(crc32.Castagnoli)))
	return append(out, record...)
}

func encoded(t *testing.T, m proto.Message) []byte {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestTheFileIsForItsOwnerOnly(t *testing.T) {
	s := opened(t, filepath.Join(t.TempDir(), "a folder with spaces, 100%?.db"))
	if _, err := s.Lead("tester"); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
		info, err := os.Stat(s.path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != fileMode {
			t.Errorf("%s has mode %v", info.Name(), info.Mode())
		}
	}
}

// TestAnotherHolder checks that an epoch which another process has with the same number is refused.
func TestAnotherHolder(t *testing.T) {
	s := fresh(t)
	epoch, err := s.Lead("a")
	if err != nil {
		t.Fatal(err)
	}
	applied(t, s, epoch, three(epoch)...)
	if err := s.write.transact(func() error { return s.write.change(1, "UPDATE leader SET holder = 'b'") }); err != nil {
		t.Fatal(err)
	}
	_, applyErr := s.Apply(epoch, nil)
	_, loadErr := s.Load(epoch)
	_, pruneErr := s.Prune(epoch, 1, 1)
	for i, err := range []error{applyErr, loadErr, pruneErr} {
		if !errors.Is(err, store.ErrDeposed) {
			t.Errorf("call %d of the earlier leader: %v", i, err)
		}
	}
}
