package show

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/queues"
)

const now = 1_800_000_000_000

func running() *messages.JobStatus {
	grant := func(rank int32, gpus ...string) *messages.Grant {
		g := &messages.Grant{Rank: rank, Amount: &messages.Resources{MilliCpu: 8000, MilliGpu: int64(len(gpus)) * 1000}}
		for _, id := range gpus {
			g.Gpus = append(g.Gpus, &messages.GpuShare{GpuId: id, Milli: 1000})
		}
		return g
	}
	return &messages.JobStatus{
		Record: &messages.JobRecord{
			Id: "jab12", SubmittedUnixMs: now - 7_500_000, Arrival: 1, Runs: 2, Failures: 1, RequestId: "r1",
			State: messages.JobState_JOB_STATE_ACTIVE, Owner: &messages.Principal{Name: "alice"},
			Spec: &messages.JobSpec{
				Name: "llama", Labels: []*messages.Label{{Key: "team", Value: "nlp"}}, Queue: "research", Priority: 100,
				Gang:    &messages.GangSpec{ReplicasMin: 4, ReplicasMax: 4},
				Each:    &messages.Resources{MilliCpu: 8000, MemoryBytes: 64 << 30, MilliGpu: 2000},
				GpuType: "h100", Topology: &messages.TopologySpec{Required: "zone", Preferred: "rack", PatienceMs: 300_000},
				Image: "host", Command: []string{"torchrun", "a b.py", "it's"}, Restart: &messages.RestartSpec{Limit: 3},
				TimeLimitMs: 86_400_000,
			},
		},
		Phase: "running",
		Attempt: &messages.AttemptRecord{
			Job: "jab12", Run: 2, CommittedUnixMs: now - 61_000, StartedUnixMs: now - 60_000,
			Rendezvous: &messages.Rendezvous{Address: "10.0.0.1", Port: 20001},
			Told:       &messages.Told{ToldUnixMs: now - 7_400_000, ExpectedMs: 7_000_000, BoundMs: 7_336_000},
			Places: []*messages.Place{
				{Rank: 0, Node: "n1", Grant: grant(0, "g0", "g1")}, {Rank: 1, Node: "n1", Grant: grant(1, "g2", "g3")},
				{Rank: 2, Node: "n2", Grant: grant(2, "g0", "g1"), Exit: &messages.Exit{Kind: messages.ExitKind_EXIT_KIND_EXITED,
					AtUnixMs: now}},
				{Rank: 3, Node: "n2", Grant: grant(3, "g2", "g3"),
					Exit: &messages.Exit{Rank: 3, Kind: messages.ExitKind_EXIT_KIND_EXITED, Code: 137, Signal: 9, Oom: true,
						AtUnixMs: now}},
			},
		},
	}
}

func jobs() []*messages.JobStatus {
	waiting := &messages.JobStatus{
		Record: &messages.JobRecord{
			Id: "jcd34", SubmittedUnixMs: now - 42_000, State: messages.JobState_JOB_STATE_QUEUED,
			Owner: &messages.Principal{Name: "bob"},
			Spec: &messages.JobSpec{Name: "eval",
				Gang: &messages.GangSpec{Total: &messages.Resources{MilliCpu: 500_000, MemoryBytes: 3 << 40, MilliGpu: 64_000},
					Split: messages.Split_SPLIT_WHOLE}, Image: "host"},
			Promise: &messages.Promise{Told: &messages.Told{ToldUnixMs: now - 40_000, ExpectedMs: 3_600_000}},
		},
		Prospect: &messages.Prospect{Basis: messages.Basis_BASIS_LEARNED, AtUnixMs: now + 3_700_000, Kept: []string{"n1"}},
		Phase:    "queued",
		Reason:   "needs 64 GPUs within one zone; a/ has 56 free of 96 · n17 drained by ops | ends\tsoon",
	}
	failed := &messages.JobStatus{
		Record: &messages.JobRecord{
			Id: "jef56", SubmittedUnixMs: now - 400_000_000, FinishedUnixMs: now - 399_000_000,
			State: messages.JobState_JOB_STATE_FAILED, ExitCode: 3,
			Outcome: "rank 2 on n2 exited with code 3", Owner: &messages.Principal{Name: "bob"}, Runs: 1,
			Spec: &messages.JobSpec{Name: "part", Gang: &messages.GangSpec{ReplicasMin: 1, ReplicasMax: 1},
				Each: &messages.Resources{MilliGpu: 500}, Image: "host"},
		},
		Phase: "failed",
		Attempt: &messages.AttemptRecord{Job: "jef56", Run: 1, CommittedUnixMs: now - 399_900_000,
			StartedUnixMs: now - 399_800_000, End: &messages.End{Cause: messages.Cause_CAUSE_MEMBER_FAILED,
				Detail: "rank 2 on n2 exited with code 3", AtUnixMs: now - 399_000_000}},
	}
	held := &messages.JobStatus{
		Record: &messages.JobRecord{
			Id: "jgh78", SubmittedUnixMs: now - 3000, State: messages.JobState_JOB_STATE_QUEUED,
			Hold: &messages.Deed{By: &messages.Principal{Name: "ops"}, Reason: "waits for data", AtUnixMs: now - 1000},
			Spec: &messages.JobSpec{Name: "held", Gang: &messages.GangSpec{ReplicasMin: 2, ReplicasMax: 2},
				Each: &messages.Resources{MilliCpu: 1500}, Image: "host"},
		},
		Phase: "held",
	}
	return []*messages.JobStatus{running(), waiting, failed, held}
}

func nodes() []*messages.NodeStatus {
	announce := func(address, rack string) *messages.Announcement {
		return &messages.Announcement{
			Total: &messages.Resources{MilliCpu: 64_000, MemoryBytes: 512 << 30, MilliGpu: 2000}, Address: address,
			AgentVersion: "v1.2.0",
			Gpus: []*messages.Gpu{{Id: "g0", Type: "h100", MemoryBytes: 80 << 30},
				{Id: "g1", Type: "h100", Declared: true}},
			Place:  []*messages.Label{{Key: "zone", Value: "a"}, {Key: "rack", Value: rack}},
			Labels: []*messages.Label{{Key: "pool", Value: "a"}},
		}
	}
	total := &messages.Resources{MilliCpu: 64_000, MemoryBytes: 512 << 30, MilliGpu: 2000}
	return []*messages.NodeStatus{
		{
			Record: &messages.NodeRecord{Id: "n1", Announcement: announce("10.0.0.1", "r1"), JoinedUnixMs: now - 86_400_000},
			Phase:  "up", HeardMsAgo: 1200, Users: &messages.NodeUsers{
				Own: []string{"ann", "cy"}, OwnCount: 30, MappedCount: 1,
				Mapped: []*messages.MappedUser{{Owner: "bob", Account: "nobody", Uid: 65534}},
			},
			Ledger: &messages.LedgerReport{Total: total, Free: &messages.Resources{MilliCpu: 56_000, MemoryBytes: 448 << 30,
				MilliGpu: 500},
				Slices: []*messages.SliceReport{{Job: "jab12", State: messages.SliceState_SLICE_STATE_STARTED,
					Grants: []*messages.Grant{
						{Rank: 0, Gpus: []*messages.GpuShare{{GpuId: "g0", Milli: 1000}}},
						{Rank: 1, Gpus: []*messages.GpuShare{{GpuId: "g1", Milli: 500}}}}}}},
		},
		{
			Record: &messages.NodeRecord{Id: "n17", Announcement: announce("10.0.0.17", "r2"),
				Drained:             &messages.Deed{By: &messages.Principal{Name: "ops"}, Reason: "new firmware"},
				DrainDeadlineUnixMs: now + 3_600_000},
			Phase: "up", Closed: "drained by ops: new firmware", HeardMsAgo: 300, Users: &messages.NodeUsers{Any: true},
			Ledger: &messages.LedgerReport{Total: total, Free: total, WithdrawnGpus: []string{"g1"}},
		},
		{Record: &messages.NodeRecord{Id: "n2", Announcement: announce("10.0.0.2", "r1")}, Phase: "dead", Closed: "dead",
			HeardMsAgo: 65_000, Debts: []*messages.Token{{Epoch: 1}}},
		{Record: &messages.NodeRecord{Id: "n3"}, Phase: "unknown"},
	}
}

func events() []*messages.Event {
	return []*messages.Event{
		{Seq: 7, AtUnixMs: now, Text: "job jab12 running on n1, n2", Job: running()},
		{Seq: 8, AtUnixMs: now + 1500, Text: "node n2 dead: an attempt\nmay still be on it", Node: nodes()[2],
			Hidden: true},
		{Seq: 8, AtUnixMs: now + 2500, Text: "2 jobs wait: needs 8 GPUs", Group: 3, Reason: "needs 8 GPUs", GroupJobs: 2},
	}
}

// TestForetold checks the output of a first estimate and its error.
func TestForetold(t *testing.T) {
	const minute = 60_000
	told := &messages.Told{ToldUnixMs: now, ExpectedMs: 10 * minute, BoundMs: 12 * minute}
	const said = "~2027-01-15T08:10:00Z, no later than 2027-01-15T08:12:00Z (made 2027-01-15T08:00:00Z)"
	for committed, want := range map[int64]string{ //order: each is independent
		0:                      said,
		now + 10*minute:        said + "; committed then",
		now + 7*minute:         said + "; committed 3m earlier",
		now + 12*minute:        said + "; committed 2m later",
		now + 12*minute + 3000: said + "; committed 2m later, 3s after the latest",
	} {
		if got := foretold(told, committed); got != want {
			t.Errorf("committed at %d: %q, and not %q", committed, got, want)
		}
	}
	if got := foretold(nil, now); got != "" {
		t.Errorf("who was told nothing is shown %q", got)
	}
}

// TestLooks checks the output of all objects. `go test -rewrite` accepts the current output.
func TestLooks(t *testing.T) {
	datadriven.RunTest(t, "testdata/looks.txt", func(t *testing.T, d *datadriven.TestData) string {
		s := Style{NowMs: now}
		for _, arg := range d.CmdArgs {
			switch arg.Key {
			case "wide", "json", "yaml", "name":
				s.Format = arg.Key
			case "no-headers":
				s.NoHeaders = true
			case "parsable":
				s.Parsable = true
			case "quiet":
				s.Quiet = true
			case "colour":
				s.Colour = true
			case "width":
				width, err := strconv.Atoi(arg.Vals[0])
				if err != nil {
					t.Fatal(err)
				}
				s.Width = width
			}
		}
		var b bytes.Buffer
		var err error
		switch d.Cmd {
		case "jobs":
			err = Jobs(&b, s, jobs())
		case "job":
			err = Job(&b, s, jobs()[0])
		case "training":
			err = Jobs(&b, s, training())
		case "training-described":
			err = DescribeJob(&b, s, training()[0], nil)
		case "training-event":
			err = Event(&b, s, &messages.Event{Seq: 9, AtUnixMs: now, Job: training()[0]})
		case "nodes":
			err = Nodes(&b, s, nodes())
		case "node":
			err = Node(&b, s, nodes()[0])
		case "describe-job":
			err = DescribeJob(&b, s, jobs()[index(t, d)], nil)
		case "describe-node":
			err = DescribeNode(&b, s, nodes()[index(t, d)])
		case "events":
			for _, e := range events() {
				err = errors.Join(err, Event(&b, s, e))
			}
		case "queues":
			u := queues.NewUsage(nil)
			for _, j := range append(jobs()[:2:2], jobs()[3]) {
				u.Add(j)
			}
			err = Queues(&b, s, u.List())
		case "file":
			err = JobFile(&b, running().GetRecord().GetSpec())
		}
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(b.String(), "\x1b", "ESC")
	})
}

// TestDamagedLooks checks the output of a job with an unreadable record, which includes the reason.
func TestDamagedLooks(t *testing.T) {
	j := &messages.JobStatus{
		Record: &messages.JobRecord{Id: "j9", Owner: &messages.Principal{Name: "ann"}},
		Phase:  "damaged", Reason: "its record is damaged (…)",
	}
	for _, format := range []string{"", "wide", "json", "yaml"} {
		var b bytes.Buffer
		s := Style{NowMs: now, Format: format}
		if err := errors.Join(Job(&b, s, j), DescribeJob(&b, s, j, nil), JobWhole(&b, s, j, nil)); err != nil {
			t.Fatal(err)
		}
		if text := b.String(); !strings.Contains(text, "j9") || !strings.Contains(text, "damaged") ||
			!strings.Contains(text, j.Reason) {
			t.Errorf("%s: it looks so:\n%s", format, text)
		}
	}
}

// TestObjectsAreSubmittable checks that the spec in -o yaml equals that of a job file.
func TestObjectsAreSubmittable(t *testing.T) {
	var b bytes.Buffer
	if err := JobFile(&b, running().GetRecord().GetSpec()); err != nil {
		t.Fatal(err)
	}
	if _, err := jobfile.Parse(b.Bytes()); err != nil {
		t.Errorf("%v\n%s", err, b.String())
	}
}

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		state messages.JobState
		code  int32
		want  int
	}{
		{messages.JobState_JOB_STATE_SUCCEEDED, 0, 0}, {messages.JobState_JOB_STATE_FAILED, 137, 137},
		{messages.JobState_JOB_STATE_FAILED, 0, 1},
		{messages.JobState_JOB_STATE_FAILED, 256, 1}, {messages.JobState_JOB_STATE_CANCELLED, 0, 1},
		{messages.JobState_JOB_STATE_TIMED_OUT, 0, 6},
	} {
		if got := ExitCode(&messages.JobRecord{State: c.state, ExitCode: c.code}); got != c.want {
			t.Errorf("%v with %d ends with %d, want %d", c.state, c.code, got, c.want)
		}
	}
}

func TestWords(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{messages.Span(0), "0s"}, {messages.Span(119_000), "119s"}, {messages.Span(120_000), "2m"},
		{messages.Span(3_600_000), "1h"}, {messages.Span(7_800_000), "2h10m"},
		{messages.Span(200_000_000), "2d"},
		{messages.Span(37_800_000), "10h30m"}, {messages.Span(36_000_000), "10h"},
		{size(0), "0"}, {size(1 << 30), "1Gi"}, {size(3 << 29), "1.5Gi"}, {size(1<<40 - 1), "1Ti"},
		{size(600 << 30), "600Gi"}, {size(5), "5"}, {size(1 << 60), "1024Pi"},
		{milli(8000), "8"}, {milli(500), "0.5"}, {milli(1), "0.001"},
		{ranks([]int32{0, 1, 2, 5, 7, 8}), "0-2,5,7-8"}, {ranks(nil), ""},
		{oneLine(" a\nb\x1b[31m\u0085c"), `a\nb\u001b[31m\u0085c`}, {cut("0123456789abcdef", 12), "0123456789a…"},
		{cut("0123456789abcdef", 5), "0123…"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

// broken is a closed reader.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errBroken }

var errBroken = errors.New("broken")

func TestAFailedWriteIsTold(t *testing.T) {
	for name, err := range map[string]error{
		"jobs": Jobs(broken{}, Style{}, jobs()), "names": Jobs(broken{}, Style{Quiet: true}, jobs()),
		"json":     Nodes(broken{}, Style{Format: "json"}, nodes()),
		"describe": DescribeJob(broken{}, Style{}, running(), nil), "event": Event(broken{}, Style{}, events()[0]),
		"parsable": Jobs(broken{}, Style{Parsable: true}, jobs()),
	} {
		if !errors.Is(err, errBroken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// index returns the n=… of a test command.
func index(t *testing.T, d *datadriven.TestData) int {
	var n int
	d.ScanArgs(t, "n", &n)
	return n
}

// TestRanAndWhy checks that the run time covers all attempts, and that the text about the end is a complete
// sentence.
func TestRanAndWhy(t *testing.T) {
	const active, queued, cancelled = messages.JobState_JOB_STATE_ACTIVE, messages.JobState_JOB_STATE_QUEUED,
		messages.JobState_JOB_STATE_CANCELLED
	by := &messages.Deed{By: &messages.Principal{Name: "bob"}}
	started := func(msAgo, lasted int64) *messages.AttemptRecord {
		a := &messages.AttemptRecord{StartedUnixMs: now - msAgo}
		if lasted >= 0 {
			a.End = &messages.End{AtUnixMs: now - msAgo + lasted}
		}
		return a
	}
	for name, c := range map[string]struct {
		record   *messages.JobRecord
		attempt  *messages.AttemptRecord
		phase    string
		ran, why string
	}{
		"never ran":  {&messages.JobRecord{State: queued}, nil, "queued", "-", ""},
		"runs":       {&messages.JobRecord{State: active}, started(5000, -1), "running", "5s", ""},
		"runs again": {&messages.JobRecord{State: active, RanMs: 10_000}, started(5000, -1), "running", "15s", ""},
		"stops": {&messages.JobRecord{State: active, RanMs: 10_000}, started(5000, 2000), "stopping", "12s",
			""},
		"between attempts": {&messages.JobRecord{State: queued, RanMs: 10_000}, started(15_000, 10_000), "queued", "10s",
			""},
		"not started again": {&messages.JobRecord{State: active, RanMs: 10_000}, &messages.AttemptRecord{}, "preparing",
			"10s", ""},
		"of an earlier release": {&messages.JobRecord{State: cancelled, Outcome: "cancelled: "}, started(5000, 3000),
			"cancelled", "3s", "cancelled"},
		"cancelled": {&messages.JobRecord{State: cancelled, Outcome: "cancelled", Cancel: by, RanMs: 10_000},
			started(1000, 0), "cancelled", "10s", "cancelled by bob"},
		"with a reason": {&messages.JobRecord{State: cancelled, Outcome: "cancelled: too late", Cancel: by}, nil,
			"cancelled", "-", "cancelled: too late"},
	} {
		j := job{&messages.JobStatus{Record: c.record, Attempt: c.attempt, Phase: c.phase}, now}
		if j.ran() != c.ran || j.why() != c.why {
			t.Errorf("%s: ran %s because %q, want %s because %q", name, j.ran(), j.why(), c.ran, c.why)
		}
	}
}

// TestEndWords checks that a cause is not repeated if the detail begins with it.
func TestEndWords(t *testing.T) {
	for want, e := range map[string]*messages.End{
		"succeeded":                    {Cause: messages.Cause_CAUSE_SUCCEEDED},
		"node lost: n2 was lost":       {Cause: messages.Cause_CAUSE_MACHINE_LOST, Detail: "n2 was lost"},
		"start by: too late":           {Cause: messages.Cause_CAUSE_START_BY, Detail: "too late"},
		"requeued by alice: slow disk": {Cause: messages.Cause_CAUSE_REQUEUED, Detail: "requeued by alice: slow disk"},
	} {
		if got := endWords(e); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestCommand checks that a shell parses the printed command into the same arguments, and that control characters
// are escaped.
func TestCommand(t *testing.T) {
	for want, args := range map[string][]string{
		`train --lr=1e-3 résumé.py`:               {"train", "--lr=1e-3", "résumé.py"},
		`'a b.py' 'it'\''s' '' '$HOME'`:           {"a b.py", "it's", "", "$HOME"},
		`sh -c $'a\n\tb'`:                         {"sh", "-c", "a\n\tb"},
		`$'run\r' $'\x1b[2Jit\'s "\\"' $'\u009b'`: {"run\r", "\x1b[2Jit's \"\\\"", "\u009b"},
	} {
		if got := Command(args...); got != want {
			t.Errorf("%q is shown as %s, want %s", args, got, want)
		}
	}
}
