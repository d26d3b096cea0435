package sim

import (
	"slices"
	"testing"
)

// rare are steps that no client of the simulated cluster can bring about.
var rare = []string{
	`task: "stopping" by "stop" to "stopping"`,    // a second Stop with less grace than the first
	`task: "preparing" by "started" to "running"`, // a spawn between ListTasks and PrepareTask: it takes thousands of seeds
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
		if seed%10 == 9 && len(Untaken(results)) <= len(rare) {
			break
		}
	}
	for _, edge := range Untaken(results) {
		if !slices.Contains(rare, edge) {
			t.Error("never taken:", edge)
		}
	}
}
