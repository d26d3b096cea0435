package policy

// This file has the probes. If several similar jobs wait and none has been started yet, one of them gets an earlier
// turn, because its run time helps to estimate the others. Only one job may get an earlier turn. The others wait for
// its result.

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/yi-json/synapse/topology"
)

// isUntried reports whether a burst needs a probe. Gangs do not get one, because they use too much capacity for one
// result.
func (b *burst) isUntried(j *Judgement) bool {
	return !b.tried && !b.gang && len(b.jobs) > 1 && !j.settings.lacks.probes
}

// early returns the rank of a burst's probe. It is earlier if the burst has more jobs.
func (b *burst) early() int64 { return topology.Scaled(b.rank, 1000, rootOf(int64(len(b.jobs))*1000)) }

// rootOf returns the square root of an amount, both in thousandths.
func rootOf(amount int64) (root int64) {
	n := min(amount, math.MaxInt64/1000) * 1000
	for bit := int64(1) << (bits.Len64(uint64(n)) / 2); bit > 0; bit /= 2 {
		if more := root + bit; more <= n/more {
			root = more
		}
	}
	return root
}

// turnRank returns the rank of the burst's next job.
func (b *burst) turnRank() int64 {
	if b.probes {
		return b.early()
	}
	return b.rank
}

// untried returns the bursts with a probe, in the order of their probes.
func untried(all []*burst) (some []*burst) {
	for _, b := range all {
		if b.probes {
			some = append(some, b)
		}
	}
	slices.SortFunc(some, func(a, b *burst) int { return a.probeBefore(b, b.early()) })
	return some
}

// probeBefore compares the probe of a burst with another burst at a rank.
func (b *burst) probeBefore(o *burst, rank int64) int {
	return cmp.Or(cmp.Compare(o.key.priority, b.key.priority), cmp.Compare(b.early(), rank), entryOrder(b.head, o.head))
}

// visitAll gives turns to all bursts if there are no queues.
func (j *Judgement) visitAll(all []*burst) {
	probes := untried(all)
	for _, b := range all {
		for ; len(probes) > 0 && probes[0].probeBefore(b, b.rank) < 0; probes = probes[1:] {
			j.probe(probes[0])
		}
		j.visit(b)
	}
}

// probe starts the first job of a burst if possible. The job gets no promise yet, because its regular turn is still to
// come.
func (j *Judgement) probe(b *burst) {
	b.probes = false
	if i := slices.IndexFunc(b.jobs, (*entry).awaitsTurn); i >= 0 {
		j.tryStart(b, b.jobs[i])
	}
}
