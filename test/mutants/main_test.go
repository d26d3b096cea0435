// The harness is tested on a toy system of one rule. Seeds catch some of its bugs, a scenario catches others, and
// nothing catches the rest.
package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/mutants/patch"
)

func toy() trial {
	return trial{
		root: "testdata/toy", patches: "testdata/toy/mutants", program: "./cmd/synapse-sim", world: "small", tests: "./world",
		seeds: 4, atOnce: 2, limit: time.Minute, seedLimit: 10 * time.Second,
	}
}

func TestHarnessTellsCaughtFromSurvived(t *testing.T) {
	var lines []string
	survivors, err := toy().run(func(line string) { lines = append(lines, line) })
	if err != nil {
		t.Fatal(err)
	}
	if survivors != 1 {
		t.Errorf("want 1 survivor, not %d", survivors)
	}
	slices.Sort(lines)
	want := []string{
		"mutant admit-all caught by seed=3 (T1 admission)",
		"mutant admit-built caught by test world TestBuilt (exit 1)",
		"mutant admit-third caught by scenario third (exit 1)",
		"mutant admit-third-too caught by test world TestAdmit (exit 1)",
		"mutant unseen SURVIVED after 4 seeds",
		"mutant unsteady caught by seed=1 (S16 same-trace)",
		"mutants=6 caught=5 survived=1 seeds=8 took=",
	}
	for i, line := range lines {
		if i >= len(want) || !strings.HasPrefix(line, want[i]) {
			t.Errorf("unexpected line %q", line)
		}
	}
	if len(lines) != len(want) {
		t.Errorf("want %d lines, not %q", len(want), lines)
	}
}

// TestHarnessRefusesAFailingTree checks that no mutant counts as caught if the unchanged code already fails.
func TestHarnessRefusesAFailingTree(t *testing.T) {
	broken := toy()
	broken.world = "vast"
	if _, err := broken.run(func(string) {}); err == nil || !strings.Contains(err.Error(), "already fails") {
		t.Errorf("want an error, got %v", err)
	}
}

// TestHarnessRefusesAMissingTest checks that a test that does not exist, or is skipped, does not count as a test that
// noticed nothing.
func TestHarnessRefusesAMissingTest(t *testing.T) {
	for _, name := range []string{"TestNothing", "TestSkipped"} {
		m := patch.Mutant{Name: name, Package: "world", Test: name}
		v := toy().tryUnharmed([]patch.Mutant{m}, t.TempDir())
		if v.err == nil || !strings.Contains(v.err.Error(), "test world "+name+" does not exist or was skipped") {
			t.Errorf("want an error, got %v", v)
		}
	}
}

func TestEvidenceNamesTheInvariantFirst(t *testing.T) {
	for output, want := range map[string]string{
		"x\nviolation: S3 barrier: rank 1 ran early\npanic: late": "S3 barrier",
		"panic: illegal edge\n\ngoroutine 1":                      "panic: illegal edge",
		"fatal error: out of memory":                              "fatal error: out of memory",
		"":                                                        "exit 1",
	} {
		if got := readEvidence(output, "exit 1"); got != want {
			t.Errorf("%q: want %q, not %q", output, want, got)
		}
	}
}
