package sim

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// This file owns the test of worlds in which two versions run side by side.

// TestUpgrade plays an upgrade from the version that was published last, and from
// one before it: what came since must not be needed, on the wire or in ledgers.
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
				t.Errorf("nothing was taken away: %v", r.Counters)
			}
		})
	}
}

// TestEarlierLeader plays a world in which a leader of the version before records exits: it does not hear that tasks
// ended by themselves. S25 looks away from those, and from no others.
func TestEarlierLeader(t *testing.T) {
	run(t, Options{Seed: 10, World: "small", Lean: []string{"store-restored"}})
}
