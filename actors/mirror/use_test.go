package mirror

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

func uses(node topology.NodeID, attempt uint64, use *messages.Use) ProgressShown {
	return ProgressShown{Node: node, Progress: []*messages.AttemptProgress{{
		Token: &messages.Token{Epoch: 1, Counter: attempt}, Job: "train", Use: use,
	}}}
}

func useNow(m *Mirror) *messages.Use {
	return ask(m, &messages.GetJob{Job: "train"}).(*messages.GetJobReply).Job.GetUse()
}

// TestUseOfGang checks that what the nodes of a job use is added up, without other nodes and earlier attempts, and that
// the job is idle only if all of its tasks are known to be idle.
func TestUseOfGang(t *testing.T) {
	a := newAudience()
	a.says("job", JobShown{training(1)})
	a.says("rack", uses("elsewhere", 1, &messages.Use{Tasks: 1, CpuMs: 9}))
	a.says("rack", uses("a", 7, &messages.Use{Tasks: 1, CpuMs: 9}))
	if got := useNow(a.Mirror); got != nil {
		t.Fatalf("a job that was not measured uses %v", got)
	}
	one := &messages.Use{Tasks: 1, CpuMs: 1000, MilliCpu: 500, PeakMemoryBytes: 20, Gpus: 1, GpuPercent: 80, IdleMs: 7000}
	a.says("rack", uses("a", 1, one))
	if got := useNow(a.Mirror); got.GetCpuMs() != 1000 || got.IdleMs != 0 {
		t.Errorf("a job with one task of two uses %v", got)
	}
	a.says("rack", uses("b", 1, &messages.Use{Tasks: 1, CpuMs: 500, PeakMemoryBytes: 30, Gpus: 1, IdleMs: 5000}))
	got := useNow(a.Mirror)
	if got.Tasks != 2 || got.CpuMs != 1500 || got.MilliCpu != 500 || got.PeakMemoryBytes != 30 || got.IdleMs != 5000 ||
		got.GPUWords() != "40%" {
		t.Errorf("both nodes use %v", got)
	}
	if p := progressNow(a.Mirror); p != nil {
		t.Errorf("a job without steps has progress %v", p)
	}
	a.says("rack", uses("b", 1, &messages.Use{Tasks: 1, CpuMs: 600, Gpus: 1}))
	if got := useNow(a.Mirror); got.IdleMs != 0 || got.CpuMs != 1600 {
		t.Errorf("a job with a task that works uses %v", got)
	}
	if list := ask(a.Mirror, &messages.ListJobs{}).(*messages.ListJobsReply).Jobs; list[0].GetUse().GetCpuMs() != 1600 {
		t.Errorf("the list has %v", list[0].GetUse())
	}
	a.says("job", JobShown{training(2)})
	if got := useNow(a.Mirror); got != nil {
		t.Errorf("the next attempt uses %v", got)
	}
}

// TestUseWatched checks that watchers of progress receive a job whose GPU use has changed, at most once in ten seconds,
// and that the present state contains the GPU use.
func TestUseWatched(t *testing.T) {
	now := actors.Instant(1e12)
	a := newAudience()
	a.Mirror.p.Clock = moved{&now}
	a.says("job", JobShown{training(1)})
	a.says("wants", &messages.Watch{Jobs: true, Progress: true})
	a.says("wants not", &messages.Watch{Jobs: true})
	busy := func(percent int64) {
		a.says("rack", uses("a", 1, &messages.Use{Tasks: 1, Gpus: 2, GpuPercent: percent}))
	}
	busy(160)
	busy(20)
	now = now.Plus(useEvery)
	busy(160)
	now = now.Plus(useEvery)
	busy(20)
	all := a.told["wants"]
	if len(all) != 2 || all[0].Job.GetUse().GPUWords() != "80%" || all[1].Job.GetUse().GPUWords() != "10%" ||
		all[0].Text != "" {
		t.Fatalf("events are %v", all)
	}
	if len(a.told["wants not"]) > 0 {
		t.Fatalf("events without progress are %v", a.told["wants not"])
	}
	a.says("late", &messages.Watch{Jobs: true, Progress: true, Present: true})
	if all := a.told["late"]; len(all) != 2 || all[0].Job.GetUse().GPUWords() != "10%" {
		t.Fatalf("events of a late watcher are %v", all)
	}
}

// TestUnmeasuredGPUs checks that a job without GPUs causes no event when its CPU use changes.
func TestUnmeasuredGPUs(t *testing.T) {
	a := newAudience()
	a.says("job", JobShown{training(1)})
	a.says("wants", &messages.Watch{Jobs: true, Progress: true})
	a.says("rack", uses("a", 1, &messages.Use{Tasks: 1, MilliCpu: 500}))
	if len(a.told["wants"]) > 0 {
		t.Fatalf("events are %v", a.told["wants"])
	}
}

// TestIdleTold checks that a job that is idle for long is reported once, and again after it has worked. A job whose
// other task is unknown is not reported.
func TestIdleTold(t *testing.T) {
	a := newAudience()
	a.says("job", JobShown{training(1)})
	a.says("watcher", &messages.Watch{Jobs: true})
	reports := func(want int, a1, b1 int64) {
		t.Helper()
		a.says("rack", uses("a", 1, &messages.Use{Tasks: 1, IdleMs: a1}))
		a.says("rack", uses("b", 1, &messages.Use{Tasks: 1, IdleMs: b1}))
		if all := a.told["watcher"]; len(all) != want {
			t.Fatalf("%d events, want %d: %v", len(all), want, all)
		}
	}
	const long = messages.IdleAfterMs
	a.says("rack", uses("a", 1, &messages.Use{Tasks: 1, IdleMs: long}))
	reports(0, long, 0)
	reports(0, long, long-1)
	reports(1, long, long)
	reports(1, long+1, long+1)
	if text := a.told["watcher"][0].Text; !strings.Contains(text, "idle for 30m: no GPU activity and no progress") {
		t.Error(text)
	}
	reports(1, 0, 0)
	reports(2, long, long)
}

// TestIdleToldByQueue checks that the queue of a job sets after which time it is reported.
func TestIdleToldByQueue(t *testing.T) {
	a := newAudience()
	minutes, hours := int64(2*60_000), int64(2*3_600_000)
	a.says("scheduler", QueuesShown{&messages.QueuesRecord{Queues: &messages.Queues{
		Default: "eager", Queues: []*messages.QueueSpec{
			{Name: "eager", IdleAfterMs: &minutes}, {Name: "calm", IdleAfterMs: &hours},
		}}}})
	s := training(1, func(s *messages.JobStatus) { s.Record.Spec.Queue = "" })
	a.says("job", JobShown{s})
	a.says("watcher", &messages.Watch{Jobs: true})
	both := func(idleMs int64) int {
		a.says("rack", uses("a", 1, &messages.Use{Tasks: 1, IdleMs: idleMs}))
		a.says("rack", uses("b", 1, &messages.Use{Tasks: 1, IdleMs: idleMs}))
		return len(a.told["watcher"])
	}
	if n := both(minutes - 1); n != 0 {
		t.Fatalf("%d events before the time of the queue", n)
	}
	if n := both(minutes); n != 1 {
		t.Fatalf("%d events at the time of the queue", n)
	}
	both(0)
	s = proto.Clone(s).(*messages.JobStatus)
	s.Record.Spec.Queue = "calm"
	a.says("job", JobShown{s})
	before := len(a.told["watcher"])
	if n := both(hours - 1); n != before {
		t.Fatalf("%d events in the other queue, before its time", n-before)
	}
	if n := both(hours); n != before+1 {
		t.Fatalf("%d events in the other queue", n-before)
	}
}
