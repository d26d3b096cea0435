package mirror

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/goodput"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the tests of the order of reasons if several apply.

// peel removes the causes of a wait one by one, and checks the reason after each step.
func peel(t *testing.T, say func() string, steps ...any) {
	t.Helper()
	for i := 0; i < len(steps); i += 2 {
		if got, want := say(), steps[i].(string); got != want {
			t.Errorf("step %d: %q, want %q", i/2, got, want)
		}
		if i+1 < len(steps) {
			steps[i+1].(func())()
		}
	}
}

// TestWhatIsSaidFirst checks the order of reasons: causes that the job cannot influence come first.
func TestWhatIsSaidFirst(t *testing.T) {
	m, _ := counting()
	now := m.p.Clock.WallMs()
	s := statusOf("k_1", "ann", "queued", attemptOn(1, "n1"))
	r := s.Record
	r.Hold = &messages.Deed{By: &messages.Principal{Name: "op"}, Reason: "later"}
	r.Spec.After = []*messages.After{{Job: "x"}, {Job: "y"}}
	r.Spec.BeginUnixMs, r.NotBeforeUnixMs, r.Failures = now+1, now+90_000, 3
	r.Spec.Element = &messages.Element{Array: "k", Index: 1}
	s.Debts = []string{"n7"}
	s.Attempt.End = &messages.End{Cause: messages.Cause_CAUSE_PREPARE_FAILED, Detail: "rank 3: no image", Node: "n2"}
	ask(m, JobShown{statusOf("x", "ann", "running")})
	array := statusOf("k", "ann", "queued", func(s *messages.JobStatus) {
		s.Record.Spec.Array = &messages.ArraySpec{Indices: []*messages.IndexRange{{Last: 9}}, Most: 2}
		s.Counts = &messages.ArrayCounts{Running: 2, Waiting: 8}
	})
	ask(m, JobShown{array})
	ask(m, PlanningShown{messages.WaitRecovering.Because("the leader is new")})
	peel(t, func() string {
		ask(m, JobShown{s})
		return ask(m, &messages.GetJob{Job: "k_1"}).(*messages.GetJobReply).Job.Reason
	},
		"Held by op: later", func() { r.Hold = nil },
		"Dependency: x running, y", func() { r.Spec.After = nil },
		"BeginTime: 12:00Z", func() { r.Spec.BeginUnixMs = now },
		"Unconfirmed: last attempt may run on n7", func() { s.Debts = nil },
		"Prepare: no image on n2 (retry at 12:01:30Z)", func() { s.Attempt.End.Cause = messages.Cause_CAUSE_MACHINE_LOST },
		"Backoff: 3 failures (retry at 12:01:30Z)", func() { r.Failures = 0 },
		"Unconfirmed: tasks may run on a node (retry at 12:01:30Z)",
		func() { r.NotBeforeUnixMs = now }, "Recovering: the leader is new",
		func() { ask(m, PlanningShown{}) }, "ArrayLimit: 2 of at most 2 elements run",
		func() { array.Record.Spec.Array.Most = 0 }, "Evaluating: the scheduler looks at the job next",
	)
	if text := m.whyIdle(statusOf("e", "ann", "succeeded", overAt(1), func(s *messages.JobStatus) {
		s.Record.Outcome, s.Debts = "done", []string{"n1"}
	})); text.Text != "done" {
		t.Errorf("reason of an ended job is %q", text)
	}
	if text := m.phaseOf("x") + m.phaseOf("nobody"); text != "running" {
		t.Errorf("those that others wait for are %q", text)
	}
}

// TestElementsThatAreNoJobs checks that an element without a job is shown from its array's record.
func TestElementsThatAreNoJobs(t *testing.T) {
	m, _ := counting()
	s := statusOf("k", "ann", "queued")
	r := s.Record
	r.Hold = &messages.Deed{By: &messages.Principal{Name: "op"}}
	r.FinishedUnixMs = 77
	r.Spec.After = []*messages.After{{Job: "x"}}
	r.Spec.Array = &messages.ArraySpec{Indices: []*messages.IndexRange{{First: 10, Last: 29}}, Most: 2}
	cancelled := messages.JobState_JOB_STATE_CANCELLED
	r.Array = &messages.ArrayRecord{
		Held: []*messages.IndexRange{{First: 3, Last: 3}},
		Ended: []*messages.ElementsEnded{
			{State: cancelled, Unborn: true, Places: []*messages.IndexRange{{First: 4, Last: 5}}},
			{State: cancelled, Places: []*messages.IndexRange{{First: 6, Last: 7}}},
		},
	}
	s.Counts = &messages.ArrayCounts{Running: 1}
	see := func(id string) string {
		ask(m, JobShown{s})
		reply := ask(m, &messages.GetJob{Job: id}).(*messages.GetJobReply)
		if reply.Job == nil {
			return reply.Outcome.Code.String()
		}
		told := ask(m, &messages.ExplainJob{Job: id}).(*messages.ExplainJobReply)
		if e := told.Explanation; e.Phase != reply.Job.Phase || e.Reason != reply.Job.Reason ||
			e.ReasonCode != reply.Job.ReasonCode || e.Job.Id != id || !strings.HasPrefix(told.Text, id+" ") {
			t.Errorf("%s is explained as %v, and shown as %q", id, told, reply.Job.Reason)
		}
		return reply.Job.Phase + ", " + reply.Job.Reason
	}
	const next = "queued, Priority: earlier elements of the array go first, 1 running"
	peel(t, func() string { return see("k_10") },
		"held, Held: its array k is held", func() { r.Hold = nil },
		"queued, Dependency: x", func() { r.Spec.After = nil },
		next, func() { r.Spec.Array.Most = 1 },
		"queued, ArrayLimit: 1 of at most 1 elements run", func() { r.Spec.Array.Most = 0 }, next)
	never := "cancelled, cancelled before it was a job"
	for id, want := range map[string]string{
		"k_13": "held, Held: its array k is held", "k_12": next, "k_14": never, "k_15": never, "k_16": "CODE_NOT_FOUND",
		"k_17": "CODE_NOT_FOUND", "k_18": next, "k_29": next, "k_30": "CODE_NOT_FOUND", "k_9": "CODE_NOT_FOUND",
		"l_10": "CODE_NOT_FOUND",
	} {
		if got := see(id); got != want {
			t.Errorf("%s is %q, want %q", id, got, want)
		}
	}
	if e := m.unborn("k_14").Record; e.FinishedUnixMs != 77 || e.Outcome != "cancelled before it was a job" {
		t.Errorf("it ended as %v", e)
	}
}

// waitingPair returns a Mirror with two waiting jobs of one burst. There is capacity for one of them or for none, and
// their last attempt failed or did not.
func waitingPair(full, failed bool) *Mirror {
	m, _ := counting()
	all := topology.Resources{MilliGPU: 8000}
	seen := topology.Seen{ID: "n1", Machine: &topology.Machine{ID: "n1", Place: []string{"r1"}, Total: all}}
	if !full {
		seen.Free.WholeGPUs = 8
	}
	ask(m, RoomsShown{Changes: topology.Changes{Machines: []topology.Seen{seen}}, Holders: [][]topology.Holder{nil}})
	shown := waitsFor(1, "needs 8 GPUs", "first", "j")
	shown.Groups[0].Asked.Gang = topology.Gang{Replicas: 1, Each: all}
	for i, id := range []string{"first", "j"} {
		shown.Jobs[i].Burst = 7
		ask(m, JobShown{statusOf(id, "ann", "queued", func(s *messages.JobStatus) {
			if end := (messages.End{Cause: messages.Cause_CAUSE_LAUNCH_FAILED, Detail: "no image"}); failed {
				s.Attempt = &messages.AttemptRecord{End: &end}
			}
		})})
	}
	ask(m, shown)
	return m
}

// TestExplainJoins checks that an explanation has the reason, the limit, the failure and the start once each.
func TestExplainJoins(t *testing.T) {
	for bits := range 16 {
		full, failed, told, over := bits&1 != 0, bits&2 != 0, bits&4 != 0, bits&12 == 12
		m := waitingPair(full, failed)
		want := "j is queued: needs 8 GPUs"
		switch {
		case over:
			want = "j is queued: nlp uses 8 of 8 GPUs"
		case failed:
			want = "j is queued: Launch: no image, now needs 8 GPUs"
		}
		if full {
			want += " · Needs: 8 GPUs · Free: 0 of 8 GPUs"
		}
		if !told {
			want += " · Queue: 1 job ahead, of 2 waiting jobs"
		} else {
			s, why := promiseTo(false, topology.Never, 0), "svc on n4 has no time limit"
			s.Lines[0].Share = "nlp uses 8 of 16"
			limits := " · Limits: nlp uses 8 of 16"
			if over {
				s.Lines[0].Over, s.Lines[0].Limit = "nlp has no more", "nlp uses 8 of 8 GPUs"
				why, limits = "the queue is at its limit", " · Limits: nlp has no more; nlp uses 8 of 16"
			}
			want += " · Start: unknown: " + why + " · Queue: 41 jobs ahead (2 GPU-hours, 1h23m at today's pace)" + limits
			ask(m, s)
		}
		if failed {
			want += " · Last attempt: Launch: no image"
		}
		if got := ask(m, &messages.ExplainJob{Job: "j"}).(*messages.ExplainJobReply).Text; got != want {
			t.Errorf("full %v, failed %v, told %v, over %v:\n%q\nwant\n%q", full, failed, told, over, got, want)
		}
	}
}

// TestEveryFieldOfAStartCounts checks that a change of any field of an estimate is sent.
func TestEveryFieldOfAStartCounts(t *testing.T) {
	told := func() *StartsShown {
		s := promiseTo(true, 5, 6, "j")
		return &s
	}
	change := func(v reflect.Value) {
		switch v.Kind() {
		case reflect.String:
			v.SetString(v.String() + "x")
		case reflect.Bool:
			v.SetBool(!v.Bool())
		case reflect.Uint8, reflect.Uint64:
			v.SetUint(v.Uint() + 1)
		default:
			v.SetInt(v.Int() + 1)
		}
	}
	if !told().Equal(told()) {
		t.Fatal("equal values compare as different")
	}
	fields := func(of func(*StartsShown) reflect.Value) {
		typ := of(told()).Type()
		for i := range typ.NumField() {
			s := told()
			if f := of(s).Field(i); f.Kind() != reflect.Struct {
				change(f)
			} else {
				s.Promises[0].Where.Slots[1].Node = "n9"
			}
			if s.Equal(told()) || told().Equal(s) {
				t.Errorf("a change of %s in %s causes no update", typ.Field(i).Name, typ.Name())
			}
		}
	}
	fields(func(s *StartsShown) reflect.Value { return reflect.ValueOf(&s.Promises[0]).Elem() })
	fields(func(s *StartsShown) reflect.Value { return reflect.ValueOf(&s.Lines[0]).Elem() })
	fields(func(s *StartsShown) reflect.Value { return reflect.ValueOf(&s.Endless[0]).Elem() })
	for i, edit := range []func(*StartsShown){
		func(s *StartsShown) { s.Learned = true }, func(s *StartsShown) { s.Promises = nil },
		func(s *StartsShown) { s.Lines = nil }, func(s *StartsShown) { s.Endless = nil },
	} {
		s := told()
		if edit(s); s.Equal(told()) {
			t.Errorf("change %d causes no update", i)
		}
	}
}

// TestLostBeforeThisLeader checks attempts that ended after the last record of an earlier leader. Their work is lost
// from the start until the last exit, as far as the record reaches, unless they had reached their purpose.
func TestLostBeforeThisLeader(t *testing.T) {
	for cause := range messages.Cause(19) {
		m, clock := counting()
		noon, queue := clock.WallMs(), "q-ann"
		day := goodput.DayOf(noon)
		recalled := GPUTimeRecalled{Time: &messages.GpuTime{SinceUnixMs: noon - 9_000, UntilUnixMs: noon}}
		for kind, name := range []string{"", "ann", queue} {
			recalled.Time.Rows = append(recalled.Time.Rows, &messages.GpuTimeRow{
				Kind: messages.GpuTimeKind(kind + 1), Day: day, Name: name, CapacityMilliGpuMs: 99_000_000,
				Amounts: []*messages.GpuAmount{{Class: messages.GpuClass_GPU_CLASS_PRODUCTIVE, MilliGpuMs: 99_000_000}},
			})
		}
		a := attemptOf(1, noon-8_000, 1000, 500)
		a.StartedUnixMs, a.End = noon-7_000, &messages.End{AtUnixMs: noon - 1_000, Cause: cause}
		a.Places[1].Exit = &messages.Exit{AtUnixMs: noon - 5_000}
		recalled.Ended = []actors.Ended{{Job: statusOf("j", "ann", "failed").Record, Attempt: a}}
		recalled.Removed = []*messages.NodeRecord{{
			JoinedUnixMs: noon - 4_000, Removed: &messages.Deed{AtUnixMs: noon - 2_000},
			Announcement: &messages.Announcement{Total: &messages.Resources{MilliGpu: 3000}},
		}}
		ask(m, recalled)
		want := int64(6_000*1000 + 2_000*500)
		switch cause {
		case messages.Cause_CAUSE_SUCCEEDED, messages.Cause_CAUSE_CANCELLED, messages.Cause_CAUSE_TIME_LIMIT:
			want = 0
		}
		taken := ask(m, TakeGPUTime{}).(GPUTimeTaken).Time
		for _, row := range taken.Rows {
			lost := int64(0)
			for _, x := range row.Amounts {
				if x.Class == messages.GpuClass_GPU_CLASS_LOST && x.Cause == cause {
					lost += x.MilliGpuMs
				}
			}
			if lost != want || row.CapacityMilliGpuMs != 99_000_000 {
				t.Errorf("%s: %d are lost of %v, want %d", cause, lost, row, want)
			}
		}
		if len(taken.Rows) != 3 || taken.SinceUnixMs != noon-9_000 || taken.UntilUnixMs != noon {
			t.Errorf("%s: taken %v", cause, taken)
		}
	}
}

// TestEveryWordOfAJob checks the texts of job events: the nodes of a live attempt, the reason, the hold, or the cause
// of the last end.
func TestEveryWordOfAJob(t *testing.T) {
	for bits := range 64 {
		has := func(bit int) bool { return bits>>bit&1 == 1 }
		s, want := statusOf("j", "ann", "held"), "job j held"
		if has(0) {
			attemptOn(1, "n1", "n1", "n2")(s)
		}
		if has(1) && has(0) {
			s.Attempt.End = &messages.End{Detail: "rank 0 exited 1"}
		}
		if has(2) {
			s.Reason = "held: no room"
		}
		if has(3) {
			s.Record.Hold = &messages.Deed{Reason: "later"}
		}
		if has(4) {
			s.Debts = []string{"n7", "n8"}
		}
		if has(5) {
			s.Record.State = messages.JobState_JOB_STATE_CANCELLED
		}
		ended, over := has(0) && has(1), has(5)
		if has(0) && !ended && !over {
			want += " on n1, n2"
		}
		switch {
		case has(2):
			want += ": no room"
		case has(3):
			want += ": later"
		case ended && !over:
			want += ": rank 0 exited 1"
		}
		if has(4) {
			want += "; the end is not confirmed by n7, n8"
		}
		if got := jobWords(s); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	var many []string
	for i := range wordedNodes + 1 {
		many = append(many, fmt.Sprint("n", i))
	}
	all := strings.Join(many[:wordedNodes], ", ")
	if someOf(many) != all+" and 1 more" || someOf(many[:wordedNodes]) != all {
		t.Errorf("%q, %q", someOf(many), someOf(many[:wordedNodes]))
	}
}
