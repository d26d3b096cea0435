package sim

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// This file tests worlds with two versions side by side.

// TestUpgrade simulates upgrades from the last published version and from one before it. Newer fields must not be
// required, neither in messages nor in ledgers.
func TestUpgrade(t *testing.T) {
	text, err := os.ReadFile("../messages/baseline.txt")
	if err != nil {
		t.Fatal(err)
	}
	lacks := []string{"synapse.v1.Hello.cluster_id", "synapse.v1.LedgerRecord.cluster_id", "synapse.v1.Exit.fault"}
	var older strings.Builder
	for line := range strings.Lines(string(text)) {
		if name, _, _ := strings.Cut(line, " = "); !slices.Contains(lacks, name) {
			older.WriteString(line)
		}
	}
	for name, baseline := range map[string]string{"last": "", "older": older.String()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t, Options{Seed: 1, World: "small", Faults: []string{"upgrade", "power-loss"}, Published: baseline})
			if r.Counters["fault.upgrade"] == 0 {
				t.Error("nothing was upgraded")
			}
			if baseline != "" && (r.Counters["version.stripped"] == 0 || r.Counters["version.kept"] == 0) {
				t.Errorf("no field was removed from a message: %v", r.Counters)
			}
		})
	}
}

// TestEarlierLeader simulates a leader of the previous version that records exits. It does not learn that tasks ended
// by themselves. S25 skips these exits, and no others.
func TestEarlierLeader(t *testing.T) {
	run(t, Options{Seed: 10, World: "small", Lean: []string{"store-restored"}})
}
