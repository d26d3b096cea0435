package replay

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/yi-json/synapse/sim/record"
)

// This file tests that Synapse's own policies depend on no particular record: names and dates have no influence.

// waitsOf returns how long each job waits, in the order of the record.
func waitsOf(t *testing.T, policy string, jobs []record.Job) (waits []time.Duration) {
	r, err := replayed(record.Order{Jobs: jobs, Cluster: room, Policy: policy}, Watch{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range jobs {
		waits = append(waits, r.lives[i].started-jobs[i].Submit)
	}
	return waits
}

// crowded returns jobs of some users and queues that arrive faster than they run.
func crowded(change func(i int, j *record.Job)) []record.Job {
	return changed(func(i int, j *record.Job) {
		j.Duration *= 4
		j.Limit = []time.Duration{0, 2 * j.Duration, 9 * time.Hour}[i%3]
		change(i, j)
	})
}

// TestKnowsNoNames renames users and queues so that they sort differently, and shifts the jobs by some days. Each job
// must wait as before. An additional user must change the waiting times, because otherwise the test would show nothing.
func TestKnowsNoNames(t *testing.T) {
	for _, policy := range []string{record.InOrder, record.Synapse} {
		as := waitsOf(t, policy, crowded(func(int, *record.Job) {}))
		if slices.Max(as) < 10*time.Minute {
			t.Fatalf("%s: no job waits longer than %v, so the test shows nothing", policy, slices.Max(as))
		}
		for name, change := range map[string]func(i int, j *record.Job){ //order: each by itself
			"renamed": func(i int, j *record.Job) { // in reverse alphabetical order
				j.User, j.Queue = fmt.Sprint(9-i%5, " is who"), fmt.Sprint("of ", 9-i%2)
			},
			"some days later": func(_ int, j *record.Job) { j.Submit += 3*day + 4*time.Hour + 7*time.Second },
		} {
			if now := waitsOf(t, policy, crowded(change)); !slices.Equal(as, now) {
				at := slices.IndexFunc(now, func(w time.Duration) bool { return w != as[slices.Index(now, w)] })
				t.Errorf("%s, %s: job %d waits %v, want %v", policy, name, at, now[at], as[at])
			}
		}
		apart := waitsOf(t, policy, crowded(func(i int, j *record.Job) { j.User = fmt.Sprint(i) }))
		if policy == record.Synapse && slices.Equal(as, apart) {
			t.Errorf("%s: the owners of jobs have no influence at all", policy)
		}
	}
}

// TestSameHash checks that the same seed and the same record give the same trace of every message and the same results,
// for any number of processors. The checkers appear in the trace, and must change no result.
func TestSameHash(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	figures := func(o record.Order) (hash, all string) {
		r, err := Run(o, Watch{})
		if err != nil {
			t.Fatal(err)
		}
		return r.TraceHash, fmt.Sprint(r.Waits, r.Util, r.Frag, r.IdleFit, r.Classes, r.Queues)
	}
	for _, policy := range []string{record.InOrder, record.Synapse, "easy"} {
		o := record.Order{Jobs: crowded(func(int, *record.Job) {}), Cluster: room, Policy: policy, Seed: 9, Shake: 0.01}
		hash, all := figures(o)
		for _, processors := range []int{1, 2, 7} {
			runtime.GOMAXPROCS(processors)
			if again, figures := figures(o); again != hash || figures != all {
				t.Errorf("%s, %d processors: got %s %s, otherwise %s %s", policy, processors, again, figures, hash, all)
			}
		}
		o.Check = true
		if _, checked := figures(o); checked != all {
			t.Errorf("%s, with the checkers: %s, without: %s", policy, checked, all)
		}
		if o.Seed++; policy != "easy" {
			if another, _ := figures(o); another == hash {
				t.Errorf("%s: another seed gives the same trace", policy)
			}
		}
	}
}
