package sim

import (
	"slices"
	"testing"
)

// TestGuide checks that the choice depends only on the meetings, and that a seed replays by the faults that it leant
// to.
func TestGuide(t *testing.T) {
	var leant [2][][]string
	for i := range leant {
		g := NewGuide(7)
		if g.Lean() != nil {
			t.Error("the guide leans to faults before it has seen any run")
		}
		for seed := range uint64(3) {
			lean := g.Lean()
			leant[i] = append(leant[i], lean)
			r, err := Run(Options{Seed: seed + 1, World: "small", Lean: lean, Meet: true, Unchecked: true})
			if err != nil {
				t.Fatal(err)
			}
			if news := g.Learn(r); seed == 0 && (news == 0 || news != g.Seen()) {
				t.Errorf("the first seed had %d new meetings, but %d are recorded", news, g.Seen())
			}
			if g.Learn(r) != 0 {
				t.Error("a meeting counts as new a second time")
			}
			if i == 1 && seed == 2 {
				again, err := Run(Options{Seed: seed + 1, World: "small", Lean: lean, Unchecked: true})
				if err != nil || again.Trace != r.Trace {
					t.Errorf("seed %d leaning to %q gives another run the second time (%v)", seed+1, lean, err)
				}
			}
		}
	}
	if !slices.EqualFunc(leant[0], leant[1], slices.Equal[[]string]) {
		t.Errorf("two guides of one seed chose %q and %q", leant[0], leant[1])
	}
	if !slices.ContainsFunc(leant[0], func(l []string) bool { return len(l) > 0 }) {
		t.Error("the guide never leans to a fault")
	}
}
