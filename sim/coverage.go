package sim

import (
	"fmt"

	"github.com/yi-json/synapse/actors/leader"
	"github.com/yi-json/synapse/actors/worker"
)

// This file owns what a set of runs never reached.

// Fired counts, for each sort of fault and each lie, how often it struck in these runs.
func Fired(results []Result) map[string]int64 {
	fired := map[string]int64{}
	names := Sites()
	for _, lie := range Lies() {
		names = append(names, liePrefix+lie)
	}
	for _, name := range names {
		fired[name] = 0
		for _, r := range results {
			fired[name] += r.Counters["fault."+name]
		}
	}
	return fired
}

// Untaken lists the steps of the actors' state machines that none of these runs
// took: an edge that nothing ever takes is dead, or untested.
func Untaken(results []Result) []string {
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
