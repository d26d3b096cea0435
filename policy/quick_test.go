package policy

// This file tests that the cache of a pass, and the early end of a pass, change no decision.

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/yi-json/synapse/policy/share"
)

// TestQuickAsSlow plays each history twice: with the normal planner, and with one that has no cache and gives every
// queue its turn. Decisions and promises must be equal in every pass.
func TestQuickAsSlow(t *testing.T) {
	passes, promises := 0, 0
	for seed := range int64(24) {
		var told [2][]string
		for slow := range told {
			r := rand.New(rand.NewSource(seed))
			settings := DefaultSettings()
			settings.PromisesOnes, settings.PromisesGangs = r.Intn(12), 1+r.Intn(12)
			if r.Intn(3) == 0 {
				settings.Locality = 0
			}
			machines := 4 + r.Intn(12)
			s := newStage(t, settings, machines, 1+r.Intn(4))
			s.j.forgetful = slow == 1
			acts := drawnHistory(r, 80, machines, seed%3 > 0)
			if seed%2 == 1 {
				queues := &share.Queues{Default: "q0"}
				for i := range 4 {
					q := share.QueueSpec{Name: fmt.Sprint("q", i), Weight: num(int64(1 + i))}
					if i == 1 {
						q.Quota, q.Limit = gpus(8), gpus(24)
					}
					queues.Queues = append(queues.Queues, q)
				}
				s.j.Obey(queues)
				for i := range acts {
					acts[i].queue = fmt.Sprint("q", r.Intn(4))
				}
			}
			s.enter(acts...)
			s.looks = func() {
				text := fmt.Sprint(s.now, s.wake)
				for _, p := range slices.Concat(s.j.firm, s.j.moving) {
					text += fmt.Sprint(" ", p.e.Job, p.firm, p.at, p.bound, p.place)
					promises++
				}
				told[slow] = append(told[slow], text+fmt.Sprint(len(s.said), s.firm))
				passes++
				if len(s.said)%5 == 4 { // a node becomes unschedulable, and schedulable again later
					s.view.SetUsable(machine(len(s.said)%machines, 1).ID, []string{"", "drained"}[len(s.said)/5%2])
				}
			}
			s.play(3_000_000)
			told[slow] = append(told[slow], s.said...)
		}
		for i := range told[0] {
			if i >= len(told[1]) || told[0][i] != told[1][i] {
				slow := told[1][min(i, len(told[1])-1)]
				t.Fatalf("seed %d, pass %d:\n%s\nis what it says, the slow way\n%s", seed, i, told[0][i], slow)
			}
		}
	}
	if promises < passes {
		t.Errorf("%d promises in %d passes are few", promises, passes)
	}
}

// TestNamesDecideNothing checks that starts do not change if the names of owners sort in reverse.
func TestNamesDecideNothing(t *testing.T) {
	for seed := range int64(6) {
		var starts [2][]int64
		for round := range starts {
			s := newStage(t, DefaultSettings(), 6, 2)
			acts := drawnHistory(rand.New(rand.NewSource(seed)), 120, 6, seed%2 == 0)
			for i := range acts {
				acts[i].owner = []string{"anna", "bert", "carl", "dora"}[i%4]
				if round == 1 {
					acts[i].owner = []string{"zoe", "yves", "xaver", "wim"}[i%4]
				}
			}
			s.enter(acts...)
			s.play(3_000_000)
			for _, a := range s.cast {
				starts[round] = append(starts[round], a.started)
			}
		}
		if !slices.Equal(starts[0], starts[1]) {
			t.Errorf("seed %d: who is called what decides when jobs start", seed)
		}
	}
}
