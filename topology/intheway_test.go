package topology

// This file tests that the suggestions of an explanation start the gang, and that the constraints in the way are the
// smallest sets.

import (
	"flag"
	"math/bits"
	"math/rand"
	"slices"
	"testing"
)

var states = flag.Int("states", 200, "random states of which each answer is applied")

// TestExplainedStart applies the suggestions of explanations for random states. Each relaxation alone must start the
// gang in the next pass. Dropping all constraints in the way must start it too. These constraints must be the smallest
// sets that an exhaustive search finds.
func TestExplainedStart(t *testing.T) {
	var refused, relaxed, inTheWay, several, tooMany int
	for n := range *states {
		r := rand.New(rand.NewSource(*seed + int64(n)))
		w := randomWorld(r)
		f := w.tree(inOrder(len(w.spots)))
		e := Explain(f, w.gang, w.holders())
		if e.Refusal == nil || e.Refusal.Cause == Senseless || e.Refusal.Cause == NoSuchLevel {
			continue
		}
		refused++
		for _, relaxation := range e.Relaxations {
			relaxed++
			mark := f.Mark()
			for _, id := range relaxation.Return {
				f.SetUsable(id, "")
			}
			if _, refusal := Place(f, relaxation.Gang); refusal != nil {
				t.Fatalf("-cluster-seed=%d -states=1: %q does not start it: %v\n%v\n%v", *seed+int64(n), relaxation.Text, refusal,
					e, w)
			}
			f.Rollback(mark)
		}
		size, all := w.smallest()
		if size > 3 && e.AtOnce == 0 { // so many sets may exceed the limit of the search
			tooMany++
			continue
		}
		if e.AtOnce != size || !slices.Equal(e.InTheWay, all) {
			t.Fatalf("-cluster-seed=%d -states=1: %d of %v are in the way, and not %d of %v\n%v",
				*seed+int64(n), size, all, e.AtOnce, e.InTheWay, w)
		}
		if size > 0 && !w.fitsWithout(e.InTheWay) {
			t.Fatalf("-cluster-seed=%d -states=1: without all of %v it does not start\n%v", *seed+int64(n), e.InTheWay, w)
		}
		inTheWay += len(e.InTheWay)
		several += tick(size > 1)
	}
	if relaxed < *states/10 || several < *states/100 {
		t.Errorf("of %d refused %d relaxations were applied, and of %d nothing alone was in the way", refused, relaxed,
			several)
	}
	t.Logf("%d refused, %d relaxations, %d in the way; %d times several at once, %d times too many", refused, relaxed,
		inTheWay, several, tooMany)
}

// smallest tries every set of constraints, smallest first.
func (w *world) smallest() (size int, all []Constraint) {
	x := explainer{g: w.gang}
	constraints := x.constraints()
	for size = 1; size <= len(constraints); size++ {
		used := 0
		for set := range 1 << len(constraints) {
			if bits.OnesCount(uint(set)) == size && w.fitsWithout(chosen(constraints, set)) {
				used |= set
			}
		}
		if used != 0 {
			return size, chosen(constraints, used)
		}
	}
	return 0, nil
}

// chosen returns the constraints whose bits are set.
func chosen(constraints []Constraint, set int) (out []Constraint) {
	for i, c := range constraints {
		if set>>i&1 != 0 {
			out = append(out, c)
		}
	}
	return out
}
