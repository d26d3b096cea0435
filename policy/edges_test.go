package policy

import (
	"fmt"
	"math/big"
	"math/rand"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// This file tests single rules of a Judgement at both sides of each limit.

// bare returns a Judgement of an empty cluster with one pool, at a time.
func bare(now int64, pool estimate.Pool) *Judgement {
	f := topology.NewTree([]string{"rack"})
	j := NewJudgement(DefaultSettings(), estimate.NewCells(), NewRuns(estimate.NewCells(), 0))
	j.view, j.queue, j.now = f, NewQueue(), now
	j.bursts = newBursts()
	j.pools.poolsAre(pool)
	return j
}

func (s *pools) poolsAre(p estimate.Pool) { s.of, s.all = estimate.Pools{p}, []pool{{Pool: p}} }

// lone returns a burst of one job that could run, in the pool p.
func lone(size, expected int64, w Waiting) *burst {
	e := &entry{Waiting: w, group: &group{close: nearness{known: true, possible: true}}}
	b := &burst{
		key: burstKey{limit: w.Limit, priority: w.Priority}, traits: estimate.Traits{Pool: "p", Size: size},
		estimate: expected, line: &estimate.Line{}, jobs: []*entry{e}, head: e,
	}
	e.burst = b
	return b
}

// TestOrderOfQueues checks the order of sibling queues. Queues within their quotas come first, by the used part. Queues
// that borrow follow, by usage divided by weight. Ties are broken by the arrival of the next job, then by the position
// in the configuration.
func TestOrderOfQueues(t *testing.T) {
	queue := func(within bool, part, counts, weight, came int64, at int) *turns {
		return &turns{
			of: &share.Branch{Weight: weight, At: at}, within: within, part: part, counts: counts,
			since: &entry{Waiting: Waiting{Arrived: came}},
		}
	}
	inOrder := []*turns{
		queue(true, 1, 9, 1, 9, 9), queue(true, 2, 0, 1, 0, 0), queue(true, 2, 5, 1, 1, 1),
		queue(false, 0, 10, 20, 9, 9), queue(false, 0, 3, 5, 8, 8), queue(false, 9, 6, 10, 8, 9),
		queue(false, 9, 10, 10, 0, 0), queue(false, 9, 10, 10, 1, 0),
	}
	for i, a := range inOrder {
		for k, b := range inOrder {
			if a.sooner(b) != (i < k) {
				t.Errorf("%d before %d: %v", i, k, a.sooner(b))
			}
		}
	}
	chance := rand.New(rand.NewSource(1))
	for range 2000 {
		n := [4]int64{}
		for i := range n {
			n[i] = chance.Int63() >> chance.Intn(62)
		}
		if chance.Intn(4) == 0 {
			n[2], n[3] = n[1], n[0]
		}
		product := func(a, b int64) *big.Int { return new(big.Int).Mul(big.NewInt(a), big.NewInt(b)) }
		if got, want := compareProducts(n[0], n[1], n[2], n[3]), product(n[0], n[1]).Cmp(product(n[2], n[3])); got != want {
			t.Errorf("%v: %d, want %d", n, got, want)
		}
	}
}

// TestDueWithAnother checks that a new loan is due with the first other loan that is late enough and not later than the
// lender's start. Otherwise it is due at that start, if the number of due times allows it.
func TestDueWithAnother(t *testing.T) {
	chance := rand.New(rand.NewSource(2))
	for range 20_000 {
		now, back := int64(100), 101+chance.Int63n(6)
		p := &promise{at: 101 + chance.Int63n(6), e: &entry{}}
		p.e.slips = chance.Intn(maxSlips + 1)
		moments, due := map[int64]bool{}, int64(0)
		for range chance.Intn(4) {
			l := loan{due: 98 + chance.Int63n(9)}
			p.e.loans = append(p.e.loans, l)
			if l.due <= now {
				moments[0] = true
				continue
			}
			moments[l.due] = true
			if l.due >= back && l.due <= p.at && (due == 0 || l.due < due) {
				due = l.due
			}
		}
		ok := due > 0
		if !ok {
			due, ok = p.at, p.e.slips+len(moments) < 2
		}
		ok = ok && back <= p.at && p.e.slips < 2
		if got, is := p.dueBy(now, back); is != ok || ok && got != due {
			t.Fatalf("by %d of %d, %d slips and %v: %d %v, want %d %v", back, p.at, p.e.slips, p.e.loans, got, is, due, ok)
		}
	}
}

// TestWhoBorrows checks that a job which certainly ends before a promise is free may be backfilled. On a firm promise,
// the job must also have time to become ready, and must start in time.
func TestWhoBorrows(t *testing.T) {
	const now, grace, limit = 1000 * second, 5 * second, 100 * second
	hard := int64(now + limit + grace + 20*second)
	for _, c := range []struct {
		firm           bool
		at, bound      int64
		lent, estimate int64
		by             int64
		ok             bool
	}{
		{at: hard, bound: topology.Never, estimate: 1000 * second, ok: true},
		{at: hard + 1, bound: topology.Never, estimate: 1000 * second, ok: true},
		{at: hard - 1, bound: topology.Never, estimate: 1000 * second}, // not certain, and expected to stay
		{at: hard - 1, bound: topology.Never, estimate: 20 * second, ok: true},
		{firm: true, at: hard, bound: hard + 10*second, by: now + 10*second, ok: true},
		{firm: true, at: hard, bound: hard + 10*second - 1},
		{firm: true, at: hard, bound: hard + 40*second, lent: 20 * second, by: now + 40*second, ok: true},
		{firm: true, at: hard, bound: hard + 40*second - 1, lent: 20 * second},
		{firm: true, at: hard, bound: topology.Never, ok: true},
	} {
		j := bare(now, estimate.Pool{Name: "p", Size: 8000})
		b := lone(1000, c.estimate, Waiting{Job: "w", Limit: limit, Grace: grace, Lent: c.lent})
		p := &promise{at: c.at, bound: c.bound, firm: c.firm, e: &entry{}}
		if by, ok := j.mayBorrow(p, b, b.head); ok != c.ok || ok && by != c.by {
			t.Errorf("%+v: by %d, %v", c, by, ok)
		}
		for i, never := range []*promise{
			{at: c.at, bound: c.bound, firm: c.firm, e: &entry{}, stops: []stop{{}}},
			{at: c.at, bound: c.bound, firm: c.firm, e: &entry{}, firmly: firmly{blind: true}},
		} {
			if _, ok := j.mayBorrow(never, b, b.head); ok {
				t.Errorf("%+v: lent though %d", c, i)
			}
		}
	}
	// Neither the promise nor the job has a known end. After two overruns, nothing is lent on estimates.
	j, b := bare(now, estimate.Pool{Name: "p", Size: 8000}), lone(1000, 20*second, Waiting{Job: "w", Grace: grace})
	endless := &promise{at: topology.Never, bound: topology.Never, firm: true, e: &entry{}}
	endless.e.slips = maxSlips
	if _, ok := j.mayBorrow(endless, b, b.head); ok {
		t.Error("lent to a job without a limit after two overruns")
	}
	if hardAfter(7, 0, 5) != topology.Never || hardAfter(7, 1, 5) != 13+20*second {
		t.Errorf("%d, %d", hardAfter(7, 0, 5), hardAfter(7, 1, 5))
	}
}

// TestHeadroomIsExact checks that long jobs are held back beyond their part, except for jobs that are larger than that
// part.
func TestHeadroomIsExact(t *testing.T) {
	for _, c := range []struct {
		percent, long, size, estimate int64
		held                          bool
	}{
		{10, 8000, 1000, longWork + 1, false}, {10, 8001, 1000, longWork + 1, true}, {10, 8001, 1000, longWork, false},
		{0, 10_000, 1000, longWork + 1, false}, {10, 9000, 4500, longWork + 1, true}, {10, 9000, 4501, longWork + 1, false},
	} {
		j := bare(0, estimate.Pool{Name: "p", Size: 10_000})
		j.settings.HeadroomPercent, j.pools.all[0].long = c.percent, c.long
		if got := j.heldBack(lone(c.size, c.estimate, Waiting{})); got != c.held {
			t.Errorf("%+v: held back %v", c, got)
		}
	}
}

// TestGuardHelpsTheOldest checks that the job which has waited longest is helped after a while. If a job with a higher
// priority waits in the same pool, it is helped later.
func TestGuardHelpsTheOldest(t *testing.T) {
	const now = 100 * second
	j := bare(now, estimate.Pool{Name: "p", Size: 8000})
	waiting := func(job topology.JobID, since, arrived int64, priority int32) *burst {
		b := lone(1000, 60*second, Waiting{Job: job, Since: since, Arrived: arrived, Priority: priority})
		b.head.left = true
		return b
	}
	for _, c := range []struct {
		since    int64
		priority int32 // of another waiting job
		other    string
		helped   bool
		wake     int64
	}{
		{now - 5*second, 0, "p", true, 0}, {now - 5*second + 1, 0, "p", false, now + 1},
		{now - 50*second, 1, "p", true, 0}, {now - 50*second + 1, 1, "p", false, now + 1},
		{now - 5*second, 1, "q", true, 0}, {now - 5*second, -1, "p", true, 0},
	} {
		old, other := waiting("old", c.since, 1, 0), waiting("other", now-90*second, 2, c.priority)
		other.traits.Pool = c.other
		j.wake, j.bursts.list = 0, []*burst{other, old}
		got := j.oldest("p")
		if (got == old) != c.helped || got != nil && got != old || j.wake != c.wake {
			t.Errorf("%+v: helped is %v, and it looks again in %d", c, got, j.wake-now)
		}
	}
	long := func(edit func(b *burst)) bool {
		b := waiting("long", 0, 1, 0)
		b.estimate = longWork + 1
		edit(b)
		return j.isHelped(b, b.head)
	}
	j.pools.all[0].long = 8000
	for i, c := range []struct {
		edit func(b *burst)
		want bool
	}{
		{func(b *burst) {}, false}, {func(b *burst) { b.head.Limit = 1 }, true},
		{func(b *burst) { b.estimate = longWork }, true},
		{func(b *burst) { b.head.Limit, b.head.left = 1, false }, false},
		{func(b *burst) { b.head.Limit, b.head.group.close.possible = 1, false }, false},
		{func(b *burst) { b.head.Limit, b.head.promised = 1, &promise{stops: []stop{{}}} }, false},
		{func(b *burst) { b.head.Limit, b.head.given = 1, "nobody" }, true},
	} {
		if got := long(c.edit); got != c.want {
			t.Errorf("case %d: helped is %v", i, got)
		}
	}
}

// TestPatienceOfAPlace checks that a gang waits a minute for a close place. If half of its earlier wait is longer, it
// waits for that time, up to the maximum.
func TestPatienceOfAPlace(t *testing.T) {
	j := bare(0, estimate.Pool{Name: "p", Size: 8000})
	j.settings.Locality, j.settings.LocalityMost = time.Minute, 10*time.Minute
	for waited, want := range map[int64]int64{0: 60, 100: 60, 120: 60, 122: 61, 600: 300, 1200: 600, 1300: 600} {
		e := &entry{Waiting: Waiting{Since: 50 * second}}
		declined := 50*second + waited*second
		if got := j.patientUntil(e, declined); got != declined+want*second {
			t.Errorf("after %d s it waits for %d s, want %d", waited, (got-declined)/second, want)
		}
	}
}

// TestEveryStandingIsKept checks that Replace keeps everything that was published or counted for a job.
func TestEveryStandingIsKept(t *testing.T) {
	q := NewQueue()
	q.Add(Waiting{Job: "a", Gang: wholes(1)})
	was := standing{left: true, declined: 3, slips: 1, given: "x", told: &foretold{}}
	q.jobs["a"].standing = was
	q.Replace(Waiting{Job: "a", Gang: wholes(2)})
	got := q.jobs["a"].standing
	for i := range reflect.TypeFor[standing]().NumField() {
		name := reflect.TypeFor[standing]().Field(i).Name
		if name == "promised" || name == "loans" { // these belong to its place and are planned again
			continue
		}
		if a, b := reflect.ValueOf(got).Field(i), reflect.ValueOf(was).Field(i); b.IsZero() || !a.Equal(b) {
			t.Errorf("%s is %v, and was %v", name, a, b)
		}
	}
}

// TestCreditOfTheGuard checks that the credit grows by its part of the pool while jobs wait, for at most an hour at
// once and in total. The overpaid part of a job's charge must be returned.
func TestCreditOfTheGuard(t *testing.T) {
	const percent, size = 5, 8000
	for _, c := range []struct {
		waits          bool
		credit, passed int64
		want           int64
	}{
		{true, 0, 10, 10 * 400}, {false, 0, 10, 0}, {true, -5000, 10, -1000}, {true, 0, 3600, 3600 * 400},
		{true, 0, 9999, 3600 * 400}, {true, 3600*400 - 1, 10, 3600 * 400}, {true, -9_000_000, 9999, 3600*400 - 9_000_000},
	} {
		j := bare(c.passed*second+second/2, estimate.Pool{Name: "p", Size: size})
		j.settings.GuardPercent, j.pools.counted = percent, j.now
		p := &j.pools.all[0]
		p.waits, p.credit = c.waits, c.credit
		j.pools.count(j)
		if p.credit != c.want || p.creditAt != c.passed*second {
			t.Errorf("%+v: %d, up to %d", c, p.credit, p.creditAt)
		}
	}
	for ran, want := range map[int64]int64{0: 0, 10: -20_000, 60: -120_000, 90: -180_000} {
		j := bare(0, estimate.Pool{Name: "p", Size: size})
		b := lone(2000, 60*second, Waiting{Job: "g"})
		if j.charge(b, b.head, true); j.pools.all[0].credit != -120_000 {
			t.Errorf("charged %d", j.pools.all[0].credit)
		}
		if j.Ended("g", ran*second); j.pools.all[0].credit != want {
			t.Errorf("after %d s the credit is %d, want %d", ran, j.pools.all[0].credit, want)
		}
	}
}

// TestPaceOfHours compares the rate of a pool with a list of the work per hour.
func TestPaceOfHours(t *testing.T) {
	chance := rand.New(rand.NewSource(3))
	for range 300 {
		type did struct{ hour, work int64 }
		var all []did
		var p pace
		begin := 1 + chance.Int63n(5*oneHour)
		now := begin
		p.turn(now)
		for range 40 {
			now += chance.Int63n([]int64{600 * second, 2 * oneHour, 30 * oneHour}[chance.Intn(3)])
			p.turn(now)
			if ran := chance.Int63n(3 * oneHour); chance.Intn(2) == 0 {
				p.did(2000, ran, now)
				all = append(all, did{now / oneHour, topology.Scaled(2000, min(ran, now-begin), second)})
			}
			watched, sum := min(now-begin, 23*oneHour+now%oneHour), int64(0)
			for _, d := range all {
				if d.hour > now/oneHour-24 {
					sum += d.work
				}
			}
			want := int64(0)
			if watched >= 600*second {
				want = sum / (watched / second)
			}
			if got := p.now(now); got != want {
				t.Fatalf("%d hours after it began the pace is %d, want %d", (now-begin)/oneHour, got, want)
			}
		}
	}
}

// TestWhatRemains checks without and besides: the slots that a job does not hold on a node, and the slots that are not
// among others, with their multiplicity.
func TestWhatRemains(t *testing.T) {
	chance := rand.New(rand.NewSource(4))
	slot := func() topology.Slot {
		return topology.Slot{
			Node:   topology.NodeID(fmt.Sprint("n", chance.Intn(3))),
			Amount: topology.Resources{MilliGPU: 1000 * (1 + chance.Int63n(2))},
		}
	}
	counts := func(slots []topology.Slot) map[topology.Slot]int {
		m := map[topology.Slot]int{}
		for _, s := range slots {
			m[topology.Slot{Node: s.Node, Amount: s.Amount}]++
		}
		return m
	}
	for range 3000 {
		var a, b []topology.Slot
		for range chance.Intn(6) {
			a = append(a, slot())
		}
		for range chance.Intn(6) {
			b = append(b, slot())
		}
		got, were, others := counts(besides(a, b)), counts(a), counts(b)
		for s, n := range were {
			if got[s] != max(n-others[s], 0) {
				t.Fatalf("%v besides %v: %v", a, b, got)
			}
		}
		slices.SortFunc(a, func(x, y topology.Slot) int { return int(x.Node[1]) - int(y.Node[1]) })
		has := map[topology.NodeID]int64{"n0": chance.Int63n(4000), "n2": 2000}
		left := map[topology.NodeID]int64{"n0": has["n0"], "n2": has["n2"]}
		var want []topology.Slot
		for _, s := range a {
			if left[s.Node] >= s.Amount.MilliGPU {
				left[s.Node] -= s.Amount.MilliGPU
			} else {
				want = append(want, s)
			}
		}
		rest := without(topology.Placement{Slots: a}, func(n topology.NodeID) []topology.Resources {
			return []topology.Resources{{MilliGPU: has[n] / 2}, {MilliGPU: has[n] - has[n]/2}}
		})
		if !slices.Equal(rest.Slots, want) {
			t.Fatalf("%v without %v: %v, want %v", a, has, rest.Slots, want)
		}
	}
}
