package straggler

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
)

// This file tests the decision with gangs whose ranks make steps of given times.

// gang plays ranks for a number of rounds. In each round, every rank makes one step. It returns the ranks that are
// named after each round.
func gang(rounds, ranks int, us func(rank, step int) (stepUs, workUs int64)) (w *Watch, named []string) {
	w = &Watch{}
	for step := range rounds {
		var all []Pace
		for r := range ranks {
			took, worked := us(r, step)
			all = append(all, Pace{&messages.RankPace{
				Rank: int32(r), Step: int64(step), StepUs: took, WorkUs: worked,
			}, fmt.Sprint("n", r)})
		}
		slow, count := w.Observe(all)
		var words []string
		for _, s := range slow {
			words = append(words, fmt.Sprintf("%d %d%%", s.Rank, s.Percent))
		}
		if count != len(words) {
			words = append(words, fmt.Sprint("of ", count))
		}
		named = append(named, strings.Join(words, ","))
	}
	return w, named
}

// TestNamed checks which ranks are named after 30 steps, and that none is named before its twentieth slow step.
func TestNamed(t *testing.T) {
	slow := func(of map[int]int64) func(int, int) (int64, int64) {
		return func(r, _ int) (int64, int64) { return 1000 * (100 + of[r]), 0 }
	}
	for _, c := range []struct {
		name  string
		ranks int
		us    func(int, int) (int64, int64)
		want  string
	}{
		{"equal ranks", 8, slow(nil), ""},
		{"one slow rank", 8, slow(map[int]int64{5: 35}), "5 135%"},
		{"one rank at the limit", 8, slow(map[int]int64{5: 20}), ""},
		{"one rank above the limit", 8, slow(map[int]int64{5: 21}), "5 121%"},
		{"two slow ranks, the slowest first", 8, slow(map[int]int64{2: 30, 5: 90}), "5 190%,2 130%"},
		{"a fast rank", 4, slow(map[int]int64{1: -50}), ""},
		{"half of the ranks", 4, slow(map[int]int64{1: 100, 2: 100}), "1 133%,2 133%"},
		{"most of the ranks", 4, slow(map[int]int64{1: 100, 2: 100, 3: 100}), ""},
		{"two ranks", 2, slow(map[int]int64{1: 100}), ""},
		{"ranks that wait for each other", 4, func(r, _ int) (int64, int64) {
			if r == 2 {
				return 100_000, 95_000
			}
			return 100_000, 60_000
		}, "2 158%"},
		{"only some report their work", 4, func(r, _ int) (int64, int64) {
			if r == 2 {
				return 100_000, 95_000
			}
			return 100_000, 0
		}, ""},
		{"unknown times", 4, func(r, _ int) (int64, int64) {
			if r == 2 {
				return 100_000, 0
			}
			return 0, 0
		}, ""},
		{"many slow ranks", 60, func(r, _ int) (int64, int64) {
			if r < 20 {
				return 200_000, 0
			}
			return 100_000, 0
		}, "0 200%,1 200%,2 200%,3 200%,4 200%,5 200%,6 200%,7 200%,8 200%,9 200%,10 200%,11 200%,12 200%,13 200%," +
			"14 200%,15 200%,of 20"},
	} {
		_, named := gang(30, c.ranks, c.us)
		if got := named[29]; got != c.want {
			t.Errorf("%s: %q is named, want %q", c.name, got, c.want)
		}
		if named[forSteps-1] != "" {
			t.Errorf("%s: %q is named after %d steps", c.name, named[forSteps-1], forSteps-1)
		}
	}
}

// TestUnevenSteps checks that no rank is named if one rank after another is slow for fewer than 20 steps. A rank that
// is slow on average is named, although its steps are uneven.
func TestUnevenSteps(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		_, named := gang(400, 8, func(r, step int) (int64, int64) {
			us := int64(95_000 + random.IntN(10_000))
			if step/19%8 == r { // a checkpoint, an evaluation or a slow disk, on one rank after the other
				us *= 2
			}
			return us, 0
		})
		for step, who := range named {
			if who != "" {
				t.Fatalf("seed %d: %s is named at step %d", seed, who, step)
			}
		}
		w, named := gang(400, 8, func(r, _ int) (int64, int64) {
			us := int64(95_000 + random.IntN(10_000))
			if r == 3 {
				us = us * 14 / 10
			}
			return us, 0
		})
		for _, who := range named[forSteps:] {
			if !strings.HasPrefix(who, "3 ") || strings.Contains(who, ",") {
				t.Fatalf("seed %d: %q is named, want rank 3", seed, who)
			}
		}
		if len(w.since) != 1 || len(w.steps) != 1 {
			t.Fatalf("the watch keeps %v and %v", w.since, w.steps)
		}
	}
}

// TestAgain checks that a rank which was fast in between, which was absent, or which resumed from an earlier step, is
// counted again.
func TestAgain(t *testing.T) {
	const at = 15
	for name, c := range map[string]struct {
		usAt  int64 // time of rank 0 at step 15; 0: it is absent
		back  int64 // steps that it resumes from, from then on
		first int   // step at which it is named
	}{
		"nothing unusual": {200_000, 0, forSteps},
		"a fast step":     {100_000, 0, at + 1 + forSteps},
		"absent":          {0, 0, at + 1 + forSteps},
		"an earlier step": {200_000, 10, at + forSteps},
	} {
		w, first := &Watch{}, 0
		for step := range 60 {
			all := []Pace{}
			for r := range 4 {
				p := &messages.RankPace{Rank: int32(r), Step: int64(step), StepUs: 100_000}
				if r == 0 {
					p.StepUs = 200_000
				}
				if r == 0 && step == at {
					p.StepUs = c.usAt
				}
				if r == 0 && step >= at {
					p.Step -= c.back
				}
				if p.StepUs > 0 {
					all = append(all, Pace{p, "n"})
				}
			}
			if _, count := w.Observe(all); count > 0 && first == 0 {
				first = step
			}
		}
		if first != c.first {
			t.Errorf("%s: rank 0 is named at step %d, want %d", name, first, c.first)
		}
	}
}
