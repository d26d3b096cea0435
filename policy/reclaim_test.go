package policy

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// This file tests when jobs are stopped, and how often victims are searched.

// TestQuotaIsBackInTime checks that an idle queue gets its quota back after its first submit, for jobs that fit the
// freed nodes. It takes at most the minimum run time, the longest grace period and a minute, whatever the age of the
// other jobs.
func TestQuotaIsBackInTime(t *testing.T) {
	reclaimed := 0
	for seed := range 30 {
		r := rand.New(rand.NewSource(int64(seed)))
		machines := 4 + r.Intn(8)
		quota := int64(1 + r.Intn(machines-1))
		x := newTheatre(t, machines, &share.Queues{Queues: []share.QueueSpec{
			gpuQuota("idle", "", quota), gpuQuota("a", "", r.Int63n(int64(machines)-quota+1)), gpuQuota("b", "", -1),
		}})
		longest, first := int64(0), int64(100+r.Intn(2000))
		for range 3 * machines {
			a := act{at: r.Int63n(first), runs: 1 + r.Int63n(20_000), grace: r.Int63n(30), gang: wholes(1), queue: "a"}
			if r.Intn(2) == 0 {
				a.queue = "b"
			}
			longest = max(longest, a.grace)
			x.enter(a)
		}
		var own []*actor
		for range quota {
			own = append(own, x.enter(act{at: first + r.Int63n(3), runs: 100_000, gang: wholes(1), queue: "idle"}))
		}
		by := first + share.UsualMinRun/second + longest + 60
		x.run(by + 10)
		for _, a := range own {
			if a.began() < 0 || a.began() > by {
				t.Errorf("seed %d: %s came at %d and began at %d, and not by %d", seed, a.id, a.at, a.began(), by)
			}
		}
		reclaimed += len(x.victims())
	}
	if reclaimed < 30 {
		t.Errorf("%d were stopped in all: nothing was borrowed", reclaimed)
	}
}

// loans returns a theatre with promises. One queue has borrowed both nodes for two jobs. A gang of a third queue waits
// for both nodes, with a quota of a number of nodes (negative: none). The first queue has a quota of one node.
func loans(t *testing.T, limit, quota int64) (x *theatre, gang *actor) {
	queues := queuesOf(gpuQuota("idle", "", 1), gpuQuota("a", "", -1), gpuQuota("b", "", quota))
	x = newTheatre(t, 2, queues)
	x.j = NewJudgement(simple(), estimate.NewCells(), stopping{x.runs, x})
	x.j.Obey(queues)
	lent := act{runs: 100_000, limit: limit, gang: wholes(1), queue: "a"}
	x.enter(lent, lent)
	gang = x.enter(act{at: 10, runs: 50, limit: 60, gang: wholes(2), queue: "b"})
	x.run(900)
	if p := x.j.firmOf(gang.id); p == nil || len(p.place.Slots) != 2 || (p.bound < topology.Never) != (limit > 0) {
		t.Fatalf("both machines are to be kept for %s: %+v", gang.id, p)
	}
	return x, gang
}

// TestReclaimLooksThroughPromises checks that the promise of a borrowing gang does not prevent a reclaim, even if it
// has all borrowed nodes and a latest start.
func TestReclaimLooksThroughPromises(t *testing.T) {
	for _, limit := range []int64{0, 100_000} {
		x, gang := loans(t, limit, -1)
		if p := x.j.tellable(x.j.firmOf(gang.id)); !p.OnLoan {
			t.Errorf("by limit %d: the promise is not marked as on loan: %+v", limit, p)
		}
		own := x.enter(act{at: 901, runs: 100_000, gang: wholes(1), queue: "idle"})
		x.run(1000)
		if own.began() < 0 || len(x.victims()) != 1 {
			t.Errorf("by limit %d: %s began at %d, and %v were stopped for it", limit, own.id, own.began(), x.victims())
		}
	}
}

// TestLoanIsTold has a latest start that was published without the condition of a reclaim. It must remain valid
// although the queue would borrow now, also under a new leader. One that was published with the condition must still
// yield.
func TestLoanIsTold(t *testing.T) {
	for _, onLoan := range []bool{false, true} {
		x, gang := loans(t, 100_000, -1)
		p := x.j.firmOf(gang.id)
		x.j.giveUp(p)
		x.j.Written(gang.id)
		x.j.Inherit(&Firm{
			Job: gang.id, Pool: p.pool, Order: p.order, Where: p.place, Left: left(p.bound, x.now), OnLoan: onLoan,
			Queue: "b",
		}, x.now)
		own := x.enter(act{at: 901, runs: 100_000, gang: wholes(1), queue: "idle"})
		x.run(1000)
		if gaveWay := own.began() >= 0; gaveWay != onLoan {
			t.Errorf("told as a loan: %v; it gave way: %v", onLoan, gaveWay)
		}
	}
}

// TestYieldsAfterVictims has a gang whose queue borrows for it only while a job of the same queue runs. If that job is
// stopped for a reclaim, the gang is within the quota of its queue. Its latest start must remain valid.
func TestYieldsAfterVictims(t *testing.T) {
	queues := queuesOf(gpuQuota("idle", "", 2), gpuQuota("b", "", 3))
	x := newTheatre(t, 4, queues)
	x.j = NewJudgement(simple(), estimate.NewCells(), stopping{x.runs, x})
	x.j.Obey(queues)
	x.enter(act{runs: 100_000, limit: 100_000, gang: wholes(4), queue: "b"})
	gang := x.enter(act{at: 10, runs: 50, limit: 60, gang: wholes(3), queue: "b"})
	x.run(900)
	if p := x.j.firmOf(gang.id); p == nil || p.bound == topology.Never || !p.onLoan {
		t.Fatalf("the gang needs a latest start on loan: %+v", p)
	}
	own := x.enter(act{at: 901, runs: 100_000, gang: wholes(2), queue: "idle"})
	x.run(1000)
	if x.j.firmOf(gang.id) == nil && gang.began() < 0 {
		t.Errorf("the promise was dropped; %s began at %d, and %v were stopped", own.id, own.began(), x.victims())
	}
}

// TestLoanChanges checks that a promise gets or loses the condition after a change of the queues, and that this is
// recorded.
func TestLoanChanges(t *testing.T) {
	x, gang := loans(t, 100_000, -1)
	for _, quota := range []int64{2, -1} {
		x.j.Obey(queuesOf(gpuQuota("idle", "", 1), gpuQuota("b", "", quota), gpuQuota("a", "", 1)))
		p := x.j.firmOf(gang.id)
		if p == nil || p.onLoan != (quota < 0) || !p.unsaid {
			t.Errorf("assured %d machines: the promise is %+v", quota, p)
		}
		x.j.sayFirm()
	}
}

// TestFewHunts checks that victims are not searched in every pass: once in a while per burst, and for few bursts per
// pass. A queue of jobs without possible victims therefore costs little.
func TestFewHunts(t *testing.T) {
	x := newTheatre(t, 4, oneQueue())
	x.enter(act{runs: 90_000, gang: wholes(2)}, act{runs: 90_000, gang: wholes(2), priority: 9})
	const bursts, lasts = 10, 300
	for i := range bursts {
		x.enter(act{at: 700, runs: 50, gang: wholes(3), priority: 1, owner: fmt.Sprint("o", i)})
	}
	x.run(699)
	all, passes := 0, 0
	x.looks = func() {
		all, passes = all+x.j.hunts, passes+1
		if x.j.hunts > huntsInPass {
			t.Errorf("at %d it was looked for whom to stop %d times in one pass", x.now/second, x.j.hunts)
		}
	}
	x.run(700 + lasts)
	if most := bursts * (lasts*second/huntEvery + 1); all == 0 || int64(all) > int64(most) || passes < lasts {
		t.Errorf("in %d passes for %d bursts it was looked for whom to stop %d times, and at most %d would do", passes,
			bursts, all, most)
	}
}
