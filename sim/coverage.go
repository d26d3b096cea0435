package sim

// This file counts what a set of runs reached.

// Fired counts how often each fault and each lie occurred in these runs.
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
