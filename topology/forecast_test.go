package topology

// This file owns the tests of the forecast.

import (
	"fmt"
	"math/rand"
	"testing"
)

// The tightest rack is the one that the likely gang needs whole; with a forecast
// the gang goes where nothing is lost.
func TestForecastKeepsWhatIsNeeded(t *testing.T) {
	f := NewFabric([]string{"rack"})
	for rack, machines := range []int{4, 6} {
		for i := range machines {
			m := Machine{ID: NodeID(fmt.Sprintf("r%dn%d", rack, i)), Place: []string{fmt.Sprint(rack)}, Total: Resources{MilliGPU: 8000}}
			f.Join(m, m.Idle())
		}
	}
	two := Gang{Replicas: 2, Each: Resources{MilliGPU: 8000}}
	four := Gang{Replicas: 4, Each: Resources{MilliGPU: 8000}, Required: "rack"}
	if p, _ := Place(f, two); p.Slots[0].Node != "r0n0" {
		t.Errorf("without a forecast the tightest rack is taken, not %v", p)
	}
	f.Expect([]Likely{{four, 1}, {Gang{}, 1}})
	revision := f.Revision()
	p, _ := Place(f, two)
	if p.Slots[0].Node != "r1n0" || f.Revision() != revision {
		t.Errorf("with a forecast %v at revision %d, was %d", p, f.Revision(), revision)
	}
	before := f.Fragmentation()
	f.Take(p)
	if after := f.Fragmentation(); before != 0.2 || after != 0 {
		t.Errorf("fragmentation %v, then %v: want 2 of 10 machines, then none", before, after)
	}
}

// A forecast changes neither whether nor at which level a gang is placed.
func TestForecastAgainstOracle(t *testing.T) {
	for n := range *clusters / 5 {
		r := rand.New(rand.NewSource(*seed + int64(n)))
		w := randomWorld(r)
		f := w.fabric(inOrder(len(w.spots)))
		f.Expect([]Likely{
			{randomGang(r, w.levels), 1 + r.Int63n(5)}, {randomGang(r, w.levels), 2}, {randomGang(r, w.levels), 1},
		})
		before := f.state()
		if _, problem := compare(&w, f); problem != "" {
			t.Fatalf("-cluster-seed=%d -clusters=5: %s\n%v", *seed+int64(n), problem, w)
		}
		if f.state() != before {
			t.Fatal("placing changed the view")
		}
	}
}

// TestForecastLeavesLessInPieces runs the same load with and without a forecast:
// small gangs come and go, and gangs of half a rack are what is expected.
func TestForecastLeavesLessInPieces(t *testing.T) {
	large := withLevel(gangOf(rackSize/2), "rack")
	run := func(forecast bool) (score float64) {
		f := uniformCluster(640, false)
		r := rand.New(rand.NewSource(9))
		var running []Placement
		for range 3000 {
			f.Expect(nil)
			if forecast {
				f.Expect([]Likely{{large, 1}})
			}
			g := gangOf(1 + r.Intn(6))
			if p, refusal := Place(f, g); refusal == nil && len(running) < 90 {
				f.Take(p)
				running = append(running, p)
			} else {
				i := r.Intn(len(running))
				f.Give(running[i])
				running[i] = running[len(running)-1]
				running = running[:len(running)-1]
			}
			f.Expect([]Likely{{large, 1}})
			score += f.Fragmentation() / 3000
		}
		return score
	}
	without, with := run(false), run(true)
	t.Logf("free machines that no such gang can use: %.3f without a forecast, %.3f with one", without, with)
	if with > without {
		t.Errorf("the forecast made it worse: %.3f, was %.3f", with, without)
	}
}
