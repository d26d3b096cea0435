package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const before = `syntax = "proto3";
package toy.v1;
option go_package = "example.org/toy";
import "names.proto";
enum Colour { COLOUR_UNSPECIFIED = 0; COLOUR_RED = 1; }
message Job { string id = 1; Name name = 2; oneof why { string a = 3; string b = 4; } repeated int32 ranks = 5; string note = 6; }
service Desk { rpc Ask(Job) returns (Name); }
`

const names = `syntax = "proto3";
package toy.v1;
option go_package = "example.org/toy";
message Name { string first = 1; }
`

// tree creates a repository of two .proto files that were published once.
func tree(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "messages"), 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, root, "messages/job.proto", before)
	put(t, root, "messages/names.proto", names)
	t.Chdir("..") // `go tool` runs in the tools module's root.
	if err := run(root, false); err != nil {
		t.Fatal(err)
	}
	if err := run(root, true); err != nil {
		t.Fatalf("the files that were just written differ: %v", err)
	}
	return root
}

func put(t *testing.T, root, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestAdditiveLawRefuses checks that published definitions stay. Each of these changes must be rejected with the name
// of the broken definition.
func TestAdditiveLawRefuses(t *testing.T) {
	root := tree(t)
	for _, change := range []struct{ old, new, names string }{
		{`string id = 1; `, ``, "toy.v1.Job.id = 1 string single   (removed)"},
		{`string id = 1`, `string id = 7`, "toy.v1.Job.id = 1 string single   (now 7"},
		{`string id = 1`, `bytes id = 1`, "(now 1 bytes single)"},
		{`string id = 1`, `repeated string id = 1`, "(now 1 string repeated)"},
		{`string id = 1`, `optional string id = 1`, "(now 1 string optional)"},
		{`string b = 4; }`, `} string b = 4;`, "toy.v1.Job.b = 4 string oneof why   (now 4 string single)"},
		{`COLOUR_RED = 1`, `COLOUR_RED = 2`, "toy.v1.Colour.COLOUR_RED = 1   (now 2)"},
		{`returns (Name)`, `returns (stream Name)`, "toy.v1.Desk.Ask"},
		{`string note = 6;`, `reserved 6;`, "toy.v1.Job.note"},
	} {
		put(t, root, "messages/job.proto", strings.Replace(before, change.old, change.new, 1))
		err := run(root, false)
		if err == nil || !strings.Contains(err.Error(), change.names) {
			t.Errorf("%s → %s: want %q, not %v", change.old, change.new, change.names, err)
		}
	}
}

// TestAdditionsPass checks that -check reports an addition until it is generated, and that it is published then.
func TestAdditionsPass(t *testing.T) {
	root := tree(t)
	put(t, root, "messages/job.proto", strings.Replace(before, "string id = 1;", "string id = 1; int64 since_ns = 9;", 1))
	err := run(root, true)
	if err == nil || !strings.Contains(err.Error(), "messages/job.pb.go:") {
		t.Errorf("-check must name the file that is out of date, not %v", err)
	}
	if err := run(root, false); err != nil {
		t.Fatal(err)
	}
	baseline, err := os.ReadFile(filepath.Join(root, baselineFile))
	if err != nil || !strings.Contains(string(baseline), "toy.v1.Job.since_ns = 9 int64 single\n") {
		t.Errorf("the addition is not in the baseline: %v", err)
	}
}

// TestStaleFilesGo checks that a generated file without its source is reported, and removed.
func TestStaleFilesGo(t *testing.T) {
	root := tree(t)
	put(t, root, "messages/old.pb.go", "package toy")
	if err := run(root, true); err == nil || !strings.Contains(err.Error(), "messages/old.pb.go") {
		t.Errorf("-check must name the stale file, not %v", err)
	}
	if err := run(root, false); err != nil {
		t.Fatal(err)
	}
	if err := run(root, true); err != nil {
		t.Error(err)
	}
}
