package policy

import (
	"fmt"
	"slices"
	"testing"

	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// This file tests the rule by which a short job stops a longer one.

// shortQueue returns a queue whose long jobs may be stopped for short ones; minRun (s) below 0 is not set.
func shortQueue(minRun int64) *share.Queues {
	q := share.QueueSpec{Name: "q", Preemption: share.Preemption{Shortest: yes()}}
	if minRun *= second; minRun >= 0 {
		q.Preemption.MinRun = &minRun
	}
	return &share.Queues{Default: "q", Queues: []share.QueueSpec{q}}
}

// TestShortest checks that a job stops a victim as soon as two conditions are met. The victim's expected remaining run
// time must be four times that of the job, and four times the cost of the stop.
func TestShortest(t *testing.T) {
	long := func(change func(*act)) act {
		a := act{runs: 1_000_000, gang: wholes(1), saves: 600}
		if change != nil {
			change(&a)
		}
		return a
	}
	const never = -1
	for name, c := range map[string]struct {
		minRun int64
		long   act
		short  act
		want   int64 // when it begins
	}{
		"it may take half an hour":   {-1, long(nil), act{}, 4 * 1800},
		"its limit says less":        {-1, long(nil), act{limit: 1500}, 4 * 1500},
		"an hour at the least":       {-1, long(nil), act{limit: 60}, 3600},
		"the queue says less":        {1000, long(nil), act{limit: 60}, 4 * (600 + 60)},
		"the queue says more":        {9000, long(nil), act{}, 9000},
		"it saves more often":        {1000, long(func(a *act) { a.saves = 300 }), act{limit: 60}, 4 * (300 + 60)},
		"it saves nothing":           {0, long(func(a *act) { a.saves = 0 }), act{limit: 60}, never},
		"its own limit ends it soon": {-1, long(func(a *act) { a.limit, a.runs = 14_000, 14_000 }), act{}, 14_000},
		"its own limit does not":     {-1, long(func(a *act) { a.limit, a.runs = 15_000, 15_000 }), act{}, 4 * 1800},
		"it is of higher priority":   {-1, long(func(a *act) { a.priority = 1 }), act{}, never},
		"it is of lower priority":    {-1, long(func(a *act) { a.priority = -1 }), act{}, 4 * 1800},
		"it is much larger":          {-1, long(nil), act{gang: gang(1, 1)}, never},
		"it is not much larger":      {-1, long(nil), act{gang: gang(1, 2)}, 4 * 1800},
	} {
		x := newTheatre(t, 1, shortQueue(c.minRun))
		x.enter(c.long)
		if c.short.at, c.short.runs = 100, 50; c.short.gang.Replicas == 0 {
			c.short.gang = wholes(1)
		}
		short := x.enter(c.short)
		x.run(20_000)
		if got := short.began(); c.want == never && got >= 0 || c.want != never && (got < c.want || got > c.want+20) {
			t.Errorf("%s: it began at %d, and should have at %d; stopped were %v", name, got, c.want, x.victims())
		}
	}
}

// TestShortestAllTogether checks that no job is stopped if all necessary victims together are much larger than the job.
func TestShortestAllTogether(t *testing.T) {
	for apart, want := range map[bool]int{true: 0, false: 1} {
		x := newTheatre(t, 2, shortQueue(-1))
		x.enter(act{runs: 1e6, gang: wholes(1), saves: 60}, act{runs: 1e6, gang: wholes(1), saves: 60})
		x.enter(act{at: 9001, runs: 50, gang: topology.Gang{Replicas: 2, Each: gang(1, 1).Each, Apart: apart}})
		if x.run(12_000); len(x.victims()) != want {
			t.Errorf("on machines of their own: %t, stopped were %v", apart, x.victims())
		}
	}
}

// TestShortestEnds checks that a job is stopped for shorter ones at most three times.
func TestShortestEnds(t *testing.T) {
	x := newTheatre(t, 1, shortQueue(0))
	long := x.enter(act{runs: 10_000_000, gang: wholes(1), saves: 600})
	for i := range 6 {
		x.enter(act{at: int64(10_000 + 9000*i), runs: 2000, gang: wholes(1), saves: 600})
	}
	x.run(70_000)
	if got := x.victims(); !slices.Equal(got, slices.Repeat([]string{string(long.id)}, 3)) {
		t.Errorf("%v were stopped", got)
	}
}

// TestShortestOneWay checks that a victim does not stop the job for which it was stopped.
func TestShortestOneWay(t *testing.T) {
	x := newTheatre(t, 1, shortQueue(-1))
	first := x.enter(act{runs: 1_000_000, gang: wholes(1), saves: 600})
	x.enter(act{at: 8000, runs: 30_000, gang: wholes(1), saves: 600})
	if x.run(40_000); !slices.Equal(x.victims(), []string{string(first.id)}) {
		t.Errorf("%v were stopped", x.victims())
	}
	if at := first.began(); at < 38_000 {
		t.Errorf("what was stopped came back at %d", at)
	}
}

// TestShortestRests checks that waiting jobs without possible victims are not searched again every second while nothing
// changes.
func TestShortestRests(t *testing.T) {
	x := newTheatre(t, 2, shortQueue(-1))
	x.enter(act{runs: 1_000_000, gang: wholes(1), saves: 600}, act{at: 8000, runs: 1_000_000, gang: wholes(1), saves: 600})
	const bursts, lasts = 12, 300
	for i := range bursts {
		x.enter(act{at: 9000, runs: 50, gang: wholes(2), owner: fmt.Sprint("o", i)})
	}
	x.run(9000)
	hunts, soon := 0, 0
	x.looks = func() {
		if hunts += x.j.hunts; x.wake > 0 && x.wake <= x.now+2*second {
			soon++
		}
	}
	x.run(9000 + lasts)
	most := bursts * (lasts*second/lookAgain + 1)
	if hunts == 0 || int64(hunts) > int64(most) || soon > lasts/5 {
		t.Errorf("in %d s it was looked %d times whom to stop, and %d passes were wanted at once; at most %d would do", lasts,
			hunts, soon, most)
	}
	if x.run(15_300); len(x.victims()) != 2 {
		t.Errorf("when both had run for long enough %v were stopped", x.victims())
	}
}
