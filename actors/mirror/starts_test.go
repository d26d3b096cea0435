package mirror

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// This file owns the tests of start estimates.

const minute = 60_000_000_000

// promiseTo returns an update that reserves n1 and n2 for these jobs. A job without a time limit runs on n4.
func promiseTo(firm bool, bound, by int64, jobs ...topology.JobID) StartsShown {
	s := StartsShown{Endless: []Endless{{"svc", "n4"}}}
	for _, j := range jobs {
		slots := []topology.Slot{{Node: "n1"}, {Rank: 1, Node: "n1"}, {Rank: 2, Node: "n2"}}
		s.Promises = append(s.Promises, policy.Promise{
			Job: j, Where: topology.Placement{Slots: slots}, At: 30 * minute, Bound: bound, Latest: bound, By: by,
			Until: topology.Never, Firm: firm,
		})
	}
	s.Lines = []policy.InLine{{
		Burst: 7, Ahead: 40, Work: 4_000_000, Each: 1_000_000, Pace: 1000, Endless: "svc", Why: policy.Withholdings,
	}}
	return s
}

func prospectOf(t *testing.T, m *Mirror, id string) *messages.Prospect {
	t.Helper()
	got := ask(m, &messages.GetJob{Job: id}).(*messages.GetJobReply).Job.GetProspect()
	for _, j := range ask(m, &messages.ListJobs{Limit: 1000}).(*messages.ListJobsReply).Jobs {
		if j.Record.Id == id && j.Prospect.GetAtUnixMs() != got.GetAtUnixMs() {
			t.Errorf("%s is shown with %v and listed with %v", id, got, j.Prospect)
		}
	}
	return got
}

// queued adds waiting jobs of burst 7.
func queued(a *audience, jobs ...string) {
	shown := waitsFor(1, "needs 8 GPUs", jobs...)
	for i, id := range jobs {
		a.says("", JobShown{statusOf(id, "alice", "queued")})
		shown.Jobs[i].Burst = 7
	}
	a.says("", shown)
}

// TestStartIsToldOnItsGround checks which estimates are shown. A latest start is shown only for a bounded start
// guarantee. A 90% bound is shown only if it is known and has not passed. No time is shown without reserved nodes.
func TestStartIsToldOnItsGround(t *testing.T) {
	a := newAudience()
	queued(a, "j", "k")
	none := prospectOf(t, a.Mirror, "j")
	if none.GetBasis() != messages.Basis_BASIS_NONE || !strings.Contains(none.Why, "fifo") {
		t.Errorf("without lookahead the estimate is %v", none)
	}
	noon := noon{}.WallMs()
	a.says("", promiseTo(true, 60*minute, 90*minute, "j"))
	told := prospectOf(t, a.Mirror, "j")
	if told.Basis != messages.Basis_BASIS_LIMITS || told.AtUnixMs != noon+30*60_000 ||
		told.LatestUnixMs != noon+60*60_000 || told.LikelyUnixMs != 0 || len(told.Kept) != 2 || told.KeptUntilUnixMs != 0 {
		t.Errorf("of a firm promise with a bound: %v", told)
	}
	const svc = "svc on n4 has no time limit"
	if told = prospectOf(t, a.Mirror, "k"); told.AtUnixMs != 0 || told.LatestUnixMs != 0 || told.Why != svc ||
		told.Ahead != 41 || told.AheadGpuSeconds != 5000 || told.AheadMs != 5_000_000 {
		t.Errorf("of none: %v", told)
	}
	for by, want := range map[int64]int64{0: 0, 20 * minute: 0, 90 * minute: noon + 90*60_000} {
		a.says("", promiseTo(false, topology.Never, by, "j"))
		told = prospectOf(t, a.Mirror, "j")
		if told.Basis != messages.Basis_BASIS_LEARNED || told.LatestUnixMs != 0 || told.LikelyUnixMs != want {
			t.Errorf("planned start with a 90%% bound of %d: %v", by, told)
		}
	}
	text := ask(a.Mirror, &messages.ExplainJob{Job: "k"}).(*messages.ExplainJobReply).Text
	if !strings.HasSuffix(text, " · Start: unknown: "+svc+" · Queue: 41 jobs ahead (2 GPU-hours, 1h23m at today's pace)") {
		t.Error(text)
	}
}

// TestNoStaleStart checks that a job has no estimate if it is held, runs or has finished. A job that is queued again
// has none until the next update.
func TestNoStaleStart(t *testing.T) {
	nothing := func(*messages.JobStatus) {}
	for phase, edit := range map[string]func(*messages.JobStatus){
		"held": nothing, "running": nothing, "reserving": nothing, "succeeded": overAt(1),
	} {
		for _, late := range []bool{false, true} { // the Scheduler sends one more update before it knows
			a := newAudience()
			queued(a, "j")
			a.says("", promiseTo(true, 60*minute, 0, "j"))
			a.says("", JobShown{statusOf("j", "alice", phase, edit)})
			if late {
				a.says("", promiseTo(true, 60*minute, 0, "j"))
			}
			if told := prospectOf(t, a.Mirror, "j"); told != nil {
				t.Errorf("a job that is %s has the estimate %v", phase, told)
			}
			text := ask(a.Mirror, &messages.ExplainJob{Job: "j"}).(*messages.ExplainJobReply).Text
			if strings.Contains(text, "starts") || strings.Contains(text, "kept") {
				t.Errorf("a job that is %s has the explanation %q", phase, text)
			}
			if phase == "succeeded" {
				continue
			}
			a.says("", WaitsNoMore{"j"})
			queued(a, "j")
			if told := prospectOf(t, a.Mirror, "j"); told == nil || told.AtUnixMs != 0 || len(told.Kept) > 0 {
				t.Errorf("a job that was %s and waits again has the old estimate %v", phase, told)
			}
		}
	}
}

// TestSupposed checks that a spec which was not submitted gets the answer of a submitted job, and that the query leaves
// no trace.
func TestSupposed(t *testing.T) {
	a := newAudience()
	all := topology.Resources{MilliCPU: 8000, MemoryBytes: 8 << 30, MilliGPU: 8000}
	half := topology.Resources{MilliCPU: 4000, MemoryBytes: 4 << 30, MilliGPU: 4000}
	a.says("", RoomsShown{Changes: topology.Changes{Machines: []topology.Seen{{
		ID: "n1", Machine: &topology.Machine{ID: "n1", Place: []string{"r1"}, Total: all},
		Free: topology.Capacity{MilliCPU: half.MilliCPU, MemoryBytes: half.MemoryBytes, WholeGPUs: 4},
	}}}, Holders: [][]topology.Holder{{{Job: "a", Amount: half, EndsBy: 30 * minute}}}})
	queued(a, "j")
	spec := func(gpus int64) *messages.JobSpec {
		return &messages.JobSpec{
			Name: "x", Gang: &messages.GangSpec{ReplicasMin: 1, ReplicasMax: 1},
			Each: &messages.Resources{MilliGpu: gpus * 1000},
		}
	}
	for gpus, want := range map[int64]string{4: "would start now", 5: "would wait: needs 5 GPUs"} {
		r := ask(a.Mirror, &messages.ExplainJob{Spec: spec(gpus)}).(*messages.ExplainJobReply)
		if !strings.HasPrefix(r.Text, want) {
			t.Errorf("%d GPUs: %q", gpus, r.Text)
		}
		if gpus == 5 && (!strings.Contains(r.Text, "fits by 12:30Z (in 30m, time limit), when a has ended") ||
			!strings.HasSuffix(r.Text, " · Queue: 1 job ahead") || r.Explanation.Job.Name != "x") {
			t.Errorf("%q, %v", r.Text, r.Explanation)
		}
	}
	tree, _ := a.Room()
	free, _ := tree.Free("n1")
	if free.WholeGPUs != 4 || len(ask(a.Mirror, &messages.ListJobs{}).(*messages.ListJobsReply).Jobs) != 1 {
		t.Error("a query has changed the state")
	}
}

// TestWayOut checks the hints for a job that could be backfilled: the time limit with which it would start, and the job
// that the nodes are reserved for. The job with the reservation gets no such hint.
func TestWayOut(t *testing.T) {
	a := newAudience()
	all := topology.Resources{MilliGPU: 8000}
	a.says("", RoomsShown{
		Changes: topology.Changes{
			Machines: []topology.Seen{{
				ID: "n1", Machine: &topology.Machine{ID: "n1", Place: []string{"r1"}, Total: all},
				Free: topology.Capacity{WholeGPUs: 8},
			}},
			Kept: []topology.Kept{{ID: "big", Slots: []topology.Slot{{Node: "n1", Amount: all}}}},
		},
		Holders: [][]topology.Holder{nil},
	})
	waits := waitsFor(1, "needs 4 GPUs", "j", "big")
	waits.Groups[0].Asked.Gang = topology.Gang{Replicas: 1, Each: topology.Resources{MilliGPU: 4000}}
	for i, id := range []string{"j", "big"} {
		waits.Jobs[i].Burst = 7
		a.says("", JobShown{statusOf(id, "alice", "queued", func(s *messages.JobStatus) {
			s.Record.Spec.Stop = &messages.StopSpec{GraceMs: 10_000}
		})})
	}
	a.says("", waits)
	promised := promiseTo(false, topology.Never, 0, "big")
	promised.Promises[0].Where.Slots = []topology.Slot{{Node: "n1", Amount: all}}
	a.says("", promised)
	explain := func(id string) string {
		return ask(a.Mirror, &messages.ExplainJob{Job: id}).(*messages.ExplainJobReply).Text
	}
	text := explain("j")
	for _, want := range []string{
		" · Reserved: 8 GPUs for big (alice) · ",
		" · To start now: with --time-limit 29m (the job ends before the reserved nodes are needed for big (alice))",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %q", want, text)
		}
	}
	if text = explain("big"); strings.Contains(text, "for big") || strings.Contains(text, "--time-limit") {
		t.Errorf("%q", text)
	}
	a.says("", WaitsNoMore{"big"})
	if text = explain("j"); strings.Contains(text, "--time-limit") {
		t.Errorf("promise to a job that does not wait: %q", text)
	}
}

// TestNearerIsTold checks that the reason of a gang which waits for a rack names the level and the bound of the wait.
// The others of its burst wait behind it, and keep their reason.
func TestNearerIsTold(t *testing.T) {
	a := newAudience()
	queued(a, "j", "k")
	shown := StartsShown{}
	shown.Lines = []policy.InLine{{Burst: 7, Why: policy.Locality, Within: "rack", Until: 10 * minute}}
	a.says("", shown)
	want := map[string]string{
		"j": "Topology: prefers 1 rack, starts anywhere from 12:10Z",
		"k": "Resources: needs 8 GPUs",
	}
	for id, reason := range want {
		if got := ask(a.Mirror, &messages.GetJob{Job: id}).(*messages.GetJobReply).Job.GetReason(); got != reason {
			t.Errorf("the reason of %s is %q, not %q", id, got, reason)
		}
	}
}

// TestOverdueStart checks that an overdue estimate stays while the planner plans the start for the time of each pass. A
// later estimate replaces it. An estimate is based on history only if there is history.
func TestOverdueStart(t *testing.T) {
	m, clock := counting()
	shown := waitsFor(1, "needs 8 GPUs", "j")
	ask(m, JobShown{statusOf("j", "alice", "queued")})
	shown.Jobs[0].Burst = 7
	ask(m, shown)
	tell := func(in time.Duration, learned bool) {
		s := promiseTo(false, topology.Never, 0, "j")
		s.Promises[0].At, s.Learned = int64(actors.Instant(clock.now).Plus(in)), learned
		ask(m, s)
	}
	see := func(want string) {
		t.Helper()
		if got := prospectOf(t, m, "j").Words(clock.WallMs()); !strings.HasPrefix(got, want) {
			t.Errorf("after %s: %q, want %q", clock.now, got, want)
		}
	}
	tell(5*time.Minute, false)
	see("expected 12:05Z (in 5m, default estimate)")
	clock.now += 6 * time.Minute
	see("expected 12:05Z (overdue 60s, default estimate)")
	tell(0, true) // planned for the moment of this pass
	see("expected 12:05Z (overdue 60s, estimate)")
	clock.now += 2 * time.Minute
	tell(0, true)
	see("expected 12:05Z (overdue 3m, estimate)")
	tell(time.Minute, true)
	see("expected 12:09Z (in 60s, estimate)")
}

// TestKeptMachinesAreNamed checks that each reserved node is named once, up to a limit.
func TestKeptMachinesAreNamed(t *testing.T) {
	for machines, want := range map[int]int{keptNamed - 1: keptNamed - 1, keptNamed: keptNamed, keptNamed + 1: keptNamed} {
		a := newAudience()
		queued(a, "j")
		s := promiseTo(true, 60*minute, 0, "j")
		s.Promises[0].Where.Slots = nil
		for i := range 2 * machines {
			node := topology.NodeID(fmt.Sprintf("n%04d", i/2))
			s.Promises[0].Where.Slots = append(s.Promises[0].Where.Slots, topology.Slot{Rank: topology.Rank(i), Node: node})
		}
		a.says("", s)
		if n := len(prospectOf(t, a.Mirror, "j").Kept); n != want {
			t.Errorf("of %d machines %d are named", machines, n)
		}
	}
}

// TestNotOverdueSinceBefore checks that an estimate of an earlier attempt does not make a retried job overdue.
func TestNotOverdueSinceBefore(t *testing.T) {
	m, clock := counting()
	promised := func() {
		s := promiseTo(false, topology.Never, 0, "j")
		s.Promises[0].At = int64(clock.now)
		ask(m, s)
	}
	for range 2 {
		ask(m, JobShown{statusOf("j", "ann", "queued")})
		ask(m, waitsFor(1, "needs 8 GPUs", "j"))
		promised()
		if p := prospectOf(t, m, "j"); p.AtUnixMs != clock.WallMs() {
			t.Errorf("the estimated start is %d ms ago", clock.WallMs()-p.AtUnixMs)
		}
		clock.now += time.Minute
		ask(m, WaitsNoMore{"j"})
		ask(m, JobShown{statusOf("j", "ann", "running")})
	}
}

// TestInfeasible checks a job that does not fit on an idle cluster. Its reason and its start estimate say so, and no
// time is shown.
func TestInfeasible(t *testing.T) {
	m, _ := counting()
	rooms := RoomsShown{Holders: make([][]topology.Holder, 1)}
	rooms.Machines = []topology.Seen{{ID: "n1", Machine: &topology.Machine{
		ID: "n1", Place: []string{"r1"}, Total: topology.Resources{MilliCPU: 64_000, MemoryBytes: 1 << 40},
	}}}
	ask(m, rooms)
	for id, cpu := range map[string]int64{"huge": 100_000, "fits": 32_000} {
		group := policy.GroupID(cpu)
		shown := waitsFor(group, "needs CPUs, and others have them", id)
		shown.Groups[0].Asked = policy.Question{Gang: topology.Gang{Replicas: 1, Each: topology.Resources{MilliCPU: cpu}}}
		ask(m, JobShown{statusOf(id, "alice", "queued")})
		ask(m, shown)
		ask(m, promiseTo(false, topology.Never, 0))
		got := ask(m, &messages.GetJob{Job: id}).(*messages.GetJobReply).Job
		never := strings.HasPrefix(got.Reason, "Infeasible: needs 100 cores") && got.Prospect.AtUnixMs == 0 &&
			strings.HasPrefix(got.Prospect.Words(1), "Infeasible: needs 100 cores")
		if never != (id == "huge") {
			t.Errorf("%s: %q, %v", id, got.Reason, got.Prospect)
		}
	}
}

// TestInfeasibleInTurns checks that one list examines a bounded number of shapes, and that the next lists examine the
// others.
func TestInfeasibleInTurns(t *testing.T) {
	m, clock := counting()
	rooms := RoomsShown{Holders: make([][]topology.Holder, 1)}
	rooms.Machines = []topology.Seen{{ID: "n1", Machine: &topology.Machine{
		ID: "n1", Place: []string{"r1"}, Total: topology.Resources{MilliCPU: 64_000, MemoryBytes: 1 << 40},
	}}}
	ask(m, rooms)
	const shapes = 2 * judgedMost
	for i := range shapes {
		id := fmt.Sprint("huge-", i)
		shown := waitsFor(policy.GroupID(1+i), "needs CPUs, and others have them", id)
		shown.Groups[0].Asked = policy.Question{
			Gang: topology.Gang{Replicas: 1, Each: topology.Resources{MilliCPU: 100_000 + int64(i)}},
		}
		ask(m, JobShown{statusOf(id, "alice", "queued")})
		ask(m, shown)
	}
	told := func() (never int) {
		for _, j := range ask(m, &messages.ListJobs{Limit: shapes}).(*messages.ListJobsReply).Jobs {
			if strings.HasPrefix(j.Reason, "Infeasible: ") {
				never++
			}
		}
		return never
	}
	for range 2 { // at the same time
		if n := told(); n != judgedMost {
			t.Errorf("%d of %d jobs are Infeasible, want %d", n, shapes, judgedMost)
		}
	}
	// By now the known results are due for a new search, and the unknown shapes still get one.
	for range 2 {
		clock.now += judgeAgain
		told()
	}
	if n := told(); n != shapes {
		t.Errorf("%d of %d jobs are Infeasible in the end", n, shapes)
	}
}
