package replay

import (
	"testing"
	"time"

	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/sim/record"
)

// This file tests preempted jobs in a replay.

// stops replays jobs that each need the whole single node, with preemption.
func stops(t *testing.T, queues *share.Queues, checkpoint time.Duration, jobs ...record.Job) *run {
	t.Helper()
	for i := range jobs {
		jobs[i].GPUs = 8
	}
	r, err := replayed(record.Order{
		Jobs: jobs, Cluster: record.NewCluster(record.InRacks(1, 0), 8), Policy: record.Synapse, Seed: 1, Check: true,
		Preempt: true, Queues: queues, Checkpoint: checkpoint,
	}, Watch{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestStoppedGoesOn checks that a preempted job continues from its last checkpoint after one minute, within its limit.
// It waits while its work makes no progress. Work after the checkpoint is lost, and no estimate learns from it.
func TestStoppedGoesOn(t *testing.T) {
	yes, none := true, int64(0)
	byPriority := &share.Queues{Default: "q", Queues: []share.QueueSpec{
		{Name: "q", Preemption: share.Preemption{ByPriority: &yes, MinRun: &none}}}}
	const came, took = time.Hour + 5*time.Minute, 20 * time.Minute
	for name, c := range map[string]struct {
		queues     *share.Queues
		checkpoint time.Duration
		at         time.Duration // start of the other job
		lost       time.Duration
	}{
		"by priority":              {byPriority, 10 * time.Minute, came, 5 * time.Minute},
		"by priority, unsaved":     {byPriority, 0, came, came},
		"for a shorter one":        {nil, 10 * time.Minute, 2 * time.Hour, 0},
		"it would lose too much":   {nil, 3 * time.Hour, 10 * time.Hour, -1},
		"and where it never saves": {nil, 0, 10 * time.Hour, -1},
	} {
		r := stops(t, c.queues, c.checkpoint,
			record.Job{Duration: 10 * time.Hour, Limit: 10 * time.Hour, Line: 1},
			record.Job{Submit: came, Duration: took, Line: 2, Priority: 1})
		lost, wants := c.lost+time.Minute, 1
		if c.lost < 0 {
			lost, wants = 0, 0
		}
		near := func(got, want time.Duration) bool { return got >= want && got < want+5*time.Second }
		if got := r.lives[1].started; !near(got, c.at) {
			t.Errorf("%s: the other job began after %s, want %s", name, got, c.at)
		}
		first := &r.lives[0]
		if len(first.stopped) != wants || !near(first.lost, lost) || first.ended < 0 {
			t.Errorf("%s: preempted %d times, %s lost of %s", name, len(first.stopped), first.lost, lost)
		}
		if got := r.waited(0); wants > 0 && !near(got, took+lost) {
			t.Errorf("%s: the job waited %s, want %s", name, got, took+lost)
		}
		f := r.result()
		if *f.Preemptions != float64(wants) || *f.LostGPUH != 8*first.lost.Hours() {
			t.Errorf("%s: %v preemptions and %v lost GPU-hours are reported", name, *f.Preemptions, *f.LostGPUH)
		}
	}
}

// TestAllWorkIsDone checks that each job has done its work at its end, despite preemptions. Additional run time counts
// as lost, and no job is preempted more than three times.
func TestAllWorkIsDone(t *testing.T) {
	stopped := 0
	for seed := range 2 {
		jobs := workload(uint64(seed), 100)
		for i := range jobs {
			if jobs[i].Limit = 0; i%6 == 0 {
				jobs[i].Duration *= 100
			}
		}
		r, err := replayed(record.Order{Jobs: jobs, Cluster: room, Policy: record.Synapse, Seed: 1, Check: seed == 0,
			Preempt: true, Checkpoint: 10 * time.Minute}, Watch{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range r.jobs {
			l, ran := &r.lives[i], time.Duration(0)
			for _, s := range r.shiftsOf(i) {
				ran += s.to - s.from
			}
			if stopped += len(l.stopped); l.ended < 0 || ran != r.jobs[i].Duration+l.lost || len(l.stopped) > 3 {
				t.Errorf("seed %d: job %d of %s ran %s in total, and lost %s in %d preemptions", seed, i, r.jobs[i].Duration, ran,
					l.lost, len(l.stopped))
			}
		}
	}
	if stopped < 10 {
		t.Errorf("%d were stopped", stopped)
	}
}
