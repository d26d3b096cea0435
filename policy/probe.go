package policy

// This file owns probes: of several jobs alike of which none has been started yet, one has its turn earlier, for how
// long it runs tells how long the others will. It must never bring a second one forward: the others wait for what the
// first one tells.

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/yi-json/synapse/topology"
)

// isUntried reports whether a burst has a job to be tried. Gangs are not: they take much room for one answer.
func (b *burst) isUntried(j *Judgement) bool {
	return !b.tried && !b.gang && len(b.jobs) > 1 && !j.settings.lacks.probes
}

// early is the rank of a burst's probe: the more there are of whom it tells, the earlier.
func (b *burst) early() int64 { return topology.Scaled(b.rank, 1000, rootOf(int64(len(b.jobs))*1000)) }

// rootOf is the square root of an amount, both in thousandths.
func rootOf(amount int64) (root int64) {
	n := min(amount, math.MaxInt64/1000) * 1000
	for bit := int64(1) << (bits.Len64(uint64(n)) / 2); bit > 0; bit /= 2 {
		if more := root + bit; more <= n/more {
			root = more
		}
	}
	return root
}

// turnRank is where a burst stands with the job whose turn it is.
func (b *burst) turnRank() int64 {
	if b.probes {
		return b.early()
	}
	return b.rank
}

// untried are the bursts that have a probe, in the order of those.
func untried(all []*burst) (some []*burst) {
	for _, b := range all {
		if b.probes {
			some = append(some, b)
		}
	}
	slices.SortFunc(some, func(a, b *burst) int { return a.probeBefore(b, b.early()) })
	return some
}

// probeBefore compares a burst's probe with what another one has at a rank.
func (b *burst) probeBefore(o *burst, rank int64) int {
	return cmp.Or(cmp.Compare(o.key.priority, b.key.priority), cmp.Compare(b.early(), rank), entryOrder(b.head, o.head))
}

// visitAll is the pass over all bursts where there are no queues.
func (j *Judgement) visitAll(all []*burst) {
	probes := untried(all)
	for _, b := range all {
		for ; len(probes) > 0 && probes[0].probeBefore(b, b.rank) < 0; probes = probes[1:] {
			j.probe(probes[0])
		}
		j.visit(b)
	}
}

// probe starts the first job of a burst if that can be. It is promised nothing yet: its turn among all others comes.
func (j *Judgement) probe(b *burst) {
	b.probes = false
	if i := slices.IndexFunc(b.jobs, (*entry).awaitsTurn); i >= 0 {
		j.tryStart(b, b.jobs[i])
	}
}
