package sim

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file tests many short jobs in many queues. `go test ./sim -run TestShortJobs -v -short-jobs 50000` is the load
// of a large cluster in a minute.

var shortJobs = flag.Int("short-jobs", 400, "how many jobs TestShortJobs submits")

// TestShortJobs submits jobs of one GPU and 1 to 10 seconds within a minute. It uses one queue per 50 jobs, 100 owners,
// and one node of eight GPUs per 200 jobs. The last job must end within 1.3 times the work's duration without idle
// GPUs.
func TestShortJobs(t *testing.T) {
	const span, gpus = time.Minute, 8
	jobs := *shortJobs
	machines, names := jobs/200, max(jobs/50, 1)
	w, err := NewWorld(Options{
		Seed: 1, World: "small", Plain: true, Machines: machines, PerRack: 16, GPUs: []int{gpus}, Unchecked: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.RunFor(10 * time.Second)
	apply := &messages.ApplyQueues{Principal: anonymous, Queues: &messages.Queues{}}
	for i := range names {
		apply.Queues.Queues = append(apply.Queues.Queues, &messages.QueueSpec{Name: fmt.Sprintf("q%04d", i)})
	}
	applied := false
	w.Ask(actors.SchedulerPath, apply, func(m messages.Message) {
		r := m.(*messages.ApplyQueuesReply)
		applied = r.Outcome.GetCode() == messages.Code_CODE_OK
		if !applied {
			t.Error(r.Outcome)
		}
	})
	if !w.StepUntil(func() bool { return applied }, 10*time.Second) {
		t.Fatal("the queues were not applied")
	}
	began, ended, work := w.Now(), 0, time.Duration(0)
	w.OnTask(func(h Happening) {
		if !h.Began {
			ended++
		}
	})
	for i := range jobs {
		runs := time.Second + time.Duration(Chance(1, uint64(i))*float64(9*time.Second)).Truncate(time.Millisecond)
		work += runs
		w.At(began+span*time.Duration(i)/time.Duration(jobs), func() {
			w.SubmitAs(fmt.Sprint("u", i%100), &messages.JobSpec{
				Name: fmt.Sprint("j", i), Queue: fmt.Sprintf("q%04d", i%names), Image: "host",
				Command: script{run: runs, rank: -1, image: 20 * time.Millisecond}.command(),
				Gang:    &messages.GangSpec{ReplicasMin: 1, ReplicasMax: 1},
				Each:    &messages.Resources{MilliCpu: 1000, MemoryBytes: 1 << 30, MilliGpu: topology.WholeGPU},
				Restart: &messages.RestartSpec{}, Stop: &messages.StopSpec{GraceMs: 1000},
			}, false)
		})
	}
	clock := time.Now()
	ideal := work / time.Duration(machines*gpus)
	all := w.StepUntil(func() bool { return ended == jobs }, 3*ideal)
	took := w.Now() - began
	t.Logf("%d of %d jobs of %s in %d queues on %d GPUs ended in %s, %.3f of the work; by the clock %s, %d steps",
		ended, jobs, work.Truncate(time.Second), names, machines*gpus, took.Truncate(time.Millisecond),
		float64(took)/float64(ideal), time.Since(clock).Truncate(time.Millisecond), w.engine.steps)
	if !all || float64(took) > 1.3*float64(ideal) {
		t.Errorf("%d of %d jobs ended in %s, but the work takes %s", ended, jobs, took, ideal)
	}
}
