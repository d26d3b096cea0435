package main

import (
	"fmt"
	"testing"

	"github.com/yi-json/synapse/test/mutants/patch"
)

// TestChoose checks that a short run tries mutants in touched folders and about one of twenty others, and that another
// commit draws others.
func TestChoose(t *testing.T) {
	var all []patch.Mutant
	for i := range 1000 {
		m := patch.Mutant{Name: fmt.Sprint("m", i), File: "policy/x.go", Test: "TestX"}
		if i < 10 {
			m.File = "actors/x.go"
		}
		all = append(all, m)
	}
	all = append(all, patch.Mutant{Name: "by seeds", File: "actors/x.go"})
	chosen := choose("a", 1000, map[string]bool{"actors": true}, all)
	touched, others := 0, 0
	for _, m := range chosen {
		if m.File == "actors/x.go" {
			touched++
		} else {
			others++
		}
	}
	if touched != 10 || others < 25 || others > 80 {
		t.Errorf("%d of 10 touched mutants are chosen, and %d of 990 others", touched, others)
	}
	few, again, other := choose("a", 5, nil, all), choose("a", 5, nil, all), choose("b", 5, nil, all)
	if len(few) != 5 || few[0].Name != again[0].Name || few[0].Name == other[0].Name {
		t.Errorf("chosen: %v, then %v, and for another commit %v", few, again, other)
	}
}
