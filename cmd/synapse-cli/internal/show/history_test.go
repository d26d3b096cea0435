package show

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/yi-json/synapse/messages"
)

const day = 86_400_000

// pastJobs returns finished jobs: one with two attempts, one that was killed, one that was cancelled before it
// started, and one with a part of a GPU that timed out.
func pastJobs() []*messages.PastJob {
	const (
		failed  = messages.Cause_CAUSE_MEMBER_FAILED
		success = messages.Cause_CAUSE_SUCCEEDED
	)
	token := func(counter uint64) *messages.Token { return &messages.Token{Epoch: 3, Counter: counter} }
	return []*messages.PastJob{
		{
			Id: "jab12", Name: "llama", Owner: "alice", Queue: "research", Priority: 100,
			Labels: []*messages.Label{{Key: "team", Value: "nlp"}},
			State:  messages.JobState_JOB_STATE_SUCCEEDED, SubmittedUnixMs: now - 9*3_600_000, StartedUnixMs: now - 8*3_600_000,
			FinishedUnixMs: now - 3_600_000,
			Runs:           2, Failures: 1, MilliGpuMs: 64_000 * 7 * 3_600_000, TimeLimitMs: 7_200_500,
			Gang: &messages.GangSpec{ReplicasMin: 8, ReplicasMax: 8}, Each: &messages.Resources{MilliGpu: 8000},
			Attempts: []*messages.PastAttempt{
				{Token: token(1), Run: 1, CommittedUnixMs: now - 8*3_600_000 - 5_000, StartedUnixMs: now - 8*3_600_000,
					EndedUnixMs: now - 7*3_600_000, GoneUnixMs: now - 7*3_600_000 + 1_500,
					Cause: failed, Detail: "rank 1 on n2 exited with code 3", FailedRank: 1, FailedNode: "n2", ExitCode: 3, Members: 8,
					Nodes:    []string{"n1", "n2"},
					MilliGpu: 64_000, MilliGpuMs: 64_000 * 3_600_000, PeakMemoryBytes: 9 << 30,
					Told: &messages.Told{ToldUnixMs: now - 9*3_600_000, ExpectedMs: 3_000_000, BoundMs: 4_000_000}},
				{Token: token(9), Run: 2, CommittedUnixMs: now - 7*3_600_000 + 2_000, StartedUnixMs: now - 7*3_600_000 + 3_000,
					EndedUnixMs: now - 3_600_000, GoneUnixMs: now - 3_600_000,
					Cause: success, FailedRank: -1, Members: 8, Nodes: []string{"n1", "n3"}, MilliGpu: 64_000,
					MilliGpuMs: 64_000 * 6 * 3_600_000, PeakMemoryBytes: 8 << 30},
			},
		},
		{
			Id: "jcd34", Name: "eval", Owner: "bob", State: messages.JobState_JOB_STATE_FAILED, ExitCode: 137,
			Reason:          "rank 0 on n1 ran out of memory, \"again\"",
			SubmittedUnixMs: now - day - 60_000, StartedUnixMs: now - day - 50_500, FinishedUnixMs: now - day, Runs: 1,
			Failures: 1, MilliGpuMs: 0,
			Attempts: []*messages.PastAttempt{{Token: token(2), Run: 1, CommittedUnixMs: now - day - 51_000,
				StartedUnixMs: now - day - 50_500, EndedUnixMs: now - day, GoneUnixMs: now - day,
				Cause: failed, FailedNode: "n1", ExitCode: 137, Signal: 9, Members: 1, Nodes: []string{"n1"},
				PeakMemoryBytes: 512 << 20,
				Places: []*messages.Place{{Node: "n1", Address: "10.0.0.1",
					Grant: &messages.Grant{Gpus: []*messages.GpuShare{{GpuId: "g0", Milli: 1000}}},
					Exit: &messages.Exit{Kind: messages.ExitKind_EXIT_KIND_EXITED, Code: 137, Signal: 9, Oom: true,
						AtUnixMs: now - day, PeakMemoryBytes: 512 << 20}}}}},
		},
		{
			Id: "jef56", Name: "never", Owner: "bob", Queue: "night", State: messages.JobState_JOB_STATE_CANCELLED,
			Reason:          "cancelled: wrong data",
			SubmittedUnixMs: now - day - 90_000, FinishedUnixMs: now - day - 30_000,
			Cancel: &messages.Deed{By: &messages.Principal{Name: "bob"}, AtUnixMs: now - day - 30_000, Reason: "wrong data"},
		},
		{
			Id: "jgh78", Name: "half", Owner: "carol", Queue: "night", State: messages.JobState_JOB_STATE_TIMED_OUT,
			Reason:          "the time limit of 2m",
			SubmittedUnixMs: now - 2*day - 400_000, StartedUnixMs: now - 2*day - 120_000, FinishedUnixMs: now - 2*day, Runs: 1,
			InfraRestarts: 1, MilliGpuMs: 500 * 120_000,
			Gang: &messages.GangSpec{Total: &messages.Resources{MilliGpu: 500}},
			Attempts: []*messages.PastAttempt{{Token: token(4), Run: 1, CommittedUnixMs: now - 2*day - 120_000,
				Told:          &messages.Told{ToldUnixMs: now - 2*day - 390_000, ExpectedMs: 500_500},
				StartedUnixMs: now - 2*day - 120_000, EndedUnixMs: now - 2*day,
				Cause: messages.Cause_CAUSE_TIME_LIMIT, FailedRank: -1, Members: 1, Nodes: []string{"n1"}, MilliGpu: 500,
				MilliGpuMs: 500 * 120_000}},
		},
	}
}

// TestPastLooks checks the output of finished jobs. `go test -rewrite` accepts the current output.
func TestPastLooks(t *testing.T) {
	datadriven.RunTest(t, "testdata/history.txt", func(t *testing.T, d *datadriven.TestData) string {
		s, by, jobs := Style{NowMs: now}, "", pastJobs()
		for _, arg := range d.CmdArgs {
			switch arg.Key {
			case "wide", "json", "csv", "name":
				s.Format = arg.Key
			case "no-headers":
				s.NoHeaders = true
			case "parsable":
				s.Parsable = true
			case "quiet":
				s.Quiet = true
			case "colour":
				s.Colour = true
			case "none":
				jobs = nil
			case "by":
				by = arg.Vals[0]
			}
		}
		var b bytes.Buffer
		var err error
		switch d.Cmd {
		case "list":
			h := NewHistory(&b, s)
			err = errors.Join(h.Add(jobs[:len(jobs)/2]), h.Add(jobs[len(jobs)/2:]), h.End()) // in two parts
		case "sum":
			sums := NewSums(by)
			err = errors.Join(sums.Add(jobs), sums.End(&b, s))
		}
		if err != nil {
			t.Fatal(err)
		}
		if s.Format == "json" && !json.Valid(b.Bytes()) {
			t.Errorf("no JSON: %s", b.String())
		}
		if s.Format == "csv" {
			if _, err := csv.NewReader(bytes.NewReader(b.Bytes())).ReadAll(); err != nil {
				t.Errorf("no CSV: %v", err)
			}
		}
		return strings.ReplaceAll(b.String(), "\x1b", "ESC")
	})
}

// TestPastObjectsAreADocument checks that objects that are printed one by one equal the output of document.
func TestPastObjectsAreADocument(t *testing.T) {
	var streamed, whole bytes.Buffer
	h := NewHistory(&streamed, Style{Format: "json", NowMs: now})
	if err := errors.Join(h.Add(pastJobs()), h.End()); err != nil {
		t.Fatal(err)
	}
	list := listObject{"synapse/v1", "History", nil}
	for _, j := range pastJobs() {
		list.Items = append(list.Items, pastObject(past{j, now}))
	}
	if err := document(&whole, "json", list); err != nil {
		t.Fatal(err)
	}
	if streamed.String() != whole.String() {
		t.Errorf("it is\n%s\nwant\n%s", streamed.String(), whole.String())
	}
}

// TestSumsOfWaits checks that the mean and the 95th percentile cover only jobs that started.
func TestSumsOfWaits(t *testing.T) {
	for _, c := range []struct {
		waits     []int64
		mean, p95 int64
	}{
		{nil, 0, 0}, {[]int64{7}, 7, 7}, {[]int64{30, 10, 20}, 20, 30},
		{[]int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 100}, 14, 19},
	} {
		s := NewSums("owner")
		never := &messages.PastJob{Owner: "a", SubmittedUnixMs: 1, State: messages.JobState_JOB_STATE_CANCELLED}
		jobs := []*messages.PastJob{never}
		for _, ms := range c.waits {
			jobs = append(jobs, &messages.PastJob{Owner: "a", SubmittedUnixMs: 1000, StartedUnixMs: 1000 + ms,
				State: messages.JobState_JOB_STATE_SUCCEEDED})
		}
		_ = s.Add(jobs)
		g := s.sorted()[0]
		if g.jobs != len(c.waits)+1 || g.meanMs() != c.mean || g.p95Ms() != c.p95 {
			t.Errorf("%v: %d jobs, mean %d, p95 %d; want %d and %d", c.waits, g.jobs, g.meanMs(), g.p95Ms(), c.mean, c.p95)
		}
	}
}

func TestAFailedWriteOfThePastIsTold(t *testing.T) {
	for _, s := range []Style{{}, {Format: "json"}, {Format: "csv"}, {Quiet: true}, {Parsable: true}} {
		h := NewHistory(broken{}, s)
		if err := errors.Join(h.Add(pastJobs()), h.End()); !errors.Is(err, errBroken) {
			t.Errorf("%+v: %v", s, err)
		}
		sums := NewSums("day")
		if err := errors.Join(sums.Add(pastJobs()), sums.End(broken{}, s)); !errors.Is(err, errBroken) && !s.Quiet {
			t.Errorf("sums, %+v: %v", s, err)
		}
	}
}
