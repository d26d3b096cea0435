package sim

import (
	"slices"
	"testing"
	"time"
)

func TestAgendaIsInOrder(t *testing.T) {
	e := newEngine(newSource(1))
	random := newSource(2)
	var want, got []int
	for i := range 5000 {
		at := random.below(300)
		want = append(want, at*10_000+i)
		e.after(time.Duration(at), func() { got = append(got, at*10_000+i) })
	}
	for e.step(1000) {
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Error("occurrences are not ordered by time and then by request")
	}
}

func TestQueueKeepsOrderAndGivesMemoryBack(t *testing.T) {
	var f fifo[any]
	for round := range 3 {
		for i := range 100 {
			f.push(i)
		}
		for i := range 100 {
			if got := f.pop(); got != i {
				t.Fatalf("round %d: got %v, not %d", round, got, i)
			}
		}
		if f.pop() != nil || f.len() != 0 || cap(f.items) > 16 {
			t.Fatalf("round %d: %d elements are left, but the capacity is %d", round, f.len(), cap(f.items))
		}
	}
}

// TestTimersAreNeverEarly checks timers on fast and slow clocks. When a timer fires, its clock must read at least the
// requested time, and at most a little more.
func TestTimersAreNeverEarly(t *testing.T) {
	by := time.Duration(0)
	for _, ppm := range []int64{-10_000, -1, 0, 1, 9_999, 10_000} {
		c := clock{began: 5, base: 77 * time.Hour, ppm: ppm, wallBy: &by}
		for _, d := range []time.Duration{0, 1, 999, time.Millisecond, 10 * time.Second, 1000 * time.Hour} {
			for _, now := range []instant{5, 12_345_678_901, 3_600_000_000_000} {
				due := c.read(now).Plus(d)
				fired := c.read(now.plus(c.lasts(d)))
				if fired < due || fired.Since(due) > 10 {
					t.Errorf("ppm %d, timer of %s from %d: fired %d ns after it was due", ppm, d, now, fired-due)
				}
			}
		}
	}
}

func TestChanceIsFair(t *testing.T) {
	s := newSource(3)
	var counts [7]int
	hits := 0
	for range 70_000 {
		counts[s.below(7)]++
		if s.chance(0.25) {
			hits++
		}
	}
	for i, n := range counts {
		if n < 9_500 || n > 10_500 {
			t.Errorf("value %d was drawn %d times of 70,000", i, n)
		}
	}
	if hits < 16_800 || hits > 18_200 {
		t.Errorf("a probability of one in four was true %d times of 70,000", hits)
	}
	for range 1000 {
		if d := s.skewed(time.Second, time.Minute); d < time.Second || d > time.Minute {
			t.Fatalf("%s is out of bounds", d)
		}
	}
	if a, b := newSource(1).fork("net"), newSource(1).fork("chance"); a.next() == b.next() {
		t.Error("two purposes draw the same numbers")
	}
}

func TestScriptsAreReadAsWritten(t *testing.T) {
	for _, s := range []script{
		{run: time.Minute, rank: -1}, {run: 90 * time.Millisecond, exit: 3, rank: 0, runs: 2},
		{run: time.Hour, rank: -1, oom: true, deaf: true},
	} {
		if got := parseScript(s.command()); got != s {
			t.Errorf("script %v was parsed as %+v", s.command(), got)
		}
	}
	after, code, _ := script{run: time.Minute, exit: 4, rank: 2, runs: 1}.end(2, 1)
	if after != 30*time.Second || code != 4 {
		t.Errorf("rank 2 ends after %s with code %d", after, code)
	}
	if _, code, _ := (script{run: time.Minute, exit: 4, rank: 2, runs: 1}).end(2, 2); code != 0 {
		t.Error("the second attempt fails like the first")
	}
}
