package policy

import (
	"flag"
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/policy/preempt"
	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// theatre is a stage on which jobs are stopped for others.
type theatre struct {
	*stage
	times map[topology.JobID]int
	since map[topology.JobID]int64 // last stop of each job for one with higher priority
	stops []Firm                   // the promises with victims, each once
	seen  map[topology.JobID]bool  // promises whose victims were stopped
	lags  int64                    // seconds between a promise and the stop of its victims
	due   map[int64][]Firm
	// chosen is called for a promise with victims before they are stopped.
	chosen func(Firm)
	saved  map[topology.JobID]int64 // when each job last acknowledged a checkpoint
}

func newTheatre(t *testing.T, machines int, q *share.Queues) *theatre {
	x := &theatre{
		stage: newStage(t, OnlyFIFO(), machines, 2), seen: map[topology.JobID]bool{}, due: map[int64][]Firm{},
		times: map[topology.JobID]int{}, since: map[topology.JobID]int64{},
	}
	x.fixed, x.had = map[topology.JobID]bool{}, map[topology.JobID]int64{}
	x.j = NewJudgement(OnlyFIFO(), estimate.NewCells(), stopping{x.runs, x})
	x.j.Obey(q)
	return x
}

// stopping is a Stopper for the running jobs.
type stopping struct {
	Ends
	x *theatre
}

func (s stopping) Running(job topology.JobID, now int64) (preempt.Running, bool) {
	r := s.x.runs.jobs[job]
	if r == nil {
		return preempt.Running{}, false
	}
	a := s.x.actorOf(job)
	run := preempt.Running{
		Token: s.x.token(a), Priority: a.priority, Room: r.Placement, Grace: a.grace * second,
		Fixed: s.x.fixed[job], Times: s.x.times[job], Rested: topology.Never, Had: s.x.had[job],
		Limit: a.limit * second, Checkpoint: a.saves * second,
	}
	if r.began >= 0 {
		run.Ran = now - r.began
		run.Saved = max(min(s.x.saved[job], now)-r.began, 0)
	}
	if at, ok := s.x.since[job]; ok {
		run.Rested = now - at
	}
	return run, true
}

func (x *theatre) actorOf(job topology.JobID) *actor {
	return x.cast[slices.IndexFunc(x.cast, func(a *actor) bool { return a.id == job })]
}

func (x *theatre) token(a *actor) topology.Token {
	return topology.Token{Epoch: 1, Counter: uint64(a.started)}
}

// run advances the time second by second, and stops the victims of promises.
func (x *theatre) run(until int64) {
	for x.now < until*second {
		x.now += second
		x.happen()
		for _, f := range x.due[x.now] {
			x.stop(f)
		}
		x.firm = nil
		x.pass()
		for _, f := range x.firm {
			if len(f.Stops) > 0 && !x.seen[f.Job] {
				if x.chosen != nil {
					x.chosen(f)
				}
				x.seen[f.Job] = true
				x.stops = append(x.stops, f)
				x.due[x.now+(1+x.lags)*second] = append(x.due[x.now+(1+x.lags)*second], f)
			}
		}
	}
}

// stop stops the victims of a promise: each leaves after its grace period, and waits again.
func (x *theatre) stop(f Firm) {
	if !x.waits(x.actorOf(f.Job)) {
		return
	}
	for _, v := range f.Stops {
		a := x.actorOf(v.Job)
		if x.runs.jobs[v.Job] == nil || x.token(a) != v.Token {
			continue
		}
		x.j.Stopped(f.Job, v.Token)
		if v.Rule != preempt.Reclaim {
			x.times[v.Job]++
			x.since[v.Job] = x.now
		}
		x.view.Give(a.place)
		ran := x.runs.Ended(a.id, x.now, false)
		x.had[a.id] += ran
		x.j.Ended(a.id, ran)
		a.started = -1
	}
}

var trees = flag.Int("trees", 6, "how many trees of queues TestNobodyIsStoppedInVain draws")

func yes() *bool { b := true; return &b }

// oneQueue returns a queue whose jobs may be stopped for jobs with higher priority.
func oneQueue() *share.Queues {
	q := queuesOf(share.QueueSpec{Name: "q", Preemption: share.Preemption{ByPriority: yes()}})
	q.Default = "q"
	return q
}

func (x *theatre) victims() (all []string) {
	for _, f := range x.stops {
		for _, v := range f.Stops {
			all = append(all, string(v.Job))
		}
	}
	return all
}

// TestOneVictim checks that only one of ten jobs is stopped, the one that loses least, and that it keeps its position
// in the queue.
func TestOneVictim(t *testing.T) {
	x := newTheatre(t, 10, oneQueue())
	x.enter(act{at: 1, runs: 90_000, gang: wholes(1)})
	for i := range 9 {
		x.enter(act{at: int64(2 + i), runs: 90_000, gang: wholes(1)})
	}
	high := x.enter(act{at: 1000, runs: 50, gang: wholes(1), priority: 1})
	x.run(1100)
	if got := x.victims(); !slices.Equal(got, []string{"j000009"}) || high.began() < 1000 || high.began() > 1020 {
		t.Fatalf("%v are stopped, and it began at %d", got, high.began())
	}
	if last := x.cast[9]; last.began() != high.began()+50 {
		t.Errorf("the victim came back at %d", last.began())
	}
}

// TestBoundStands checks that a published latest start does not become later when the job gets victims, because they
// will have gone long before.
func TestBoundStands(t *testing.T) {
	x := newTheatre(t, 2, oneQueue())
	x.j = NewJudgement(DefaultSettings(), estimate.NewCells(), stopping{x.runs, x})
	x.j.Obey(oneQueue())
	x.enter(act{runs: 2000, limit: 2000, gang: wholes(1), priority: 1})
	x.enter(act{at: 300, runs: 9000, limit: 9000, gang: wholes(1)})
	x.enter(act{at: 310, runs: 50, limit: 60, gang: wholes(1), priority: 1})
	var bounds []int64
	was := -1
	for x.run(311); x.now < 1000*second; x.run(x.now/second + 1) {
		if p := x.j.firmOf("j000002"); p != nil && len(p.stops) != was {
			was = len(p.stops)
			bounds = append(bounds, p.bound)
		}
	}
	if len(bounds) != 2 || bounds[0] == topology.Never || bounds[1] > bounds[0] || len(x.stops) != 1 {
		t.Errorf("by when it was told that it starts: %v; stopped for it are %v", bounds, x.victims())
	}
}

// TestMovedIsLast has a job whose promise moves to another place because a victim of another job leaves a better one.
// The test checks that it does not start on the capacity that is being freed for the other job, although it was
// promised a place earlier.
func TestMovedIsLast(t *testing.T) {
	x := newTheatre(t, 2, oneQueue())
	x.j = NewJudgement(DefaultSettings(), estimate.NewCells(), stopping{x.runs, x})
	x.j.Obey(oneQueue())
	x.enter(act{runs: 2000, limit: 2000, gang: wholes(1), priority: 1})
	x.enter(act{at: 1, runs: 5000, limit: 5000, grace: 30, gang: gang(1, 6)})
	x.enter(act{at: 2, runs: 1500, limit: 1500, gang: gang(1, 2), priority: 1})
	early := x.enter(act{at: 10, runs: 50, limit: 60, gang: gang(1, 4)})
	high := x.enter(act{at: 900, runs: 4000, limit: 4000, gang: gang(1, 4), priority: 1})
	x.run(899)
	was := x.j.firmOf(early.id)
	if was == nil || was.place.Slots[0].Node == x.cast[1].place.Slots[0].Node {
		t.Fatalf("the first was promised %+v", was)
	}
	x.run(950)
	if now := x.j.firmOf(early.id); now == nil || now.place.Slots[0].Node != x.cast[1].place.Slots[0].Node {
		t.Fatalf("the first is promised %+v", now)
	}
	if x.run(1600); len(x.stops) != 1 || high.began() > 950 || early.began() < 1500 {
		t.Errorf("%v are stopped; the first began at %d, the other at %d", x.victims(), early.began(), high.began())
	}
}

// TestReplannedIsLast has a gang with stopping victims that loses a node of its place and gets another one. The test
// checks that it comes after all guarantees that were made before.
func TestReplannedIsLast(t *testing.T) {
	x := newTheatre(t, 8, oneQueue())
	x.j = NewJudgement(DefaultSettings(), estimate.NewCells(), stopping{x.runs, x})
	x.j.Obey(oneQueue())
	x.lags = 1000 // the victims are stopping during the complete test
	for range 8 {
		x.enter(act{runs: 90_000, gang: wholes(1)})
	}
	first := x.enter(act{at: 1000, runs: 10, gang: wholes(2), priority: 1})
	second := x.enter(act{at: 1020, runs: 10, gang: wholes(1), priority: 1})
	x.run(1040)
	p, later := x.j.firmOf(first.id), x.j.firmOf(second.id)
	if !p.isStopping() || !later.isStopping() || p.order > later.order {
		t.Fatalf("the guarantees are %+v and %+v", p, later)
	}
	for _, s := range p.stops {
		x.j.Stopped(first.id, s.Token)
	}
	before := p.place
	x.view.SetUsable(before.Slots[0].Node, "drained")
	x.run(1050)
	now := x.j.firmOf(first.id)
	if now == nil || !now.isStopping() || now.place.Slots[0].Node == before.Slots[0].Node {
		t.Fatalf("it was promised %v, and now %+v", before, now)
	}
	if now.order < x.j.firmOf(second.id).order {
		t.Errorf("its order is %d, and that of the other %d", now.order, x.j.firmOf(second.id).order)
	}
}

// TestNobodyInVain checks that jobs are stopped only if that makes enough capacity free.
func TestNobodyInVain(t *testing.T) {
	old := func(n int32, priority int32) act { return act{runs: 9e4, gang: wholes(n), priority: priority} }
	asks := func(at int64, n int32, priority int32) act { return act{at: at, gang: wholes(n), priority: priority} }
	two := oneQueue()
	two.Queues = append(two.Queues, share.QueueSpec{Name: "p", Preemption: share.Preemption{ByPriority: yes()}})
	other := asks(1000, 1, 1)
	other.queue = "p"
	avoids := asks(1000, 1, 1)
	avoids.gang.Avoid = []topology.NodeID{"n00003"}
	for name, c := range map[string]struct {
		queue *share.Queues
		acts  []act
		high  act
	}{
		"equal priority":  {oneQueue(), []act{old(4, 0)}, asks(1000, 1, 0)},
		"not all of them": {oneQueue(), []act{old(2, 0), old(2, 5)}, asks(1000, 3, 1)},
		"too young":       {oneQueue(), []act{old(4, 0)}, asks(60, 1, 1)},
		"too large ever":  {oneQueue(), []act{old(4, 0)}, asks(1000, 5, 1)},
		"off": {&share.Queues{Default: "q", Queues: []share.QueueSpec{{Name: "q"}}},
			[]act{old(4, 0)}, asks(1000, 1, 1)},
		"another queue":         {two, []act{old(4, 0)}, other},
		"it avoids a free node": {oneQueue(), []act{old(3, 0)}, avoids},
		"it ends soon":          {oneQueue(), []act{{runs: 1030, limit: 1030, gang: wholes(4)}}, asks(1000, 1, 1)},
	} {
		x := newTheatre(t, 4, c.queue)
		x.enter(c.acts...)
		c.high.runs = 10
		x.enter(c.high)
		if x.run(c.high.at + 300); len(x.stops) > 0 {
			t.Errorf("%s: %v are stopped", name, x.victims())
		}
		if x.run(900); name == "too young" && len(x.stops) != 1 {
			t.Errorf("%s: stopped after its time: %v", name, x.victims())
		}
	}
}

// TestLeftAlone checks that a job is stopped for jobs with higher priority at most three times, and at most once an
// hour.
func TestLeftAlone(t *testing.T) {
	x := newTheatre(t, 1, oneQueue())
	low := x.enter(act{at: 1, runs: 1_000_000, gang: wholes(1)})
	for i := range 8 {
		x.enter(act{at: int64(1000 + 2000*i), runs: 10, gang: wholes(1), priority: 1})
	}
	var at []int64
	x.chosen = func(Firm) { at = append(at, x.now/second) }
	x.run(18_000)
	if len(at) != 3 || at[1]-at[0] < 3600 || at[2]-at[1] < 3600 {
		t.Errorf("%s was stopped at %v", low.id, at)
	}
}

// gpuQuota returns a queue with a quota of a number of nodes, which reclaims its quota.
func gpuQuota(name, parent string, machines int64) share.QueueSpec {
	q := share.QueueSpec{Name: name, Parent: parent, Preemption: share.Preemption{Reclaim: yes(), ByPriority: yes()}}
	if machines >= 0 {
		q.Quota = share.Amounts{{Name: share.AmountGPU, Amount: 8000 * machines}}
	}
	return q
}

// TestReclaim checks that a queue's usage beyond its quota is reclaimed for a queue within its quota, and no more. This
// must hold even if the quotas exceed the cluster. No queue reclaims it in turn.
func TestReclaim(t *testing.T) {
	x := newTheatre(t, 4, queuesOf(gpuQuota("a", "", 3), gpuQuota("b", "", 2), gpuQuota("c", "", -1)))
	for i := range 4 {
		x.enter(act{at: int64(1 + i), runs: 1_000_000, gang: wholes(1), queue: "b", priority: 9})
	}
	for range 3 {
		x.enter(act{at: 1000, runs: 1_000_000, gang: wholes(1), queue: "a"})
	}
	x.enter(act{at: 1000, runs: 1_000_000, gang: wholes(1), queue: "c", priority: 100})
	x.run(5000)
	if got := x.victims(); !slices.Equal(got, []string{"j000003", "j000002"}) {
		t.Errorf("%v are stopped", got)
	}
}

// TestNotPreemptible checks that a job which must not be stopped is not stopped, and starts only within its queue's
// quota.
func TestNotPreemptible(t *testing.T) {
	x := newTheatre(t, 4, queuesOf(gpuQuota("a", "", 2), gpuQuota("b", "", 2), gpuQuota("c", "", -1)))
	for i, queue := range []string{"a", "a", "a", "c"} {
		x.fixed[x.enter(act{at: int64(1 + i), runs: 1_000_000, gang: wholes(1), queue: queue}).id] = true
	}
	x.enter(act{at: 10, runs: 1_000_000, gang: wholes(1), queue: "a", priority: -1})
	x.enter(act{at: 2000, runs: 1_000_000, gang: wholes(1), queue: "a", priority: 5})
	x.enter(act{at: 4000, runs: 1_000_000, gang: wholes(3), queue: "a", priority: 9})
	x.run(4100)
	for i, want := range []bool{true, true, false, false, true, true, false} {
		if got := x.cast[i].began() >= 0; got != want {
			t.Errorf("job %d of queue %s has started: %t", i, x.cast[i].queue, got)
		}
	}
	if len(x.stops) > 0 {
		t.Errorf("%v are stopped", x.victims())
	}
	if o := x.j.Over(x.cast[2].id); o == nil ||
		o.String() != "a uses 16 of its quota of 16 gpu for jobs with preemptible: false" {
		t.Errorf("it is told %v", o)
	}
	if o := x.j.Over(x.cast[3].id); o == nil || o.What != "" ||
		o.String() != "c has no quota, which a job with preemptible: false needs" {
		t.Errorf("the queue without a quota gives %v", o)
	}
}

// TestNobodyIsStoppedInVain draws trees of queues and checks each selection. The gang must not fit if any one victim
// stays. Each victim must have a lower priority in its queue, or be above its quota without the other victims, for a
// job within its quota. Each must have run long enough.
func TestNobodyIsStoppedInVain(t *testing.T) {
	byRule := map[preempt.Rule]int{}
	for seed := range *trees {
		r := rand.New(rand.NewSource(int64(seed)))
		q := queuesOf(gpuQuota("p", "", int64(r.Intn(5))), gpuQuota("o", "", int64(r.Intn(4)-1)))
		q.Queues = append(q.Queues, gpuQuota("p1", "p", -1), gpuQuota("p2", "p", -1))
		if most := q.Queues[0].Quota[0].Amount / 8000; most > 0 {
			q.Queues[2] = gpuQuota("p1", "p", r.Int63n(most+1))
		}
		x := newTheatre(t, 4, q)
		x.lags = int64(r.Intn(3))
		for range 30 {
			x.enter(act{
				at: r.Int63n(4000), runs: 1 + r.Int63n(6000), grace: r.Int63n(10), priority: int32(r.Intn(3)),
				gang: gang(int32(1+r.Intn(2)), int64(1+r.Intn(8))), queue: []string{"p", "o", "p1", "p2"}[r.Intn(4)],
			})
		}
		x.chosen = func(f Firm) {
			for _, v := range f.Stops {
				byRule[v.Rule]++
			}
			if wrong := x.inVain(f, q); wrong != "" {
				t.Fatalf("seed %d at %d: %s", seed, x.now/second, wrong)
			}
		}
		x.run(9000)
		if late := x.stops; len(late) > 400 {
			t.Fatalf("seed %d: %d preemptions of 30 jobs", seed, len(late))
		}
	}
	if t.Logf("%v", byRule); byRule[preempt.ByPriority] < 2**trees || byRule[preempt.Reclaim] < 2**trees {
		t.Errorf("stopped by priority %d, reclaimed %d: too few to prove much",
			byRule[preempt.ByPriority], byRule[preempt.Reclaim])
	}
}

// inVain returns what is wrong with a selection, or "".
func (x *theatre) inVain(f Firm, q *share.Queues) string {
	taker := x.actorOf(f.Job)
	fits := func(without topology.JobID) bool {
		mark := x.view.Mark()
		defer x.view.Rollback(mark)
		for _, v := range f.Stops {
			if v.Job != without {
				x.view.Give(x.actorOf(v.Job).place)
			}
		}
		var no topology.Refusal
		_, ok := topology.PlaceLent(x.view, &taker.gang, topology.Lent{Of: []topology.KeepID{topology.KeepID(f.Job)}}, &no)
		return ok
	}
	if !fits("") {
		return fmt.Sprintf("%v do not make room for %s", f.Stops, f.Job)
	}
	for _, v := range f.Stops {
		a := x.actorOf(v.Job)
		switch {
		case fits(v.Job):
			return fmt.Sprintf("%s is stopped in vain for %s", v.Job, f.Job)
		case x.now-a.started < share.UsualMinRun:
			return fmt.Sprintf("%s is stopped after %d s", v.Job, (x.now-a.started)/second)
		case v.Rule == preempt.ByPriority && (a.queue != taker.queue || a.priority >= taker.priority):
			return fmt.Sprintf("%s of %s, priority %d, gives way to %s of %s, priority %d", v.Job, a.queue, a.priority,
				f.Job, taker.queue, taker.priority)
		case v.Rule == preempt.Reclaim && !x.above(a, f, q):
			return fmt.Sprintf("%s of %s is reclaimed for %s of %s", v.Job, a.queue, f.Job, taker.queue)
		}
	}
	return ""
}

// above reports whether the queues of a victim, up to the common ancestor, exceed their quotas without the other
// victims. The queues of the job must stay within theirs.
func (x *theatre) above(victim *actor, f Firm, q *share.Queues) bool {
	taker := x.actorOf(f.Job)
	chain := func(name string) (names []string) {
		for name != "" {
			names = append(names, name)
			name = q.Queues[q.Find(name)].Parent
		}
		return names
	}
	gpus := func(a *actor) int64 { return int64(a.gang.Replicas) * a.gang.Each.MilliGPU }
	gone := map[topology.JobID]bool{}
	coming := map[topology.JobID]bool{f.Job: true}
	for _, p := range slices.Concat(x.j.firm, x.j.parked()) {
		for _, v := range victimsOf(p.stops) {
			gone[v.Job] = true
		}
		coming[p.e.Job] = coming[p.e.Job] || p.isStopping()
	}
	uses := func(queue string, with *actor) (sum int64) {
		for _, a := range x.cast {
			runs := x.runs.jobs[a.id] != nil && !gone[a.id] || coming[a.id] && x.runs.jobs[a.id] == nil
			if slices.Contains(chain(a.queue), queue) && (a == with || runs && a != taker) {
				sum += gpus(a)
			}
		}
		return sum
	}
	for _, name := range chain(victim.queue) {
		quota := q.Queues[q.Find(name)].Quota
		if !slices.Contains(chain(taker.queue), name) && len(quota) > 0 && uses(name, victim) <= quota[0].Amount {
			return false
		}
	}
	for _, name := range chain(taker.queue) {
		quota := q.Queues[q.Find(name)].Quota
		if !slices.Contains(chain(victim.queue), name) && len(quota) > 0 && uses(name, taker) > quota[0].Amount {
			return false
		}
	}
	return true
}
