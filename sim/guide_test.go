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
			t.Error("it leans to something, and has seen nothing")
		}
		for seed := range uint64(3) {
			lean := g.Lean()
			leant[i] = append(leant[i], lean)
			r, err := Run(Options{Seed: seed + 1, World: "small", Lean: lean, Meet: true, Unchecked: true})
			if err != nil {
				t.Fatal(err)
			}
			if news := g.Learn(r); seed == 0 && (news == 0 || news != g.Seen()) {
				t.Errorf("the first seed met %d new, and %d are seen", news, g.Seen())
			}
			if g.Learn(r) != 0 {
				t.Error("what was met twice is new twice")
			}
			if i == 1 && seed == 2 {
				again, err := Run(Options{Seed: seed + 1, World: "small", Lean: lean, Unchecked: true})
				if err != nil || again.Trace != r.Trace {
					t.Errorf("seed %d leaning to %q is another run the second time (%v)", seed+1, lean, err)
				}
			}
		}
	}
	if !slices.EqualFunc(leant[0], leant[1], slices.Equal[[]string]) {
		t.Errorf("two guides of one seed chose %q and %q", leant[0], leant[1])
	}
	if !slices.ContainsFunc(leant[0], func(l []string) bool { return len(l) > 0 }) {
		t.Error("it never leans to anything")
	}
}
