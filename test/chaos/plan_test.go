package chaos

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// This file draws the plan of all faults from the seed before anything runs. So a run has the required faults by
// construction, and lists them.

// The kinds of faults.
const (
	schedulerKilled = "schedulers killed"
	schedulerFrozen = "schedulers frozen"
	agentKilled     = "agents killed"
	agentFrozen     = "agents frozen"
	partition       = "partitions"
	databaseCrash   = "database restarts"
	databaseOutage  = "database outages"
)

// sort is one of them, with its number per minute and its minimum in a run of 20 minutes. Other lengths need a
// proportional minimum, rounded up.
type sort struct {
	name  string
	each  float64
	least int
}

// whole is the length of run to which the minimums refer.
const whole = 20 * time.Minute

var sorts = []sort{
	{schedulerKilled, 8, 30}, // together at least 60 times kill -9,
	{agentKilled, 8, 30},
	{schedulerFrozen, 4, 10}, // at least 20 times SIGSTOP and SIGCONT,
	{agentFrozen, 5, 10},
	{partition, 5, 20}, // 20 partitions
	{databaseCrash, 2, 0},
	{databaseOutage, 0.5, 5}, // and 5 outages of the database
}

// share returns the part of n that belongs to a run of this length.
func share(n float64, of, d time.Duration) int {
	exact := n * float64(d) / float64(of)
	return int(exact) + min(1, int((exact-float64(int(exact)))*1e6))
}

// fault describes one fault of a plan.
type fault struct {
	at     time.Duration
	name   string
	target int // index of the scheduler or node
	down   time.Duration
	more   int  // partitions: number of nodes besides the target
	oneWay bool // partitions: only messages to the node are lost
	crash  bool // database: it crashes instead of stopping
}

func (s fault) String() string {
	text := fmt.Sprintf("%s %s #%d for %s", s.at.Round(time.Millisecond), s.name, s.target, s.down)
	if s.name == partition {
		text += fmt.Sprintf(" (and %d more, one-way: %t)", s.more, s.oneWay)
	}
	return text
}

// mending is the time that a target has after a fault to return.
const mending = 1500 * time.Millisecond

// newPlan draws the faults of a run: each kind with its share and at least its minimum, and none on a target that
// another fault has just broken.
func newPlan(random *rand.Rand, d time.Duration, networks bool) []fault {
	var deck []string
	for _, s := range sorts {
		if s.name == partition && !networks {
			continue
		}
		for range max(share(s.each, time.Minute, d), share(float64(s.least), whole, d)) {
			deck = append(deck, s.name)
		}
	}
	random.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
	free := map[string]time.Duration{}           // by target: when it is available again
	gap := d * 9 / 10 / time.Duration(len(deck)) // the last fault is repaired before the end
	var plan []fault
	for i, name := range deck {
		s := draw(random, name)
		s.at = gap/2 + time.Duration(i)*gap + time.Duration(random.Int64N(int64(gap)))
		s.fit(random, free)
		plan = append(plan, s)
	}
	slices.SortStableFunc(plan, func(a, b fault) int { return cmp.Compare(a.at, b.at) })
	return plan
}

// targets returns the names of the targets of a fault.
func (s fault) targets() (names []string) {
	switch s.name {
	case schedulerKilled, schedulerFrozen:
		return []string{fmt.Sprint("scheduler ", s.target)}
	case databaseCrash, databaseOutage:
		return []string{"database"}
	}
	for i := range 1 + s.more {
		names = append(names, fmt.Sprint("machine ", (s.target+i)%machines))
	}
	return names
}

// fit draws the target of a fault among those that are available at that time. If there is none, it delays the fault
// until there is one.
func (s *fault) fit(random *rand.Rand, free map[string]time.Duration) {
	of := machines
	if s.name == schedulerKilled || s.name == schedulerFrozen {
		of = schedulers
	}
	whole := func() (at time.Duration) {
		for _, name := range s.targets() {
			at = max(at, free[name])
		}
		return at
	}
	first, best, soonest := random.IntN(of), 0, time.Duration(-1)
	for i := range of {
		s.target = (first + i) % of
		if at := whole(); soonest < 0 || at < soonest {
			best, soonest = s.target, at
		}
		if whole() <= s.at {
			best, soonest = s.target, s.at
			break
		}
	}
	s.target, s.at = best, max(s.at, soonest)
	for _, name := range s.targets() {
		free[name] = s.at + s.down + mending
	}
}

// draw decides the severity of a fault.
func draw(random *rand.Rand, name string) fault {
	between := func(least, most time.Duration) time.Duration {
		return least + time.Duration(random.Int64N(int64((most-least)/time.Millisecond)))*time.Millisecond
	}
	s := fault{name: name}
	now := func(in int) bool { return random.IntN(in) == 0 }
	const dead = 13 * time.Second // long enough to be declared dead
	switch name {
	case schedulerKilled:
		s.down = between(0, 3*time.Second)
	case schedulerFrozen:
		s.down = between(500*time.Millisecond, 6*time.Second) // a lease is 3 s
	case agentKilled:
		s.down = between(0, 1500*time.Millisecond)
	case agentFrozen, partition:
		s.down = between(500*time.Millisecond, 4*time.Second)
	case databaseCrash:
		s.down, s.crash = between(0, 2*time.Second), now(2)
	case databaseOutage:
		s.down, s.crash = between(4*time.Second, 12*time.Second), now(2) // longer than a lease
	}
	if (name == agentKilled || name == agentFrozen || name == partition) && now(6) {
		s.down = dead
	}
	if name == partition {
		if now(4) {
			s.more = machines/2 - 1
		}
		if now(4) {
			s.oneWay = true
		}
	}
	return s
}

// TestPlan checks for many seeds that a run has the minimum faults, that no target has two faults at once, and that the
// plan depends only on the seed.
func TestPlan(t *testing.T) {
	for seed := range uint64(50) {
		for _, d := range []time.Duration{time.Minute, whole} {
			plan := newPlan(rand.New(rand.NewPCG(seed, 2)), d, true)
			again := newPlan(rand.New(rand.NewPCG(seed, 2)), d, true)
			if !slices.Equal(plan, again) {
				t.Fatalf("seed %d gives two different plans", seed)
			}
			counts, free := map[string]int{}, map[string]time.Duration{}
			for _, s := range plan {
				counts[s.name]++
				for _, target := range s.targets() {
					if s.at < free[target] {
						t.Fatalf("seed %d: %s while %s is broken until %s", seed, s, target, free[target])
					}
					free[target] = s.at + s.down
				}
				if s.at > d+time.Minute {
					t.Errorf("seed %d: %s is after the end of the run at %s", seed, s, d)
				}
			}
			for _, sort := range sorts {
				if least := share(float64(sort.least), whole, d); counts[sort.name] < least {
					t.Errorf("seed %d: %d %s in %s, want at least %d", seed, counts[sort.name], sort.name, d, least)
				}
			}
			if d == whole && (counts[schedulerKilled]+counts[agentKilled] < 60 ||
				counts[schedulerFrozen]+counts[agentFrozen] < 20) {
				t.Errorf("seed %d: %v", seed, counts)
			}
		}
	}
}
