package policy

import (
	"testing"

	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// This file tests the counts of runs, probes and errors, at both sides of each limit.

// TestLatestErrorsAreKept checks that the latest errors of a kind are kept, and the earliest are removed.
func TestLatestErrorsAreKept(t *testing.T) {
	var r record
	for i := range int64(keptErrors + 5) {
		r.started(&entry{standing: standing{told: &foretold{made: second, at: 101 * second}}}, (1+i)*second)
	}
	r.started(&entry{standing: standing{told: &foretold{kind: kindOfPromise{gang: true}, at: 100 * second}}}, second)
	all := r.errors[0]
	if len(all) != keptErrors || len(r.errors[2]) != 1 {
		t.Fatalf("%d are kept, and %d of gangs", len(all), len(r.errors[2]))
	}
	for i, n := range all {
		if n != int64(i+5)*10 {
			t.Errorf("error %d is %d, want %d", i, n, (i+5)*10)
		}
	}
}

// TestEndsOfRuns checks the hard end of a run, which is counted from its begin or from its latest begin, and that only
// suitable run times are learned.
func TestEndsOfRuns(t *testing.T) {
	const now, prepare, limit, grace = 100 * second, 10 * second, 50 * second, 5 * second
	admit := func(a Admission) (*Runs, *attempt) {
		s := NewRuns(estimate.NewCells(), prepare)
		a.Job, a.Grace, a.Estimate = "a", grace, 30*second
		a.Traits.Owner, a.Traits.Size = "ann", 1000
		a.Placement.Slots = []topology.Slot{{Node: "n1"}, {Node: "n1", Rank: 1}, {Node: "n2", Rank: 2}}
		s.Admitted(&a, now)
		return s, s.jobs["a"]
	}
	for startBy, starts := range map[int64]int64{
		0: now + prepare, now + 3*second: now + 3*second, now + prepare: now + prepare, now + 99*second: now + prepare,
	} {
		a := Admission{StartBy: startBy, Traits: estimate.Traits{Limit: limit}}
		if _, r := admit(a); r.hard != starts+limit+grace+settling ||
			r.likely != now+30*second {
			t.Errorf("to start by %d: it ends by %d, likely by %d", startBy, r.hard, r.likely)
		}
	}
	if _, r := admit(Admission{StartBy: now + second}); r.hard != topology.Never {
		t.Errorf("without a limit it ends by %d", r.hard)
	}
	for _, learned := range []bool{false, true} {
		s, r := admit(Admission{Traits: estimate.Traits{Limit: limit}})
		s.Began("a", now+7*second)
		s.Began("a", now+9*second) // reported again
		if r.began != now+7*second || r.hard != now+7*second+limit+grace+settling {
			t.Errorf("it began at %d and ends by %d", r.began, r.hard)
		}
		line := s.cells.Of(r.Traits)
		if ran := s.Ended("a", now+20*second, learned); ran != 13*second || line.Knows() != learned {
			t.Errorf("it ran for %d, and is learned: %v, want %v", ran, line.Knows(), learned)
		}
		if len(s.on) != 0 || s.Runs("a") || s.Ended("a", now, true) != 0 {
			t.Error("it is there when it has ended")
		}
	}
	s, _ := admit(Admission{})
	if ran := s.Ended("a", now+20*second, true); ran != 0 {
		t.Errorf("it ran for %d, and never began", ran)
	}
}

// TestWhatIsProbed checks that a probe needs two or more similar small jobs, none of which was tried yet.
func TestWhatIsProbed(t *testing.T) {
	for jobs, want := range map[int]bool{1: false, 2: true, 3: true} {
		for _, c := range []struct{ tried, gang, lacks, want bool }{
			{want: want}, {tried: true}, {gang: true}, {lacks: true},
		} {
			j := bare(0, estimate.Pool{})
			j.settings.lacks.probes = c.lacks
			b := &burst{jobs: make([]*entry, jobs), tried: c.tried, gang: c.gang}
			if b.isUntried(j) != c.want {
				t.Errorf("%d jobs, %+v", jobs, c)
			}
		}
	}
}

// TestRefusedIsCountedOnce checks that a shape without a place is placed once in a pass, and counts once as refused.
func TestRefusedIsCountedOnce(t *testing.T) {
	j := bare(0, estimate.Pool{})
	j.queue.Add(Waiting{Job: "a", Gang: wholes(1)})
	g := j.queue.jobs["a"].group
	for round := range 3 {
		j.round++
		j.d = Decisions{}
		for i, lent := range []topology.Lent{{Of: []topology.KeepID{"x"}}, {}, {}, {All: true}, {}, {All: true}} {
			if _, ok := j.place(g, false, lent); ok {
				t.Fatal("it has a place where there is none")
			}
			looked, refused := []int{1, 2, 2, 3, 3, 3}[i], min(i, 1)
			if j.d.Looked != looked || j.d.Refused != refused {
				t.Errorf("pass %d, look %d: %d looks and %d refused", round, i, j.d.Looked, j.d.Refused)
			}
		}
	}
}

// TestLoansComeBackWithTheirLender checks that the loans and overruns of a firm promise count again when its job is
// back in the queue.
func TestLoansComeBackWithTheirLender(t *testing.T) {
	for loans := range 2 {
		j := bare(0, estimate.Pool{})
		was := &entry{standing: standing{slips: 1, told: &foretold{}, loans: make([]loan, loans)}}
		p := &promise{e: was, firm: true}
		e := &entry{burst: &burst{}}
		j.rebind(p, e)
		if e.slips != 1 || e.told != was.told || len(e.loans) != loans || e.promised != p || p.e != e || p.b != e.burst ||
			len(j.debtors) != loans {
			t.Errorf("%d loans: %+v, %d debtors", loans, e.standing, len(j.debtors))
		}
	}
}

// TestWayOutInMinutes checks that a suggested limit is in whole minutes, shorter than the job's own, and leaves time to
// apply it.
func TestWayOutInMinutes(t *testing.T) {
	const now, spare = 1000 * second, 5*second + settling + 30*second
	for _, c := range []struct {
		by, limit int64
		helps     bool
		want      int64 // in seconds; 0: none
	}{
		{now + 60*second + spare, 0, true, 60}, {now + 60*second + spare - 1, 0, true, 0},
		{now + 119*second + spare, 0, true, 60}, {now + 120*second + spare, 0, true, 120},
		{now + 120*second + spare, 0, false, 0}, {now + 120*second + spare, 120 * second, true, 0},
		{now + 120*second + spare, 120*second + 1, true, 120}, {now + 120*second + spare, 119 * second, true, 0},
		{now + 9*longWork, 0, true, longWork / second}, {now, 0, true, 0},
	} {
		w := Borrower{Limit: c.limit, Grace: 5 * second}
		way, ok := w.within(c.by, []topology.JobID{"x"}, now, c.helps)
		if ok != (c.want > 0) || int64(way.Limit) != c.want*second || ok && len(way.Of) != 1 {
			t.Errorf("%+v: %v, %v", c, way, ok)
		}
	}
	for _, c := range []struct {
		p          Promise
		lent, want int64
	}{
		{Promise{At: 50 * second, Bound: 70 * second, Firm: true}, 0, 50 * second},
		{Promise{At: 65 * second, Bound: 70 * second, Firm: true}, 0, 60 * second},
		{Promise{At: 65 * second, Bound: 70 * second, Firm: true}, 6 * second, 58 * second},
		{Promise{At: 65 * second, Bound: 70 * second}, 6 * second, 65 * second},
		{Promise{At: 65 * second, Bound: topology.Never, Firm: true}, 6 * second, 65 * second},
	} {
		if got := (&Borrower{Lent: c.lent}).leaves(&c.p); got != c.want {
			t.Errorf("%+v: it leaves by %d, want %d", c, got, c.want)
		}
	}
}

// TestBurstsStayOpen checks that a burst stays open while the next similar job is submitted soon after the latest one,
// in whatever order the jobs are added.
func TestBurstsStayOpen(t *testing.T) {
	for _, c := range []struct {
		owner string
		gap   int64
		since []int64 // in seconds
		last  int64
		one   bool
	}{
		{"ann", 600 * second, []int64{0}, 600, true}, {"ann", 600 * second, []int64{0}, 601, false},
		{"ann", 600 * second, []int64{300, 0}, 900, true}, {"ann", 600 * second, []int64{300, 0}, 901, false},
		{"", 10 * second, []int64{0}, 10, true}, {"", 10 * second, []int64{0}, 11, false},
	} {
		j := bare(0, estimate.Pool{Name: "p", Size: 8000})
		for i, at := range append(c.since, c.last) {
			id := topology.JobID(rune('a' + i))
			j.queue.Add(Waiting{Job: id, Gang: wholes(1), Owner: c.owner, Since: 1000*second + at*second, Arrived: int64(i)})
			j.bursts.enter(j, j.queue.jobs[id])
			j.bursts.enter(j, j.queue.jobs[id]) // a second time
		}
		if n := len(j.bursts.list); n != map[bool]int{true: 1, false: 2}[c.one] || j.bursts.list[0].gap() != c.gap {
			t.Errorf("%+v: %d bursts, with a gap of %d", c, n, j.bursts.list[0].gap())
		}
	}
}

// TestWhatRunsIsNoPastUse checks that a running job of an earlier leader is counted from its begin, and is not in the
// stored usage before it ends.
func TestWhatRunsIsNoPastUse(t *testing.T) {
	const now = 100 * 3600 * second
	uses := func(since int64) (running, over int64) {
		j := bare(now, estimate.Pool{Name: "p", Size: 8000})
		j.Obey(&share.Queues{Queues: []share.QueueSpec{{Name: "q"}}})
		j.Occupies(Holding{Job: "a", Gang: wholes(1), Traits: estimate.Traits{Queue: "q", Size: 1000}, Since: since}, now)
		sum := func(at int64) (all int64) {
			for _, u := range j.Uses(at) {
				all += u.Amount
			}
			return all
		}
		running = sum(now + 3600*second)
		j.Ended("a", 3600*second)
		return running, sum(now + 3600*second)
	}
	spent := func(hours int64) int64 {
		s := share.New(queuesOf(share.QueueSpec{Name: "q"}), share.FIFO)
		s.Spend("q", "", 1000, hours*3600*second, now)
		return s.Uses(now)[0].Amount
	}
	hour := spent(1)
	for since, want := range map[int64]int64{0: hour, now: hour, now - 9*3600*second: spent(10)} {
		running, over := uses(since)
		if running > hour/1000 || over < want-want/1000 || over > want+want/1000 {
			t.Errorf("since %d: %d is used while it runs, and %d when it is over, want none and %d", since, running, over, want)
		}
	}
}
