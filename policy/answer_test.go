package policy

import (
	"fmt"
	"testing"

	"github.com/yi-json/synapse/topology"
)

// This file tests the reasons that are reported for waiting groups.

// told returns the result of Reasons, one line per group.
func told(f *topology.Tree, q *Queue) []string {
	var out []string
	for _, r := range q.Reasons(f, nil) {
		out = append(out, fmt.Sprint(r.Group, " ", r.Why.String()))
	}
	return out
}

// joinedIn formats the jobs that joined a group in a pass.
func joinedIn(d Decisions) string {
	out := []string{}
	for _, j := range d.Joined {
		out = append(out, fmt.Sprintf("{%s %d}", j.Job, j.Group))
	}
	return fmt.Sprint(out)
}

func expectTold(t *testing.T, f *topology.Tree, q *Queue, want ...string) {
	t.Helper()
	if got := told(f, q); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("told\n%v, want\n%v", got, want)
	}
}

func TestReasonsAreToldOnceForAGroup(t *testing.T) {
	f, q := cluster(4, 2), NewQueue()
	for i := range 1000 {
		q.Add(waiting(fmt.Sprint("j", i), 0, int64(i), gang(5, 8)))
	}
	q.Add(waiting("other", 0, 2000, gang(6, 8)))
	d := Plan(f, q, 0)
	if len(d.Joined) != 1001 || d.Joined[7].Group != 1 || d.Joined[7].Job != "j7" || d.Joined[1000].Group != 2 {
		t.Fatalf("%d joined", len(d.Joined))
	}
	const of5, of6 = "needs 40 GPUs (5 tasks of 8 GPUs); the cluster has ",
		"needs 48 GPUs (6 tasks of 8 GPUs); the cluster has "
	expectTold(t, f, q, "1 "+of5+"32 free of 32", "2 "+of6+"32 free of 32")
	expectTold(t, f, q)
	if d := Plan(f, q, 1); len(d.Joined) != 0 {
		t.Errorf("%d joined again", len(d.Joined))
	}
	// No capacity became free, so no pass examines the groups. Still, the reported reasons are no longer true.
	c, _ := f.Free("n00001")
	c.WholeGPUs = 0
	f.SetFree("n00001", c)
	expectTold(t, f, q, "1 "+of5+"24 free of 32", "2 "+of6+"24 free of 32")
	expectTold(t, f, q)
}

// TestReasonsOfThoseWhoJoin checks that a job that joins a group gets its reason, even if the reason was reported
// before.
func TestReasonsOfThoseWhoJoin(t *testing.T) {
	f, q := cluster(2, 1), NewQueue()
	q.Add(waiting("a", 0, 1, gang(3, 8)))
	first := Plan(f, q, 0)
	if got := q.ReasonsOf(first.Joined, nil); len(got) != 1 || got[0].Group != 1 {
		t.Fatalf("%v", got)
	}
	expectTold(t, f, q)
	q.Add(waiting("b", 0, 2, gang(3, 8)))
	q.Add(waiting("c", 0, 3, gang(3, 8)))
	q.Add(waiting("gone", 0, 4, gang(3, 8)))
	q.Remove("gone")
	next := Plan(f, q, 0)
	if joinedIn(next) != "[{b 1} {c 1}]" {
		t.Errorf("joined %v", next.Joined)
	}
	if got := q.ReasonsOf(next.Joined, nil); len(got) != 1 || got[0].Group != 1 {
		t.Errorf("%v", got)
	}
	for _, j := range []topology.JobID{"a", "b", "c"} {
		q.Remove(j)
	}
	q.Add(waiting("d", 0, 5, gang(3, 8)))
	if d := Plan(f, q, 0); joinedIn(d) != "[{d 2}]" {
		t.Errorf("a group came back under its old name: %v", d.Joined)
	}
}

// TestReasonsFollowPatienceAndRoom checks that a job whose patience ends joins another group, and that freed capacity
// is not a reason.
func TestReasonsFollowPatienceAndRoom(t *testing.T) {
	f, q := cluster(2, 2), NewQueue()
	w := waiting("patient", 0, 1, gang(2, 8))
	w.Gang.Preferred, w.Since, w.Patience = "rack", 0, 50
	q.Add(w)
	q.Add(waiting("large", 0, 2, gang(3, 8)))
	f.SetUsable("n00001", "drained")
	if d := Plan(f, q, 10); joinedIn(d) != "[{patient 1} {large 2}]" {
		t.Errorf("%v", d.Joined)
	}
	q.Reasons(f, nil)
	if d := Plan(f, q, 50); joinedIn(d) != "[{patient 3}]" {
		t.Errorf("%v", d.Joined)
	}
	f.SetUsable("n00001", "")
	expectTold(t, f, q, "2 needs 24 GPUs (3 tasks of 8 GPUs); the cluster has 16 free of 16")
}

// BenchmarkReasons examines every group of a long queue after the view has changed.
func BenchmarkReasons(b *testing.B) {
	for _, shapes := range []int{100, 10000} {
		f, q := fullCluster(10000), hungryQueue(10000, shapes)
		Plan(f, q, 0)
		b.Run(fmt.Sprintf("machines=10000/waiting=10000/shapes=%d", shapes), func(b *testing.B) {
			var into []Reason
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				id := machine(i%10000, 1).ID
				c, _ := f.Free(id)
				c.MilliCPU += 8 - 16*int64(i/10000%2)
				f.SetFree(id, c)
				into = q.Reasons(f, into[:0])
			}
		})
	}
}
