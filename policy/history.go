package policy

// This file owns the guess at what comes next: the gangs that wait, and those
// that came lately, weighed by how often and how much. Placing uses it, where it
// is asked to, to keep room whole for them.

import (
	"cmp"
	"slices"

	"github.com/yi-json/synapse/topology"
)

const (
	shapesRemembered = 256
	// halvedAfter is after how many gangs all that was counted counts half, so
	// that the guess follows what people do.
	halvedAfter = 1024
	noted       = 1 << 20 // what one gang adds: large, so that halving is exact
)

// History counts the gangs that came lately. The zero value is empty.
type History struct {
	seen  []arrivals // in the order in which the shapes were first met
	notes int
}

type arrivals struct {
	shape topology.Shape
	gang  topology.Gang
	count int64
}

// Note counts a gang that came.
func (h *History) Note(g topology.Gang) {
	if h.notes++; h.notes%halvedAfter == 0 {
		for i := range h.seen {
			h.seen[i].count /= 2
		}
		h.seen = slices.DeleteFunc(h.seen, func(a arrivals) bool { return a.count == 0 })
	}
	shape := g.Shape()
	at := slices.IndexFunc(h.seen, func(a arrivals) bool { return a.shape == shape })
	if at < 0 {
		at = len(h.seen)
		if at == shapesRemembered {
			at = h.rarest()
			h.seen = slices.Delete(h.seen, at, at+1)
			at = len(h.seen)
		}
		h.seen = append(h.seen, arrivals{shape: shape, gang: g})
	}
	h.seen[at].count += noted
}

func (h *History) rarest() int {
	at := 0
	for i := range h.seen {
		if h.seen[i].count < h.seen[at].count {
			at = i
		}
	}
	return at
}

// Likely is the forecast for placing: at most so many gangs, the heaviest first.
// A gang weighs by its arrivals and by those of its shape that wait, which surely
// come, and each by what it takes, because a large gang that finds no room idles
// more than a small one.
func (h *History) Likely(q *Queue, most int) []topology.Likely {
	all := slices.Clone(h.seen)
	for _, g := range q.list {
		waiting := int64(len(g.jobs)) * noted
		at := slices.IndexFunc(all, func(a arrivals) bool { return a.shape == g.key.shape })
		if at < 0 {
			at = len(all)
			all = append(all, arrivals{shape: g.key.shape, gang: g.gang})
		}
		all[at].count += waiting
	}
	out := make([]topology.Likely, 0, len(all))
	for _, a := range all {
		if weight := a.count / noted * sizeOf(a.gang); weight > 0 {
			out = append(out, topology.Likely{Gang: a.gang, Weight: weight})
		}
	}
	slices.SortStableFunc(out, func(a, b topology.Likely) int { return cmp.Compare(b.Weight, a.Weight) })
	return out[:min(most, len(out))]
}

// sizeOf is what a gang takes in GPUs, at least one.
func sizeOf(g topology.Gang) int64 {
	total := g.Total
	if g.Split == topology.SplitNone {
		total = g.Each.Times(int64(g.Replicas))
	}
	return max(1, total.MilliGPU/topology.WholeGPU)
}
