package sim

import "fmt"

// This file owns what a set of runs reached.

// Lending counts what was lent until somebody who is kept it must have it back.
type Lending struct {
	Committed int64 // attempts
	Late      int64 // of them, those that were given up after COMMIT because they had not started in time
	Resumed   int64 // those that a next leader found on their way
}

// Lent counts it in these runs.
func Lent(results []Result) (all Lending) {
	for _, r := range results {
		all.Committed += r.Counters["lent"]
		all.Late += r.Counters["lent.late"]
		all.Resumed += r.Counters["lent.resumed"]
	}
	return all
}

func (l Lending) String() string {
	return fmt.Sprintf("committed=%d late=%d resumed=%d", l.Committed, l.Late, l.Resumed)
}

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
