package mirror

import (
	"fmt"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// moved is a clock that a test advances.
type moved struct{ now *actors.Instant }

func (c moved) Now() actors.Instant                { return *c.now }
func (moved) WallMs() int64                        { return 12 * 3600 * 1000 }
func (moved) After(time.Duration, *actor.PID, any) {}

// training returns a job that runs in its n-th attempt on the nodes a and b.
func training(n uint64, edit ...func(*messages.JobStatus)) *messages.JobStatus {
	return statusOf("train", "alice", messages.PhaseRunning, append([]func(*messages.JobStatus){
		func(s *messages.JobStatus) {
			s.Record.State = messages.JobState_JOB_STATE_ACTIVE
			s.Attempt = &messages.AttemptRecord{Token: &messages.Token{Epoch: 1, Counter: n}, Run: int32(n),
				Places: []*messages.Place{{Node: "a"}, {Rank: 1, Node: "b"}}}
		}}, edit...)...)
}

func told(node topology.NodeID, attempt uint64, least, most, total, rate int64) ProgressShown {
	return ProgressShown{Node: node, Progress: []*messages.AttemptProgress{{
		Token: &messages.Token{Epoch: 1, Counter: attempt}, Job: "train", Ranks: 1, LeastStep: least, MostStep: most,
		Total: total, MilliRate: rate, AgeMs: 2000, Metrics: []*messages.Metric{{Name: "at", Value: string(node)}},
	}}}
}

func progressNow(m *Mirror) *messages.JobProgress {
	return ask(m, &messages.GetJob{Job: "train"}).(*messages.GetJobReply).Job.GetProgress()
}

// TestProgressOfGang checks that the slowest rank of all nodes decides the percentage and the remaining time, however
// fast the others are.
func TestProgressOfGang(t *testing.T) {
	now := actors.Instant(1e12)
	a := newAudience()
	a.Mirror.p.Clock = moved{&now}
	a.says("job", JobShown{training(1)})
	if got := progressNow(a.Mirror); got != nil {
		t.Fatalf("a job that reports nothing has %v", got)
	}
	a.says("rack", told("a", 1, 600, 900, 1000, 4000))
	a.says("rack", told("b", 1, 455, 800, 1000, 500))
	now = now.Plus(3 * time.Second)
	got := progressNow(a.Mirror)
	if got.GetPercent() != 45 || got.Step != 455 || got.MostStep != 900 || got.LeftMs != 1_090_000 || got.Ranks != 2 {
		t.Fatalf("two machines make %v", got)
	}
	if got.ChangedMsAgo != 5000 || got.Metrics[0].Value != "a" {
		t.Fatalf("two machines make %v", got)
	}
	list := ask(a.Mirror, &messages.ListJobs{}).(*messages.ListJobsReply).Jobs
	if list[0].GetProgress().GetPercent() != 45 {
		t.Fatalf("the list has %v", list[0].GetProgress())
	}
}

// TestProgressOfOthers checks that a node's report is ignored if the attempt has ended or is not on the node.
func TestProgressOfOthers(t *testing.T) {
	a := newAudience()
	a.says("job", JobShown{training(2)})
	a.says("rack", told("a", 1, 1, 1, 2, 1))
	a.says("rack", told("c", 2, 1, 1, 2, 1))
	if got := progressNow(a.Mirror); got.GetRanks() != 0 {
		t.Fatalf("the progress of others is shown: %v", got)
	}
	a.says("rack", told("a", 2, 1, 1, 2, 1))
	a.says("job", JobShown{training(2)})
	if got := progressNow(a.Mirror); got.GetPercent() != 50 {
		t.Fatalf("its own progress is %v", got)
	}
	a.says("job", JobShown{training(3)})
	if got := progressNow(a.Mirror); got != nil {
		t.Fatalf("the next attempt begins with %v", got)
	}
}

// TestProgressOfEnded checks that an ended job keeps its last progress, without a remaining time.
func TestProgressOfEnded(t *testing.T) {
	a := newAudience()
	a.says("job", JobShown{training(1)})
	a.says("rack", told("a", 1, 1, 1, 2, 1000))
	a.says("job", JobShown{training(1, overAt(5), func(s *messages.JobStatus) { s.Phase = messages.PhaseFailed })})
	a.says("rack", told("a", 1, 2, 2, 2, 1000))
	if got := progressNow(a.Mirror); got.GetPercent() != 50 || got.LeftMs != 0 {
		t.Fatalf("after the end: %v", got)
	}
	if s, _ := a.jobs.get("train"); s.progress.nodes != nil {
		t.Fatal("the reports of nodes are kept after the end")
	}
}

// TestProgressWatched checks that only watchers which asked for progress receive it, at most once a second for each
// job.
func TestProgressWatched(t *testing.T) {
	now := actors.Instant(1e12)
	a := newAudience()
	a.Mirror.p.Clock = moved{&now}
	a.says("job", JobShown{training(1)})
	a.says("wants", &messages.Watch{Jobs: true, Progress: true})
	a.says("wants not", &messages.Watch{Jobs: true})
	for range 10 {
		a.says("rack", told("a", 1, 1, 1, 2, 1000))
	}
	now = now.Plus(time.Second)
	a.says("rack", told("a", 1, 2, 2, 2, 1000))
	if len(a.told["wants not"]) > 0 {
		t.Fatalf("events are %v", a.told["wants not"])
	}
	all := a.told["wants"]
	if len(all) != 2 || all[1].Job.GetProgress().GetPercent() != 100 || all[1].Text != "" {
		t.Fatalf("events are %v", all)
	}
	a.says("late", &messages.Watch{Jobs: true, Progress: true, Present: true})
	if all := a.told["late"]; len(all) != 2 || all[0].Job.GetProgress().GetPercent() != 100 {
		t.Fatalf("events of a late watcher are %v", all)
	}
}

// TestProgressedIsWhole checks that a job with progress has all other fields of its status.
func TestProgressedIsWhole(t *testing.T) {
	m := mirrorOf(func(*actors.Constants) {})
	fields := (&messages.JobStatus{}).ProtoReflect().Descriptor().Fields()
	status := training(1, func(s *messages.JobStatus) {
		s.Reason, s.ReasonCode, s.Debts, s.Tasks, s.Group, s.Withheld = "r", "c", []string{"d"}, 1, 1, true
		s.Prospect, s.Counts, s.Warned = &messages.Prospect{}, &messages.ArrayCounts{}, &messages.Warning{}
		s.Saving, s.Stall = &messages.Saving{}, &messages.Stall{}
	})
	shown := m.progressed(shownJob{JobStatus: status, progress: &gangProgress{over: &messages.JobProgress{}},
		use: &gangUse{nodes: map[topology.NodeID]*messages.Use{"a": {Tasks: 1}}}})
	for i := range fields.Len() {
		if !shown.ProtoReflect().Has(fields.Get(i)) {
			t.Errorf("%s is left out", fields.Get(i).Name())
		}
	}
}

// BenchmarkProgressShown measures one report about one of 1,000 jobs while a client watches the progress of all. Each
// report has 8 ranks. The share of a core is for one report of each job in 10 s.
func BenchmarkProgressShown(b *testing.B) {
	now := actors.Instant(1e12)
	a := newAudience()
	a.Mirror.p.Clock = moved{&now}
	var reports []ProgressShown
	for i := range 1000 {
		id := fmt.Sprintf("train-%d", i)
		a.says("job", JobShown{training(1, func(s *messages.JobStatus) { s.Record.Id = id })})
		report := told("a", 1, 1, 2, 1000, 500)
		report.Progress[0].Job, report.Progress[0].Use = id, &messages.Use{Tasks: 8, Gpus: 8, GpuPercent: 700, MilliCpu: 9000}
		for rank := range int32(8) {
			report.Progress[0].Paces = append(report.Progress[0].Paces,
				&messages.RankPace{Rank: rank, Step: 9, StepUs: 2_000_000})
		}
		reports = append(reports, report)
	}
	a.says("all", &messages.Watch{Jobs: true, Progress: true})
	for i := 0; b.Loop(); i++ {
		now = now.Plus(10 * time.Millisecond)
		a.says("rack", reports[i%1000])
		clear(a.told)
	}
	b.ReportMetric(100*b.Elapsed().Seconds()/float64(b.N)*1000/10, "%core")
}
