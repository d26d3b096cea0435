package storetest

import (
	"database/sql"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/store/postgres"
	"github.com/yi-json/synapse/store/sqlite"
	"github.com/yi-json/synapse/test/pgtest"
)

// This file owns the statistics records of earlier versions. The bytes are as those versions wrote them, in databases
// with their schemas. A renumbered field fails here. So does a check that reports records without a newer field as
// damaged.

// olderPolicies holds one policy record, of write 77 of epoch 3, sealed, as three versions wrote it.
var olderPolicies = []struct{ name, cells, more string }{
	{"cells", "01c849b52e", ""},
	{"cells and credits", "0169948558", olderCredits},
	{"cells, credits and use", "012b53f618", olderCredits + olderUses},
}

const (
	olderCells = "0a040803104d121908011a046831303030808080063880a29511400c4880808006121908031205616c6963653085" +
		"80c0013887ad4b40034880808001"
	olderCredits = "1a0b10a8c9ffffffffffffff011a0b0a046831303010959aef3a"
	olderUses    = "2202180522100a08726573656172636818b1d1f9d60322150a0872657365617263681205616c69636518e0d702"
)

// olderPolicy returns the content of the n-th of them.
func olderPolicy(n int) *messages.PolicyRecord {
	r := &messages.PolicyRecord{WrittenBy: &messages.Token{Epoch: 3, Counter: 77}, Cells: []*messages.Cell{
		{Level: messages.CellLevel_CELL_LEVEL_POOL, Group: "h100", Count: 12 << 20, Sum: 36_000_000, Ended: 12,
			Used: 12 << 20},
		{Level: messages.CellLevel_CELL_LEVEL_OWNER, Owner: "alice", Count: 3<<20 + 5, Sum: 1_234_567, Ended: 3,
			Used: 2 << 20},
	}}
	if n >= 1 {
		r.Credits = []*messages.Credit{{MilliGpuSeconds: -7_000}, {Pool: "h100", MilliGpuSeconds: 123_456_789}}
	}
	if n >= 2 {
		r.Uses = []*messages.QueueUse{{MilliGpuMs: 5}, {Queue: "research", MilliGpuMs: 987_654_321},
			{Queue: "research", Owner: "alice", MilliGpuMs: 44_000}}
	}
	return r
}

func olderSealed(t *testing.T, n int) []byte {
	t.Helper()
	sealed, err := hex.DecodeString(olderPolicies[n].cells + olderCells + olderPolicies[n].more)
	must(t, err)
	return sealed
}

// ofThen opens a database of an old schema with the present program. The database contains a policy record, or none.
type ofThen func(t *testing.T, schema int, sealed []byte) store.Store

func TestMemoryTakesOlderPolicies(t *testing.T) {
	for n, older := range olderPolicies {
		t.Run(older.name, func(t *testing.T) {
			w := &world{T: t, tried: openMemory(t)}
			for range 4 {
				w.lead()
			}
			record := new(messages.PolicyRecord)
			must(t, proto.Unmarshal(olderSealed(t, n)[5:], record)) // it has no file, so another store's record is used
			w.wrote("D", actors.Change{Policy: record})
			w.goesOn(olderPolicy(n))
		})
	}
}

func TestSQLiteReadsOlderPolicies(t *testing.T) {
	olderPoliciesAreRead(t, "../sqlite", "policy", func(t *testing.T, schema int, sealed []byte) store.Store {
		path := filepath.Join(t.TempDir(), "synapse.db")
		db, err := sql.Open("sqlite", "file:"+path)
		must(t, err)
		for _, text := range schemasUpTo(t, "../sqlite", schema) {
			_, err = db.Exec(text)
			must(t, err)
		}
		_, err = db.Exec(fmt.Sprintf("UPDATE leader SET epoch = 3; PRAGMA application_id = %d; PRAGMA user_version = %d",
			0x53594e41, schema))
		must(t, err)
		if sealed != nil {
			_, err = db.Exec("INSERT INTO policy (one, epoch, counter, record) VALUES (1, 3, 77, ?)", sealed)
			must(t, err)
		}
		must(t, db.Close())
		s, err := sqlite.Open(path)
		must(t, err)
		return s
	})
}

func TestPostgresReadsOlderPolicies(t *testing.T) {
	server := pgtest.Start(t)
	olderPoliciesAreRead(t, "../postgres", "synapse.policy", func(t *testing.T, schema int, sealed []byte) store.Store {
		url := server.Database(t)
		server.Exec(t, url, "CREATE SCHEMA synapse; CREATE TABLE synapse.version (version integer NOT NULL)")
		server.Exec(t, url, schemasUpTo(t, "../postgres", schema)...)
		server.Exec(t, url, fmt.Sprintf("INSERT INTO synapse.version VALUES (%d); UPDATE synapse.leader SET epoch = 3;"+
			"UPDATE synapse.lease SET epoch = 3", schema))
		if sealed != nil {
			server.Exec(t, url, fmt.Sprintf(`INSERT INTO synapse.policy (epoch, counter, record) VALUES (3, 77, '\x%x')`, sealed))
		}
		s, err := postgres.Open(postgres.Options{URL: url, Lease: lease})
		must(t, err)
		return s
	})
}

// schemasUpTo returns the first migrations of a database.
func schemasUpTo(t *testing.T, of string, schema int) []string {
	t.Helper()
	all, err := store.Schemas(os.DirFS(of))
	must(t, err)
	return all[:min(schema, len(all))]
}

// olderPoliciesAreRead opens each older record in the first schema that has a place for it and in the present one. It
// also opens the schema before, without a record.
func olderPoliciesAreRead(t *testing.T, of, table string, open ofThen) {
	texts := schemasUpTo(t, of, 1000)
	first := 0
	for !strings.Contains(texts[first], "CREATE TABLE "+table+" ") {
		first++
	}
	try := func(name string, schema int, sealed []byte, want *messages.PolicyRecord) {
		t.Run(fmt.Sprintf("schema %d with %s", schema, name), func(t *testing.T) {
			s := open(t, schema, sealed)
			t.Cleanup(func() { _ = s.Close() })
			w := &world{T: t, tried: tried{s: s, killed: func() store.Store { return s }}}
			w.lead()
			w.goesOn(want)
		})
	}
	try("nothing", first, nil, nil)
	for _, schema := range []int{first + 1, len(texts)} {
		for n, older := range olderPolicies {
			try(older.name, schema, olderSealed(t, n), olderPolicy(n))
		}
	}
}

// goesOn checks that a leader reads the earlier statistics, and that its own record replaces them.
func (w *world) goesOn(from *messages.PolicyRecord) {
	w.Helper()
	w.learns(from)
	next := w.policy("erin")
	next.Cells = append(from.GetCells(), next.Cells...)
	next.Credits, next.Uses = from.GetCredits(), from.GetUses()
	w.wrote("D", actors.Change{Policy: next})
	w.learns(next)
}
