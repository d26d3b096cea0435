package mirror

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
)

// questionContext delivers one message to the Mirror and keeps the answer. Its function told receives the messages to
// watchers.
type questionContext struct {
	actor.Context
	who             string
	message, answer any
	told            func(who string, m any)
}

func (c *questionContext) Message() any       { return c.message }
func (c *questionContext) Self() *actor.PID   { return actor.NewPID("here", "mirror") }
func (c *questionContext) Sender() *actor.PID { return actor.NewPID("here", c.who) }
func (c *questionContext) Respond(answer any) { c.answer = answer }
func (c *questionContext) Send(to *actor.PID, m any) {
	if m != (GPUTimeMoved{}) { // sent to the Scheduler
		c.told(to.Id, m)
	}
}

func ask(m *Mirror, question any) any {
	c := &questionContext{who: "reader", message: question}
	m.Receive(c)
	return c.answer
}

// noon is a clock that does not advance and runs no timers.
type noon struct{}

func (noon) Now() actors.Instant                  { return 0 }
func (noon) WallMs() int64                        { return 12 * 3600 * 1000 }
func (noon) After(time.Duration, *actor.PID, any) {}

func mirrorOf(edit func(*actors.Constants)) *Mirror {
	p := &actors.Ports{Constants: actors.DefaultConstants(), Clock: noon{}, Host: &moving{}}
	edit(&p.Constants)
	return New(p, 1, []string{"rack"}).(*Mirror)
}

func statusOf(id, owner, phase string, edit ...func(*messages.JobStatus)) *messages.JobStatus {
	s := &messages.JobStatus{Phase: phase, Record: &messages.JobRecord{
		Id: id, Owner: &messages.Principal{Name: owner}, State: messages.JobState_JOB_STATE_QUEUED,
		Spec: &messages.JobSpec{Queue: "q-" + owner, Labels: []*messages.Label{{Key: "team", Value: owner}}},
	}}
	for _, e := range edit {
		e(s)
	}
	return s
}

func overAt(ms int64) func(*messages.JobStatus) {
	return func(s *messages.JobStatus) {
		s.Record.State, s.Record.FinishedUnixMs = messages.JobState_JOB_STATE_SUCCEEDED, ms
	}
}

// listAll reads all pages of a list and returns the IDs of each page.
func listAll(t *testing.T, m *Mirror, q *messages.ListJobs) [][]string {
	t.Helper()
	var pages [][]string
	for len(pages) < 1000 {
		r := ask(m, q).(*messages.ListJobsReply)
		if r.Outcome.Code != messages.Code_CODE_OK {
			t.Fatalf("list: %v", r.Outcome)
		}
		var ids []string
		for _, j := range r.Jobs {
			ids = append(ids, j.Record.Id)
		}
		pages = append(pages, ids)
		if r.Next == "" {
			return pages
		}
		q = proto.Clone(q).(*messages.ListJobs)
		q.After = r.Next
	}
	t.Fatal("the pages never end")
	return nil
}

func TestMirrorFindsByUniquePrefix(t *testing.T) {
	m := mirrorOf(func(*actors.Constants) {})
	for _, id := range []string{"train-7f01", "train-7f02", "train-8", "train", "eval-1", "b1", "b2", "b3", "b4", "b5",
		"b6", "b7"} {
		ask(m, JobShown{statusOf(id, "alice", "queued")})
	}
	for _, c := range []struct {
		asked string
		code  messages.Code
		found string // an ID, or a part of the text
	}{
		{"train-7f01", messages.Code_CODE_OK, "train-7f01"},
		{"train", messages.Code_CODE_OK, "train"}, // a full ID comes before a prefix
		{"train-8", messages.Code_CODE_OK, "train-8"},
		{"e", messages.Code_CODE_OK, "eval-1"},
		{"train-7", messages.Code_CODE_CONFLICT, "train-7f01, train-7f02"},
		{"b", messages.Code_CODE_CONFLICT, "b1, b2, b3, b4, b5 and more"},
		{"zebra", messages.Code_CODE_NOT_FOUND, "zebra"},
		{"a", messages.Code_CODE_NOT_FOUND, "a"},
		{"", messages.Code_CODE_INVALID, "job ID is missing"},
	} {
		r := ask(m, &messages.GetJob{Job: c.asked}).(*messages.GetJobReply)
		if r.Outcome.Code != c.code {
			t.Errorf("%q: %v", c.asked, r.Outcome)
		}
		if c.code == messages.Code_CODE_OK && r.Job.GetRecord().GetId() != c.found {
			t.Errorf("%q: found %v", c.asked, r.Job)
		}
		if c.code != messages.Code_CODE_OK &&
			(r.Job != nil || !strings.Contains(r.Outcome.Text, c.found) || r.Outcome.Hint == "" || r.Outcome.Field != "job") {
			t.Errorf("%q: %v", c.asked, r)
		}
	}
}

// TestListByEitherName checks that a name filter accepts the submitted name and the name derived from it.
func TestListByEitherName(t *testing.T) {
	m := mirrorOf(func(*actors.Constants) {})
	for id, given := range map[string]string{"a": "TrainB", "b": "trainb", "c": "other"} {
		ask(m, JobShown{statusOf(id, "alice", "queued", func(s *messages.JobStatus) { s.Record.Spec.Call(given) })})
	}
	for name, want := range map[string]string{"TrainB": "a", "trainb": "a b", "TRAINB": ""} {
		var got []string
		for _, j := range ask(m, &messages.ListJobs{Name: name}).(*messages.ListJobsReply).Jobs {
			got = append(got, j.GetRecord().GetId())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("called %s are %v, want %s", name, got, want)
		}
	}
}

// TestElementsAreNamedInFull checks that a prefix of an element's ID finds no element.
func TestElementsAreNamedInFull(t *testing.T) {
	m := mirrorOf(func(*actors.Constants) {})
	ask(m, JobShown{statusOf("k", "alice", "queued", func(s *messages.JobStatus) {
		s.Record.Spec.Array = &messages.ArraySpec{Indices: []*messages.IndexRange{{Last: 20}}}
	})})
	ask(m, JobShown{statusOf("k_17", "alice", "running", func(s *messages.JobStatus) {
		s.Record.Spec.Element = &messages.Element{Array: "k", Index: 17}
	})})
	for asked, want := range map[string]string{"k_17": "k_17", "k_1": "k_1", "k_": "", "k_21": "", "k_171": ""} {
		r := ask(m, &messages.GetJob{Job: asked}).(*messages.GetJobReply)
		if got := r.Job.GetRecord().GetId(); got != want {
			t.Errorf("%s is taken for %q, want %q", asked, got, want)
		}
	}
}

func TestMirrorExplains(t *testing.T) {
	m := mirrorOf(func(*actors.Constants) {})
	ask(m, JobShown{statusOf("j", "alice", "queued", func(s *messages.JobStatus) {
		s.Reason = "needs 64 GPUs, 56 are free"
	})})
	ask(m, JobShown{statusOf("k", "alice", "failed", overAt(1), func(s *messages.JobStatus) {
		s.Record.Outcome = "rank 3 on n7 exited 1"
	})})
	for id, want := range map[string]string{"j": "j is queued: needs 64 GPUs, 56 are free",
		"k": "k has failed: rank 3 on n7 exited 1"} {
		if r := ask(m, &messages.ExplainJob{Job: id}).(*messages.ExplainJobReply); r.Text != want ||
			r.Outcome.Code != messages.Code_CODE_OK {
			t.Errorf("%s: %v", id, r)
		}
	}
	r := ask(m, &messages.ExplainJob{Job: "x"}).(*messages.ExplainJobReply)
	if r.Outcome.Code != messages.Code_CODE_NOT_FOUND {
		t.Errorf("x: %v", r)
	}
}

func TestMirrorPages(t *testing.T) {
	m := mirrorOf(func(c *actors.Constants) { c.MirrorPage, c.MirrorPageMax = 3, 4 })
	for i := range 10 {
		ask(m, JobShown{statusOf(fmt.Sprint("j", i), []string{"alice", "bob"}[i%2], "queued")})
	}
	for _, c := range []struct {
		q    *messages.ListJobs
		want string
	}{
		{&messages.ListJobs{}, "[[j0 j1 j2] [j3 j4 j5] [j6 j7 j8] [j9]]"},
		{&messages.ListJobs{Limit: 100}, "[[j0 j1 j2 j3] [j4 j5 j6 j7] [j8 j9]]"},
		{&messages.ListJobs{Limit: 2, After: "j6"}, "[[j7 j8] [j9]]"},
		{&messages.ListJobs{After: "j8x"}, "[[j9]]"},
		{&messages.ListJobs{After: "z"}, "[[]]"},
		{&messages.ListJobs{Owner: "bob", Limit: 4}, "[[j1 j3 j5 j7] [j9]]"},
		{&messages.ListJobs{Queue: "q-alice", After: "j4"}, "[[j6 j8]]"},
		{&messages.ListJobs{Phases: []string{"running"}}, "[[]]"},
		{&messages.ListJobs{Phases: []string{"running", "queued"}, After: "j7"}, "[[j8 j9]]"},
		{&messages.ListJobs{Labels: []*messages.Label{{Key: "team", Value: "bob"}}, After: "j6"}, "[[j7 j9]]"},
		{&messages.ListJobs{Labels: []*messages.Label{{Key: "team", Value: "bob"}, {Key: "gpu", Value: "no"}}}, "[[]]"},
	} {
		if got := fmt.Sprint(listAll(t, m, c.q)); got != c.want {
			t.Errorf("%v: %s, want %s", c.q, got, c.want)
		}
	}
}

// TestMirrorFilterIsBounded checks that a filter with few matches examines a bounded number of jobs per page, and finds
// all matches.
func TestMirrorFilterIsBounded(t *testing.T) {
	m := mirrorOf(func(c *actors.Constants) { c.MirrorScan = 4 })
	for i := range 10 {
		ask(m, JobShown{statusOf(fmt.Sprint("j", i), map[bool]string{true: "bob", false: "alice"}[i == 9], "queued")})
	}
	if got := fmt.Sprint(listAll(t, m, &messages.ListJobs{Owner: "bob"})); got != "[[] [] [j9]]" {
		t.Error(got)
	}
}

// TestMirrorPageHasAWeight checks that the size of a page is bounded. A job that is larger than a page gets its own
// page.
func TestMirrorPageHasAWeight(t *testing.T) {
	m := mirrorOf(func(*actors.Constants) {})
	heavy := func(n int) func(*messages.JobStatus) {
		return func(s *messages.JobStatus) { s.Reason = strings.Repeat("x", n) }
	}
	for i, weight := range []int{pageBytes / 2, pageBytes / 2, 2 * pageBytes, 10, 20} {
		ask(m, JobShown{statusOf(fmt.Sprint("j", i), "alice", "queued", heavy(weight))})
	}
	if got := fmt.Sprint(listAll(t, m, &messages.ListJobs{})); got != "[[j0] [j1] [j2] [j3 j4]]" {
		t.Error(got)
	}
}

func TestMirrorListLeavesOutTheRanks(t *testing.T) {
	m := mirrorOf(func(*actors.Constants) {})
	s := statusOf("j", "alice", "running", func(s *messages.JobStatus) {
		s.Attempt = &messages.AttemptRecord{Job: "j", Run: 2, Places: []*messages.Place{{Node: "n0"}}, StartedUnixMs: 5}
	})
	ask(m, JobShown{s})
	listed := ask(m, &messages.ListJobs{}).(*messages.ListJobsReply).Jobs[0]
	if listed.Attempt.Run != 2 || listed.Attempt.StartedUnixMs != 5 || len(listed.Attempt.Places) != 0 {
		t.Errorf("listed %v", listed)
	}
	if whole := ask(m, &messages.GetJob{Job: "j"}).(*messages.GetJobReply).Job; whole != s {
		t.Error("the single job differs from the shown one")
	}
}

func TestMirrorKeepsTheNewestFinished(t *testing.T) {
	m := mirrorOf(func(c *actors.Constants) { c.MirrorFinished = 3 })
	debtor := statusOf("debtor", "alice", "cancelled", overAt(1), func(s *messages.JobStatus) { s.Debts = []string{"n7"} })
	ask(m, JobShown{debtor})
	ask(m, JobShown{statusOf("live", "alice", "running")})
	for _, i := range []int64{5, 3, 9, 7, 4} { // not by end time: a leader recalls jobs in any order
		id := fmt.Sprint("f", i)
		ask(m, JobShown{statusOf(id, "alice", "running")})
		ask(m, JobShown{statusOf(id, "alice", "succeeded", overAt(i))})
		ask(m, JobShown{statusOf(id, "alice", "succeeded", overAt(i))})
	}
	if got := fmt.Sprint(listAll(t, m, &messages.ListJobs{})); got != "[[debtor f5 f7 f9 live]]" {
		t.Error(got)
	}
	ask(m, JobShown{statusOf("debtor", "alice", "cancelled", overAt(1))}) // confirmed: now it is the oldest
	if got := fmt.Sprint(listAll(t, m, &messages.ListJobs{})); got != "[[f5 f7 f9 live]]" {
		t.Error(got)
	}
}

func TestMirrorShowsMachines(t *testing.T) {
	m := mirrorOf(func(c *actors.Constants) { c.MirrorPage = 2 })
	for _, id := range []string{"n2", "n0", "n1", "n0"} {
		ask(m, NodeShown{Status: &messages.NodeStatus{Record: &messages.NodeRecord{Id: id}, Phase: "up"}})
	}
	names := func(q *messages.ListNodes) string {
		r := ask(m, q).(*messages.ListNodesReply)
		var ids []string
		for _, n := range r.Nodes {
			ids = append(ids, n.Record.Id)
		}
		return fmt.Sprint(ids, r.Next)
	}
	if got := names(&messages.ListNodes{}); got != "[n0 n1]n1" {
		t.Error(got)
	}
	if got := names(&messages.ListNodes{After: "n1"}); got != "[n2]" {
		t.Error(got)
	}
	ask(m, NodeHidden{"n1"})
	if got := names(&messages.ListNodes{}); got != "[n0 n2]" {
		t.Error(got)
	}
}

// TestNamesOfOneMachine checks that only a query for one node returns the names of the node's users. Lists and watches
// show counts, and the query does not change their shared status.
func TestNamesOfOneMachine(t *testing.T) {
	m := mirrorOf(func(*actors.Constants) {})
	short, named := &messages.NodeUsers{OwnCount: 2}, &messages.NodeUsers{OwnCount: 2, Own: []string{"ann", "bob"}}
	for _, id := range []string{"n1", "n2"} {
		ask(m, NodeShown{Named: named, Status: &messages.NodeStatus{
			Record: &messages.NodeRecord{Id: id}, Phase: "up", Users: short,
		}})
	}
	one := ask(m, &messages.ListNodes{Node: "n2"}).(*messages.ListNodesReply)
	if len(one.Nodes) != 1 || one.Nodes[0].Record.Id != "n2" || fmt.Sprint(one.Nodes[0].Users.Own) != "[ann bob]" ||
		one.Nodes[0].Phase != "up" || one.Next != "" {
		t.Errorf("of n2 is shown %v", one)
	}
	all := ask(m, &messages.ListNodes{}).(*messages.ListNodesReply)
	if len(all.Nodes) != 2 || len(all.Nodes[1].Users.Own) != 0 || all.Nodes[1].Users.OwnCount != 2 {
		t.Errorf("of all is shown %v", all)
	}
	if none := ask(m, &messages.ListNodes{Node: "n"}).(*messages.ListNodesReply); len(none.Nodes) != 0 {
		t.Errorf("of a machine that is not there is shown %v", none)
	}
}

// TestOrderedIsAMap compares the ordered table with a map and a sort.
func TestOrderedIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var o ordered[int]
		oracle := map[string]int{}
		key := rapid.Custom(func(t *rapid.T) string { return fmt.Sprintf("%03x", rapid.IntRange(0, 4000).Draw(t, "key")) })
		// The first keys are enough to split blocks before single steps are checked.
		for i, k := range rapid.SliceOfN(key, 0, 1500).Draw(t, "first") {
			o.put(k, i)
			oracle[k] = i
		}
		for i := range rapid.IntRange(0, 50).Draw(t, "steps") {
			k := key.Draw(t, "k")
			if rapid.Bool().Draw(t, "put") {
				o.put(k, i)
				oracle[k] = i
			} else {
				o.remove(k)
				delete(oracle, k)
			}
		}
		want := make([]string, 0, len(oracle))
		for k := range oracle {
			want = append(want, k)
		}
		slices.Sort(want)
		if rapid.Bool().Draw(t, "empty it") {
			for _, k := range want {
				o.remove(k)
			}
			if o.len() != 0 || len(o.blocks) != 0 {
				t.Fatalf("%d entries in %d blocks are left", o.len(), len(o.blocks))
			}
			return
		}
		from := key.Draw(t, "from")
		at, _ := slices.BinarySearch(want, from)
		var got []string
		o.ascend(from, func(k string, v int) bool {
			if v != oracle[k] {
				t.Fatalf("%s is %d, want %d", k, v, oracle[k])
			}
			got = append(got, k)
			return true
		})
		if !slices.Equal(got, want[at:]) || o.len() != len(want) {
			t.Fatalf("from %s: %v\nwant %v", from, got, want[at:])
		}
	})
}

func BenchmarkMirrorPage(b *testing.B) {
	m := mirrorOf(func(*actors.Constants) {})
	for i := range 100_000 {
		ask(m, JobShown{statusOf(fmt.Sprintf("j%07d", i*7919%100_000), "alice", "queued")})
	}
	b.ReportAllocs()
	for b.Loop() {
		if r := ask(m, &messages.ListJobs{After: "j0050000"}).(*messages.ListJobsReply); len(r.Jobs) != 100 {
			b.Fatal(len(r.Jobs))
		}
	}
}

func BenchmarkMirrorShown(b *testing.B) {
	m := mirrorOf(func(*actors.Constants) {})
	var shown []JobShown
	for i := range 200_000 {
		shown = append(shown, JobShown{statusOf(fmt.Sprintf("j%07d", i*7919%200_000), "alice", "queued", overAt(int64(i)))})
	}
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		ask(m, shown[i%len(shown)])
		i++
	}
}

// TestMirrorKeepsSoManyBytes checks that large finished jobs and large events stay within a limit in bytes. The newest
// ones always stay, and recalled jobs of a new leader obey the same limit.
func TestMirrorKeepsSoManyBytes(t *testing.T) {
	large := func(s *messages.JobStatus) {
		s.Record.Spec.Env = []*messages.EnvVar{{Name: "A", Value: strings.Repeat("x", 1<<10)}}
	}
	m := mirrorOf(func(c *actors.Constants) { c.MirrorBytes = 3 << 10 })
	for i := range int64(5) {
		ask(m, JobShown{statusOf(fmt.Sprint("f", i), "ann", "succeeded", overAt(i), large)})
	}
	if got := fmt.Sprint(listAll(t, m, &messages.ListJobs{})); got != "[[f3 f4]]" {
		t.Error(got)
	}
	w := &m.watch
	if len(w.last) != 2 || w.bytes > 3<<10 || w.remembers(w.seq-3) || !w.remembers(w.seq-2) {
		t.Errorf("%d events are kept, of %d bytes", len(w.last), w.bytes)
	}
	huge := func(s *messages.JobStatus) { s.Reason = strings.Repeat("x", 9<<10) }
	ask(m, JobShown{statusOf("f9", "ann", "succeeded", overAt(9), huge)})
	if got := fmt.Sprint(listAll(t, m, &messages.ListJobs{})); got != "[[f9]]" || len(w.last) != 1 {
		t.Error(got, len(w.last))
	}
	next := mirrorOf(func(c *actors.Constants) { c.MirrorBytes = 3 << 10 })
	for i := int64(5); i > 0; i-- {
		e := ended(fmt.Sprint("f", i), i)
		large(&messages.JobStatus{Record: e.Job})
		ask(next, e)
	}
	if got := fmt.Sprint(listAll(t, next, &messages.ListJobs{})); got != "[[f4 f5]]" {
		t.Error("a new leader: " + got)
	}
}
