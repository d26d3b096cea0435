package worker

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/yi-json/synapse/messages"
)

// This file owns the Node's golden scenarios: the messages of a leader, a launcher, a disk and the clock to a node
// agent, and everything that the agent sends. The simulated node is in rig_test.go.

// TestNodeScenarios replays testdata/node, and checks that the scenarios take every transition of the Node's and the
// Task's tables.
func TestNodeScenarios(t *testing.T) {
	taken := map[string]bool{}
	datadriven.Walk(t, "testdata/node", func(t *testing.T, path string) {
		var r *nodeRig
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "machine" {
				gpus := 2
				d.MaybeScanArgs(t, "gpus", &gpus)
				r = newNodeRig(t, gpus)
				r.taken = taken
			}
			if r == nil {
				d.Fatalf(t, "begin with a machine")
			}
			r.said.Reset()
			r.step(t, d)
			return r.said.String()
		})
	})
	if partial() {
		return
	}
	for _, table := range Tables() {
		for _, e := range table.Edges {
			if edge := fmt.Sprintf("%s: %s -%s-> %s", table.Kind, e.From(), e.Event(), e.To()); !taken[edge] {
				t.Errorf("no scenario takes %s", edge)
			}
		}
	}
}

// partial reports whether only some of the scenarios were requested.
func partial() bool {
	f := flag.Lookup("test.run")
	return f != nil && strings.Contains(f.Value.String(), "/")
}

// TestNodeRecord checks that a written record is read back, and that any other bytes are recognized as corrupt.
func TestNodeRecord(t *testing.T) {
	r := nodeRecordOf(t)
	data := encodeRecord(r)
	if _, err := decodeRecord(data); err != nil {
		t.Fatal(err)
	}
	for i := range data {
		for _, flip := range []byte{1, 0x80} {
			bad := slices.Clone(data)
			bad[i] ^= flip
			if _, err := decodeRecord(bad); err == nil {
				t.Fatalf("a change of byte %d is not detected", i)
			}
		}
		if _, err := decodeRecord(data[:i]); err == nil {
			t.Fatalf("a record cut at %d is not detected", i)
		}
	}
}

// TestNewerRecordIsKept checks that unknown fields of a newer agent's record are kept in the next record.
func TestNewerRecordIsKept(t *testing.T) {
	was, later := nodeRecordOf(t), []byte{0xf8, 0x3f, 7}
	was.ProtoReflect().SetUnknown(later)
	was.Slices[0].ProtoReflect().SetUnknown(later)
	r := newNodeRig(t, 2)
	r.disk.content = encodeRecord(was)
	r.start()
	is, err := decodeRecord(r.node.encodeBooks())
	if err != nil {
		t.Fatal(err)
	}
	if got := messages.Newer(is); !slices.Equal(got, later) {
		t.Errorf("the record has %v", got)
	}
	if len(is.Slices) != 1 || !slices.Equal(messages.Newer(is.Slices[0]), later) {
		t.Errorf("its slices are %v", is.Slices)
	}
}

// FuzzNodeRecord checks that no bytes on disk make the decoder panic.
func FuzzNodeRecord(f *testing.F) {
	f.Add(encodeRecord(nodeRecordOf(f)))
	f.Add([]byte(nil))
	f.Add([]byte("SYNL\x01\x00\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := decodeRecord(data)
		if (r == nil) == (err == nil) {
			t.Fatalf("%v and %v", r, err)
		}
		if err == nil {
			for _, s := range r.Slices {
				allocationOf(s) // reading is safe for any record
			}
		}
	})
}
