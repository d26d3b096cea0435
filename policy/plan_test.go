package policy

// This file tests the pass against a simple pass that remembers nothing.

import (
	"fmt"
	"math"
	"math/rand"
	"reflect"
	"slices"
	"testing"

	"github.com/yi-json/synapse/topology"
)

const gib = 1 << 30

func machine(i, racks int) topology.Machine {
	return topology.Machine{
		ID:      topology.NodeID(fmt.Sprintf("n%05d", i)),
		Place:   []string{"z", fmt.Sprintf("r%04d", i%racks)},
		Total:   topology.Resources{MilliCPU: 64_000, MemoryBytes: 512 * gib, MilliGPU: 8000},
		GPUType: "h100",
	}
}

func cluster(machines, racks int) *topology.Tree {
	f := topology.NewTree([]string{"zone", "rack"})
	for i := range machines {
		m := machine(i, racks)
		f.Join(m, m.Idle())
	}
	return f
}

func gang(replicas int32, gpus int64) topology.Gang {
	return topology.Gang{Replicas: replicas, Each: topology.Resources{MilliCPU: gpus * 4000, MemoryBytes: gpus * 16 * gib,
		MilliGPU: gpus * 1000}}
}

func waiting(id string, priority int32, arrived int64, g topology.Gang) Waiting {
	return Waiting{Job: topology.JobID(id), Gang: g, Priority: priority, Arrived: arrived}
}

func admitted(d Decisions) []topology.JobID {
	var out []topology.JobID
	for _, a := range d.Admit {
		out = append(out, a.Job)
	}
	return out
}

func expect(t *testing.T, d Decisions, want ...topology.JobID) {
	t.Helper()
	if got := admitted(d); !reflect.DeepEqual(got, want) {
		t.Errorf("admitted %v, want %v", got, want)
	}
}

func TestPlanOrder(t *testing.T) {
	q := NewQueue()
	q.Add(waiting("late", 0, 3, gang(1, 8)))
	q.Add(waiting("early", 0, 2, gang(1, 8)))
	q.Add(waiting("same-b", 5, 9, gang(1, 8)))
	q.Add(waiting("same-a", 5, 9, gang(2, 8)))
	expect(t, Plan(cluster(4, 2), q, 0), "same-a", "same-b", "early")
	if q.Len() != 1 || q.reason("late") == nil {
		t.Errorf("%d left, reason %v", q.Len(), q.reason("late"))
	}
}

// TestPlanRunsSmallerOnesAroundALargeOne checks that a gang that does not fit reserves nothing, and that smaller gangs
// behind it start.
func TestPlanRunsSmallerOnesAroundALargeOne(t *testing.T) {
	f, q := cluster(4, 2), NewQueue()
	q.Add(waiting("large", 9, 1, gang(5, 8)))
	q.Add(waiting("large-too", 9, 2, gang(5, 8)))
	q.Add(waiting("small", 0, 3, gang(1, 8)))
	d := Plan(f, q, 0)
	expect(t, d, "small")
	if d.Looked != 2 || d.Refused != 1 {
		t.Errorf("looked %d, refused %d: a refused shape was retried", d.Looked, d.Refused)
	}
	const want = "needs 40 GPUs (5 tasks of 8 GPUs); the cluster has 24 free of 32"
	if got := q.reason("large-too").String(); got != want {
		t.Errorf("reason %q, want %q", got, want)
	}
}

// TestPlanLooksOnlyAtWhatMayHaveChanged checks that groups are examined again only when capacity becomes free, and then
// start at once.
func TestPlanLooksOnlyAtWhatMayHaveChanged(t *testing.T) {
	f, q := cluster(2, 1), NewQueue()
	q.Add(waiting("first", 0, 1, gang(2, 8)))
	first := Plan(f, q, 0)
	expect(t, first, "first")
	q.Add(waiting("second", 0, 2, gang(2, 8)))
	if d := Plan(f, q, 0); d.Looked != 1 {
		t.Errorf("a new shape was not looked at: %+v", d)
	}
	q.Add(waiting("third", 0, 3, gang(2, 8)))
	f.SetUsable("n00001", "drained by ops")
	if d := Plan(f, q, 0); d.Looked != 0 {
		t.Errorf("looked at %d shapes although nothing has grown", d.Looked)
	}
	f.Give(first.Admit[0].Placement)
	if d := Plan(f, q, 0); d.Looked != 1 || len(d.Admit) != 0 {
		t.Errorf("half the room is back, but drained: %+v", d)
	}
	f.SetUsable("n00001", "")
	if q.reason("second") != nil {
		t.Errorf("a stale reason: %v", q.reason("second"))
	}
	expect(t, Plan(f, q, 0), "second")
}

func TestPlanPatience(t *testing.T) {
	f, q := cluster(4, 2), NewQueue()
	w := waiting("patient", 0, 1, gang(3, 8))
	w.Gang.Preferred, w.Since, w.Patience = "rack", 100, 50
	q.Add(w)
	d := Plan(f, q, 149)
	expect(t, d)
	if d.NextAt != 150 {
		t.Errorf("the next patience runs out at %d, want 150", d.NextAt)
	}
	const want = "prefers one rack: needs 24 GPUs (3 tasks of 8 GPUs) within one rack; the best rack, " +
		"z/r0000, has 16 free of 16"
	if got := q.reason("patient").String(); got != want {
		t.Errorf("reason %q, want %q", got, want)
	}
	d = Plan(f, q, 150)
	expect(t, d, "patient")
	if d.NextAt != 0 {
		t.Errorf("a timer for nobody: %d", d.NextAt)
	}
}

// TestPlanWakesForTheNearestPatience checks that NextAt is the earliest deadline of the patient jobs that still wait.
func TestPlanWakesForTheNearestPatience(t *testing.T) {
	f, q := cluster(4, 2), NewQueue()
	for i, patience := range []int64{70, 50, 90} {
		w := waiting(fmt.Sprint("p", i), 0, int64(i), gang(3, 8))
		w.Gang.Preferred, w.Since, w.Patience = "rack", 100, patience
		q.Add(w)
	}
	if d := Plan(f, q, 110); d.NextAt != 150 {
		t.Errorf("the next patience runs out at %d, want 150", d.NextAt)
	}
	q.Remove("p1")
	if d := Plan(f, q, 110); d.NextAt != 170 {
		t.Errorf("the next patience runs out at %d, want 170", d.NextAt)
	}
	for i := range 3 {
		q.Remove(topology.JobID(fmt.Sprint("p", i)))
	}
	if d := Plan(f, q, 200); d.NextAt != 0 || len(d.Admit) != 0 {
		t.Errorf("nobody waits, and the pass says %+v", d)
	}
	w := waiting("for-ever", 0, 1, gang(3, 8))
	w.Gang.Preferred, w.Since, w.Patience = "rack", 100, math.MaxInt64
	q.Add(w)
	if d := Plan(f, q, 300); len(d.Admit) != 0 || d.NextAt != math.MaxInt64 {
		t.Errorf("a patience without end has ended: %+v", d)
	}
}

// TestPlanTakesTurnsAmongShapes checks that after each start the pass continues with the first job of the queue,
// whatever its shape.
func TestPlanTakesTurnsAmongShapes(t *testing.T) {
	q := NewQueue()
	q.Add(waiting("one", 0, 1, gang(1, 8)))
	q.Add(waiting("two", 0, 2, gang(2, 4)))
	q.Add(waiting("three", 0, 3, gang(1, 8)))
	expect(t, Plan(cluster(2, 1), q, 0), "one", "two")
}

// TestPlanLooksAtAnotherView checks that groups are examined again for another view, even if its growth is the same.
func TestPlanLooksAtAnotherView(t *testing.T) {
	q := NewQueue()
	q.Add(waiting("a", 0, 1, gang(2, 8)))
	small, large := topology.NewTree([]string{"zone", "rack"}), cluster(2, 1)
	for i := range 2 {
		m := machine(i, 1)
		m.Total.MilliGPU = 4000
		small.Join(m, m.Idle())
	}
	if small.Gained() != large.Gained() {
		t.Fatalf("the views have gained %d and %d", small.Gained(), large.Gained())
	}
	expect(t, Plan(small, q, 0))
	expect(t, Plan(large, q, 0), "a")
}

func TestQueueRefusesAKnownJob(t *testing.T) {
	q := NewQueue()
	q.Add(waiting("a", 0, 1, gang(1, 1)))
	defer func() {
		if recover() == nil {
			t.Error("a job entered the queue twice")
		}
	}()
	q.Add(waiting("a", 0, 2, gang(1, 2)))
}

func TestQueuePosition(t *testing.T) {
	q := NewQueue()
	r := rand.New(rand.NewSource(7))
	for i := range 500 {
		q.Add(waiting(fmt.Sprint("j", i), int32(r.Intn(5)-2), int64(r.Intn(50)-9), gang(int32(1+r.Intn(5)), 8)))
	}
	last := Turn("")
	for i, w := range q.waits() {
		if at, ok := q.Position(w.Job); !ok || at != i {
			t.Fatalf("%s is at %d, Position says %d", w.Job, i, at)
		}
		if w.turn() <= last {
			t.Fatalf("the turn of %s, at %d, is no later than that of the one before", w.Job, i)
		}
		last = w.turn()
	}
	for i := range 500 {
		if !q.Remove(topology.JobID(fmt.Sprint("j", i))) {
			t.Fatal("a job was lost")
		}
	}
	if q.Len() != 0 || q.shapes() != 0 || q.Remove("j1") {
		t.Errorf("%d jobs in %d groups left", q.Len(), q.shapes())
	}
}

// forgetful is a pass that examines every job every time.
func forgetful(f *topology.Tree, q map[topology.JobID]Waiting, now int64) []topology.JobID {
	all := NewQueue()
	for _, w := range q {
		all.Add(w)
	}
	var out []topology.JobID
	for _, w := range all.waits() {
		g := w.Gang
		if w.Patience > 0 && g.Preferred != "" && now < w.Since+w.Patience && f.Finer(g.Preferred, g.Required) {
			g.Required = g.Preferred
		}
		if p, refusal := topology.Place(f, g); refusal == nil {
			f.Take(p)
			out = append(out, w.Job)
			delete(q, w.Job)
		}
	}
	return out
}

// TestPlanAgainstForgetfulPass makes random changes to one view and one queue, and compares every pass with forgetful.
func TestPlanAgainstForgetfulPass(t *testing.T) {
	for seed := range int64(60) {
		r := rand.New(rand.NewSource(seed))
		f, q := cluster(12, 4), NewQueue()
		plain := map[topology.JobID]Waiting{}
		var running []topology.Placement
		for step := range 60 {
			now := int64(step * 10)
			for range r.Intn(4) {
				w := waiting(fmt.Sprintf("j%03d", r.Intn(1000)), int32(r.Intn(3)), now,
					gang(int32(1+r.Intn(6)), int64(1+r.Intn(8))))
				w.Gang.Preferred, w.Gang.Required = []string{"", "rack"}[r.Intn(2)], []string{"", "zone", "rack"}[r.Intn(3)]
				w.Since, w.Patience = now, int64(r.Intn(40))
				if _, known := plain[w.Job]; !known {
					plain[w.Job] = w
					q.Add(w)
				}
			}
			if len(running) > 0 && r.Intn(2) == 0 {
				i := r.Intn(len(running))
				f.Give(running[i])
				running = append(running[:i], running[i+1:]...)
			}
			f.SetUsable(machine(r.Intn(12), 4).ID, []string{"", "cordoned"}[r.Intn(2)])
			want := forgetful(f.Clone(), plain, now)
			d := Plan(f, q, now)
			if got := admitted(d); !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d step %d: admitted %v, want %v", seed, step, got, want)
			}
			for _, a := range d.Admit {
				running = append(running, a.Placement)
			}
		}
	}
}

func TestExplainKnowsWhoIsAhead(t *testing.T) {
	f, q := cluster(4, 2), NewQueue()
	for i := range 5 {
		w := waiting(fmt.Sprint("j", i), 0, int64(i), gang(5, 8))
		w.Gang.Preferred, w.Patience = "rack", 1000
		q.Add(w)
	}
	Plan(f, q, 10)
	a, ok := Explain(f, q, "j3", nil)
	const want = "prefers one rack: needs 40 GPUs (5 tasks of 8 GPUs) within one rack; the best rack, " +
		"z/r0000, has 16 free of 16"
	if !ok || a.Refusal.String() != want || !a.Never || a.Standing != (Standing{Ahead: 3, Waiting: 5}) {
		t.Errorf("\n got %s, %+v\nwant %s", a.Refusal, a, want)
	}
	var all []string
	for _, r := range a.Relaxations {
		all = append(all, r.Text)
	}
	if want := []string{"with 16 GPUs (2 tasks)", "with 32 GPUs (4 tasks) and topology required zone"}; !slices.Equal(all,
		want) {
		t.Errorf("it would start %q, want %q", all, want)
	}
	if _, ok := Explain(f, q, "j9", nil); ok {
		t.Error("explained a job that does not wait")
	}
}
