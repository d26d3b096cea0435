package sim

import (
	"flag"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file tests that borrowed quota returns in time, with actors and nodes in addition to the planner. A victim's end
// is written first. Then the victim is stopped, has its grace, and its node confirms the exit.

var quotasBack = flag.Int("quotas-back", 60, "worlds that TestQuotaIsBack draws")

// TestQuotaIsBack lets other queues borrow the quota of an idle queue, one node per job. When this queue gets its first
// job, its quota must return in time, for jobs that fit the freed nodes. The time is the minimum runtime of the others,
// the longest grace and a minute.
func TestQuotaIsBack(t *testing.T) {
	reclaimed, yielded := 0, 0
	for seed := range uint64(*quotasBack) {
		stopped, promises := quotaIsBack(t, seed+1)
		reclaimed, yielded = reclaimed+stopped, yielded+promises
	}
	if reclaimed < 2**quotasBack || yielded < *quotasBack/10 {
		t.Errorf("%d jobs were preempted and %d start guarantees yielded: too few for a test", reclaimed,
			yielded)
	}
}

// quotaIsBack runs one world. It returns the number of stopped jobs, and the number of start guarantees that yielded.
func quotaIsBack(t *testing.T, seed uint64) (stopped, yielded int) {
	s := newSource(seed).fork("quota-back")
	machines := 4 + s.below(6)
	quota := 1 + s.below(machines-1)
	minRun := s.between(10*time.Second, 3*time.Minute).Truncate(time.Second)
	w, err := NewWorld(Options{Seed: seed, World: "small", Plain: true, Machines: machines, PerRack: 4, GPUs: []int{8}})
	if err != nil {
		t.Fatal(err)
	}
	w.RunFor(5 * time.Second)
	w.applyQueues(lentQueues(s, machines, quota, minRun))
	w.RunFor(5 * time.Second)

	longest, limited := time.Duration(0), s.chance(0.5) // guarantees then have a bound
	for range 2 * machines {
		grace := s.between(time.Second, 30*time.Second).Truncate(time.Second)
		longest = max(longest, grace)
		deaf := s.chance(0.5) // the job uses all of its grace
		spec := lentJob([]string{"a", "b"}[s.below(2)], 8, grace, deaf)
		if limited {
			spec.TimeLimitMs = s.between(time.Hour, 6*time.Hour).Milliseconds()
		}
		w.Submit(spec)
	}
	w.RunFor(s.between(time.Second, 5*time.Minute))
	if epoch := w.Epoch(); s.chance(0.3) {
		w.CrashLeader()
		if !w.StepUntil(func() bool { return w.Epoch() > epoch }, 5*time.Minute) {
			t.Fatalf("seed %d: no scheduler leads again", seed)
		}
		w.RunFor(time.Minute) // by then all nodes have reported their resources
	}

	first, began, own := w.Now(), map[topology.JobID]time.Duration{}, []*Order{}
	w.OnTask(func(h Happening) {
		if h.Began && began[h.Job] == 0 {
			began[h.Job] = w.Now() - first
		}
	})
	size := []int64{1, 2, 4, 8}[s.below(4)]
	for range 8 * int64(quota) / size {
		own = append(own, w.Submit(lentJob("idle", size, time.Second, false)))
	}
	by := minRun + longest + time.Minute
	w.RunFor(by + time.Second)
	for _, o := range own {
		if at := began[topology.JobID(o.ID())]; at == 0 || at > by {
			t.Errorf("seed %d: of %d nodes the queue has a quota of %d, and job %s of %d GPUs started after %s, not within %s",
				seed, machines, quota, o.ID(), size, at, by)
		}
	}
	for _, v := range w.Violations() {
		t.Errorf("seed %d: %v", seed, v)
	}
	count := w.Counters()
	return int(count["preemptions.reclaim"]), int(count["promises.taken-back"])
}

// lentQueues returns an idle queue with a quota, a parent with a quota, and two other queues, one of which may have a
// quota too.
func lentQueues(s *generator, machines, quota int, minRun time.Duration) *messages.Queues {
	yes, least := true, minRun.Milliseconds()
	queue := func(name, parent string, n int) *messages.QueueSpec {
		q := &messages.QueueSpec{Name: name, Parent: parent, MinRunMs: &least, Reclaim: &yes}
		if n > 0 {
			q.Quota = []*messages.Amount{{Name: "gpu", Amount: int64(8*n) * topology.WholeGPU}}
		}
		return q
	}
	return &messages.Queues{Default: "b", Queues: []*messages.QueueSpec{
		queue("group", "", quota), queue("idle", "group", quota),
		queue("a", "", s.below(machines-quota+1)), queue("b", "", 0),
	}}
}

// lentJob returns a job that runs much longer than the test.
func lentJob(queue string, gpus int64, grace time.Duration, deaf bool) *messages.JobSpec {
	run := script{run: 5 * time.Hour, rank: -1, image: 20 * time.Millisecond, deaf: deaf}
	return &messages.JobSpec{
		Name: "lent", Queue: queue, Image: "host", Command: run.command(),
		Gang:    &messages.GangSpec{ReplicasMin: 1, ReplicasMax: 1},
		Each:    &messages.Resources{MilliCpu: 1000, MemoryBytes: 1 << 30, MilliGpu: gpus * topology.WholeGPU},
		Restart: &messages.RestartSpec{}, Stop: &messages.StopSpec{GraceMs: grace.Milliseconds()},
	}
}
