package sim

import (
	"fmt"
	"slices"
	"testing"

	"github.com/yi-json/synapse/actors/leader"
	"github.com/yi-json/synapse/actors/worker"
)

// rare are steps that no client of the simulated cluster can bring about.
var rare = []string{
	`task: "stopping" by "stop" to "stopping"`,    // a second Stop with less grace than the first
	`task: "preparing" by "started" to "running"`, // a spawn between ListTasks and PrepareTask: it takes thousands of seeds
	// What is lent has longer to start than a machine has to answer a Reserve. The scenario start-by-reserving takes it.
	`coordinator: "reserving" by "too late" to "aborting"`,
}

// TestEveryStepIsTaken runs seeds until each edge of each table was taken.
func TestEveryStepIsTaken(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes many seeds")
	}
	var results []Result
	for seed := uint64(5000); seed < 5300; seed++ {
		r, err := Run(Options{Seed: seed, World: "small"})
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, r)
		if seed%10 == 9 && len(untaken(results)) <= len(rare) {
			break
		}
	}
	for _, edge := range untaken(results) {
		if !slices.Contains(rare, edge) {
			t.Error("never taken:", edge)
		}
	}
}

// untaken lists the steps of the actors' state machines that none of these runs
// took: an edge that nothing ever takes is dead, or untested.
func untaken(results []Result) []string {
	var never []string
	for _, table := range append(leader.Tables(), worker.Tables()...) {
		for _, edge := range table.Edges {
			taken := Taken{table.Kind, edge.From(), edge.Event(), edge.To()}
			n := 0
			for _, r := range results {
				n += r.Taken[taken]
			}
			if n == 0 {
				never = append(never, fmt.Sprintf("%s: %q by %q to %q", table.Kind, edge.From(), edge.Event(), edge.To()))
			}
		}
	}
	return never
}
