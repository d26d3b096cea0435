package policy

// This file tests the order of queues, quotas and limits.

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

func num[T any](n T) *T { return &n }

func gpus(n int64) share.Amounts {
	return share.Amounts{{Name: share.AmountGPU, Amount: n * topology.WholeGPU}}
}

// queuesOf returns a configuration of these queues.
func queuesOf(specs ...share.QueueSpec) *share.Queues { return &share.Queues{Queues: specs} }

// obeying returns a stage whose planner uses queues.
func obeying(t *testing.T, settings Settings, machines int, queues ...share.QueueSpec) *stage {
	s := newStage(t, settings, machines, 1)
	q := &share.Queues{Queues: queues, Default: queues[0].Name}
	if wrong := q.Check(); wrong != nil {
		t.Fatal(wrong[0])
	}
	s.j.Obey(q)
	return s
}

// TestQuotaFirst checks that jobs within a quota run before jobs that borrow, whatever their priorities, and that an
// idle quota is lent to others.
func TestQuotaFirst(t *testing.T) {
	s := obeying(t, OnlyFIFO(), 2, share.QueueSpec{Name: "a", Quota: gpus(8)}, share.QueueSpec{Name: "b"})
	lent := s.enter(act{queue: "b", runs: 100, gang: wholes(2)}) // all of it is idle
	b := s.enter(act{at: 1, queue: "b", priority: 9, runs: 100, gang: wholes(2)})
	a1 := s.enter(act{at: 2, queue: "a", runs: 200, gang: wholes(1)})
	a2 := s.enter(act{at: 3, queue: "a", runs: 100, gang: wholes(1)}) // borrows what b cannot use
	s.play(10_000)
	began(t, map[*actor]int64{lent: 0, a1: 100, a2: 100, b: 300})
}

// TestBorrowersByUse checks that queues which have borrowed more wait for those that have borrowed less, by weight.
func TestBorrowersByUse(t *testing.T) {
	s := obeying(t, OnlyFIFO(), 1, share.QueueSpec{Name: "a", Weight: num[int64](1)},
		share.QueueSpec{Name: "b", Weight: num[int64](3)})
	a := s.enter(act{queue: "a", runs: 20_000, gang: wholes(1)})
	a2 := s.enter(act{at: 1, queue: "a", runs: 100, gang: wholes(1)})
	b := s.enter(act{at: 2, queue: "b", runs: 40_000, gang: wholes(1)})
	b2 := s.enter(act{at: 3, queue: "b", runs: 100, gang: wholes(1)})
	s.play(1_000_000)
	began(t, map[*actor]int64{a: 0, b: 20_000, b2: 60_000, a2: 60_100})
}

// TestLimitsOfOnePass checks that a limit holds for the sum of one pass, for a queue with its descendants, and delays
// no other queue.
func TestLimitsOfOnePass(t *testing.T) {
	s := obeying(t, OnlyFIFO(), 8, share.QueueSpec{Name: "top", Limit: gpus(24)},
		share.QueueSpec{Name: "a", Parent: "top", Limit: gpus(16)},
		share.QueueSpec{Name: "b", Parent: "top"}, share.QueueSpec{Name: "c"})
	var all []*actor
	for _, q := range []string{"a", "a", "a", "b", "b", "c"} {
		all = append(all, s.enter(act{queue: q, runs: 100, gang: wholes(1)}))
	}
	s.play(0)
	told := []string{"a uses 16 of at most 16 gpu", "top uses 24 of at most 24 gpu"}
	var started []string
	for _, a := range s.cast {
		if a.started >= 0 {
			started = append(started, a.queue)
		}
	}
	if slices.Sort(started); fmt.Sprint(started) != "[a a b c]" && fmt.Sprint(started) != "[a b b c]" {
		t.Errorf("these were started: %v", started)
	}
	for _, a := range all {
		if over := s.j.Over(a.id); a.started < 0 && (over == nil || !slices.Contains(told, over.String())) {
			t.Errorf("%s of %s waits, and is told %v", a.id, a.queue, over)
		}
	}
	s.play(150)
	if slices.ContainsFunc(s.cast, func(a *actor) bool { return a.started < 0 }) {
		t.Error("somebody waits for a limit that is free again")
	}
}

// TestOwnersLimits checks that limits of owners count for each owner separately, with each node once.
func TestOwnersLimits(t *testing.T) {
	s := obeying(t, OnlyFIFO(), 4,
		share.QueueSpec{Name: "q", Owner: share.PerOwner{Machines: num[int64](1), Running: num[int64](3)}})
	for range 5 {
		s.enter(act{owner: "eve", runs: 100, gang: gang(1, 2)})
	}
	two := s.enter(act{owner: "bob", runs: 100, gang: wholes(2)})
	one := s.enter(act{owner: "bob", runs: 100, gang: wholes(1)})
	s.play(0)
	eves := 0
	for _, a := range s.cast[:5] {
		if a.started >= 0 {
			eves++
		}
	}
	if eves != 3 || two.started >= 0 || one.started < 0 {
		t.Errorf("eve has %d jobs, bob's two machines %v, his one %v", eves, two.started, one.started)
	}
	if over := s.j.Over(two.id); over == nil || over.What != "machines" {
		t.Errorf("bob is told %v", over)
	}
	if over := s.j.Over(s.cast[4].id); over == nil || over.String() != "eve uses 3 of at most 3 running jobs in q" {
		t.Errorf("eve is told %v", over)
	}
}

// TestOwnersNodesInHoles checks that a limit on nodes does not stop a job that fits on fewer nodes than the tightest
// placement uses. A job that fits on the nodes that its owner already uses goes there.
func TestOwnersNodesInHoles(t *testing.T) {
	s := obeying(t, OnlyFIFO(), 5,
		share.QueueSpec{Name: "q", Owner: share.PerOwner{Machines: num[int64](3)}}, share.QueueSpec{Name: "o"})
	for range 4 {
		s.enter(act{owner: "eve", queue: "o", runs: 100_000, gang: gang(1, 5)})
	}
	s.play(1)
	large := s.enter(act{at: 2, owner: "bob", queue: "q", runs: 1000, gang: gang(12, 1)})
	s.play(100)
	if large.started < 0 || len(large.place.Nodes()) > 3 {
		t.Fatalf("the gang of 12 is on %v; it is told %v", large.place.Nodes(), s.j.Over(large.id))
	}
	small := s.enter(act{at: 200, owner: "bob", queue: "q", runs: 100, gang: gang(2, 1)})
	s.play(300)
	if small.started < 0 {
		t.Errorf("the gang of 2 waits, and is told %v", s.j.Over(small.id))
	}
}

// TestFair checks that the owner with the least usage is first in a fair queue, even after later arrivals.
func TestFair(t *testing.T) {
	s := obeying(t, OnlyFIFO(), 1, share.QueueSpec{Name: "q", Order: num(share.Fair)})
	first := s.enter(act{owner: "eve", runs: 1000, gang: wholes(1)})
	eve := s.enter(act{at: 1, owner: "eve", runs: 100, gang: wholes(1)})
	bob := s.enter(act{at: 2, owner: "bob", runs: 100, gang: wholes(1)})
	s.play(10_000)
	began(t, map[*actor]int64{first: 0, bob: 1000, eve: 1100})
}

// TestShareTold checks the text about the usage of a job's quota and the queues that have borrowed from it.
func TestShareTold(t *testing.T) {
	s := obeying(t, OnlyFIFO(), 4,
		share.QueueSpec{Name: "nlp", Quota: gpus(16)}, share.QueueSpec{Name: "vision", Quota: gpus(8)})
	s.enter(act{queue: "vision", runs: 1000, gang: wholes(3)})
	s.enter(act{queue: "nlp", runs: 1000, gang: wholes(1)})
	waits := s.enter(act{at: 1, queue: "nlp", runs: 1000, gang: wholes(1)})
	s.play(1)
	if got, want := s.j.Share(waits.id), "nlp uses 8 of its quota of 16; vision borrows 16"; got != want {
		t.Errorf("told %q, and not %q", got, want)
	}
}

// TestObeyAgain checks that another configuration counts running jobs, keeps past usage, and closes missing queues
// while their jobs continue.
func TestObeyAgain(t *testing.T) {
	s := obeying(t, OnlyFIFO(), 2, share.QueueSpec{Name: "a"}, share.QueueSpec{Name: "b"})
	s.enter(act{queue: "a", runs: 1000, gang: wholes(1)})
	s.enter(act{queue: "b", runs: 500, gang: wholes(1)})
	s.play(550)
	used := named(s.j.shares, "a").Counts(s.j.now)
	s.j.Obey(&share.Queues{Queues: []share.QueueSpec{{Name: "a", Limit: gpus(8)}}})
	if got := named(s.j.shares, "a").Counts(s.j.now); got == 0 || got != used {
		t.Errorf("of %d that a used, %d are counted", used, got)
	}
	a := s.enter(act{at: 600, queue: "a", runs: 10, gang: wholes(1)})
	b := s.enter(act{at: 700, queue: "b", runs: 10, gang: wholes(1)})
	s.play(10_000)
	began(t, map[*actor]int64{a: 1000, b: 700})
	for _, queue := range []string{"a", "b"} {
		s.j.settleShares()
		if has, ok := s.j.InUse(queue); !ok || has.MilliGPU != 0 {
			t.Errorf("nothing runs, and %d are counted", has.MilliGPU)
		}
	}
}

// TestOneQueueIsNone checks that one queue without settings does not change where and when jobs start, also without
// looking ahead.
func TestOneQueueIsNone(t *testing.T) {
	for seed := range int64(20) {
		settings := []Settings{DefaultSettings(), OnlyFIFO()}[seed%2]
		var said [2][]string
		for i := range said {
			r := rand.New(rand.NewSource(seed))
			machines := 3 + r.Intn(6)
			s := newStage(t, settings, machines, 2)
			if settings.Order == share.FIFO {
				s.instead = []Planner{Default{}, nil}[i]
			}
			if i == 1 {
				s.j.Obey(&share.Queues{Default: "q", Queues: []share.QueueSpec{{Name: "q"}}})
			}
			s.enter(drawnHistory(r, 60, machines, true)...)
			s.play(100_000_000)
			for _, a := range s.cast {
				said[i] = append(said[i], fmt.Sprint(a.id, a.started, a.place))
			}
		}
		if !slices.Equal(said[0], said[1]) {
			t.Errorf("seed %d: other jobs start, or elsewhere", seed)
		}
	}
}

// TestByWeight checks that three queues with endless demand get GPUs as 1 : 2 : 5, within 5% over a half-life.
func TestByWeight(t *testing.T) {
	const week = 7 * 24 * 3600
	r := rand.New(rand.NewSource(1))
	names, weights := []string{"q1", "q2", "q5"}, []int64{1, 2, 5}
	s := obeying(t, simple(), 64, share.QueueSpec{Name: names[0]}, share.QueueSpec{Name: names[1], Weight: &weights[1]},
		share.QueueSpec{Name: names[2], Weight: &weights[2]})
	more := func() { // each queue always has this many waiting jobs
		var waits [3]int
		for i, a := range s.cast {
			if a.started < 0 {
				waits[i%3]++
			}
		}
		for slices.Min(waits[:]) < 20 {
			for i, name := range names {
				n := int64(1 + r.Intn(64))
				g := gang(1, n)
				if n > 8 {
					g = wholes(int32(n+7) / 8)
				}
				s.enter(act{at: s.now / second, queue: name, runs: 600 + r.Int63n(4*3600-600), limit: 4 * 3600, gang: g})
				waits[i]++
			}
		}
	}
	more()
	s.looks = more
	s.play(week)
	var got [3]int64
	for i, a := range s.cast {
		if a.started >= 0 {
			size, end := estimate.TotalOf(&a.gang).MilliGPU, s.now
			if a.over >= 0 {
				end = a.over
			}
			got[i%3] += size / 1000 * ((end - a.started) / second)
		}
	}
	sum := got[0] + got[1] + got[2]
	for i, weight := range weights {
		if want := sum * weight / 8; got[i] < want*95/100 || got[i] > want*105/100 {
			t.Errorf("%s got %d GPU-seconds of %d, and should have %d", names[i], got[i], sum, want)
		}
	}
	if sum < 64*8*week*7/10 {
		t.Errorf("of the GPUs only %d percent were used", 100*sum/(64*8*week))
	}
}

// TestNeverOver checks for random trees and jobs that no queue or owner ever exceeds a limit. It counts the running
// jobs. All jobs must start in the end.
func TestNeverOver(t *testing.T) {
	stopped := 0
	for seed := range int64(60) {
		r := rand.New(rand.NewSource(seed))
		machines := 4 + r.Intn(5)
		q := &share.Queues{}
		for i := range 1 + r.Intn(6) {
			spec := share.QueueSpec{Name: fmt.Sprintf("q%d", i)}
			if i > 0 && r.Intn(2) == 0 {
				spec.Parent = fmt.Sprintf("q%d", r.Intn(i))
			}
			if r.Intn(2) == 0 {
				spec.Limit = gpus(int64(machines*8 - r.Intn(8)))
			}
			if r.Intn(2) == 0 {
				spec.Owner = share.PerOwner{Machines: num(int64(machines)), Running: num(int64(1 + r.Intn(4)))}
			}
			spec.Order = num([]share.Order{share.FIFO, share.Expected, share.Fair}[r.Intn(3)])
			q.Queues = append(q.Queues, spec)
		}
		settings := DefaultSettings()
		settings.GuardPercent = int64(r.Intn(40))
		s := newStage(t, settings, machines, 2)
		s.j.Obey(q)
		for _, a := range drawnHistory(r, 60, machines-1, true) {
			a.queue, a.owner = q.Queues[r.Intn(len(q.Queues))].Name, fmt.Sprint("u", r.Intn(3))
			s.enter(a)
		}
		s.looks = func() {
			for _, spec := range q.Queues {
				checkLimits(t, s, q, &spec)
			}
			for _, a := range s.cast {
				if s.waits(a) && s.j.Over(a.id) != nil {
					stopped++
				}
			}
		}
		s.play(100_000_000)
		for _, a := range s.cast {
			if a.over < 0 {
				t.Fatalf("seed %d: %s of %s never ended: %v", seed, a.id, a.queue, s.j.Over(a.id))
			}
		}
	}
	if stopped < 100 {
		t.Errorf("a limit stopped somebody %d times: that shows nothing", stopped)
	}
}

// checkLimits counts the running jobs in a queue and its descendants.
func checkLimits(t *testing.T, s *stage, q *share.Queues, spec *share.QueueSpec) {
	t.Helper()
	isIn := func(name string) bool {
		for name != "" && name != spec.Name {
			name = q.Queues[q.Find(name)].Parent
		}
		return name != ""
	}
	sum, running, on := int64(0), map[string]int64{}, map[string]map[topology.NodeID]bool{}
	for _, a := range s.cast {
		if a.started < 0 || a.over >= 0 || !isIn(a.queue) {
			continue
		}
		sum += estimate.TotalOf(&a.gang).MilliGPU
		running[a.owner]++
		if on[a.owner] == nil {
			on[a.owner] = map[topology.NodeID]bool{}
		}
		for _, slot := range a.place.Slots {
			on[a.owner][slot.Node] = true
		}
	}
	if most, ok := spec.Limit.Of(share.AmountGPU); ok && sum > most {
		t.Fatalf("at %d %s has %d of at most %d", s.now, spec.Name, sum, most)
	}
	for _, owner := range []string{"u0", "u1", "u2"} {
		if most := spec.Owner.Running; most != nil && running[owner] > *most {
			t.Fatalf("at %d %s runs %d jobs in %s, and may %d", s.now, owner, running[owner], spec.Name, *most)
		}
		if most := spec.Owner.Machines; most != nil && int64(len(on[owner])) > *most {
			t.Fatalf("at %d %s is on %d machines in %s, and may be on %d", s.now, owner, len(on[owner]), spec.Name, *most)
		}
	}
}
