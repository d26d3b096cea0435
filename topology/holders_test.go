package topology

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"
)

// TestHoldersByJob checks that each job holds the resources which the nodes report, after any changes, and that it ends
// with the last of them.
func TestHoldersByJob(t *testing.T) {
	for n := range 200 {
		r := rand.New(rand.NewSource(*seed + int64(n)))
		h, on := NewHolders(), map[NodeID][]Holder{}
		for range 60 {
			id := NodeID(fmt.Sprint("n", r.Intn(8)))
			on[id] = nil
			// One job may hold two parts of a node: an attempt and an unconfirmed allocation.
			for range r.Intn(4) {
				job, amount := JobID(fmt.Sprint("j", r.Intn(5))), Resources{MilliGPU: 1 + r.Int63n(9)}
				on[id] = append(on[id], Holder{job, amount, r.Int63n(3)})
			}
			h.Set(id, on[id])
			if got := h.On(id); !slices.Equal(got, on[id]) {
				t.Fatalf("seed %d: %s has %v, not %v", *seed+int64(n), id, got, on[id])
			}
		}
		if problem := wrongByJob(h, on); problem != "" {
			t.Fatalf("seed %d: %s", *seed+int64(n), problem)
		}
	}
}

// wrongByJob compares the holdings of jobs with the reports of nodes.
func wrongByJob(h *Holders, on map[NodeID][]Holder) string {
	want, freed := map[JobID]Holding{}, map[JobID]Resources{}
	for _, all := range on {
		for _, one := range all {
			w := want[one.Job]
			w.Job, w.Amount, w.EndsBy, w.Nodes = one.Job, w.Amount.Plus(one.Amount), max(w.EndsBy, one.EndsBy), w.Nodes+1
			if want[one.Job] = w; one.EndsBy > 0 {
				freed[one.Job] = freed[one.Job].Plus(one.Amount)
			}
		}
	}
	all := h.everywhere()
	for _, got := range all {
		if got != want[got.Job] {
			return fmt.Sprintf("%s has %+v, not %+v", got.Job, got, want[got.Job])
		}
	}
	ends := h.ends()
	for _, e := range ends {
		var sum Resources
		for _, s := range h.freed(e.Job) {
			sum = sum.Plus(s.Amount)
		}
		if sum != freed[e.Job] || e.EndsBy != want[e.Job].EndsBy {
			return fmt.Sprintf("%s frees %v by %d, not %v by %d", e.Job, sum, e.EndsBy, freed[e.Job], want[e.Job].EndsBy)
		}
	}
	if len(all) != len(want) || len(ends) != len(freed) {
		return fmt.Sprintf("%d jobs have something and %d end, not %d and %d", len(all), len(ends), len(want), len(freed))
	}
	return ""
}
