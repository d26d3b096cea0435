package replay

import (
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/yi-json/synapse/sim"
	"github.com/yi-json/synapse/sim/record"
	"github.com/yi-json/synapse/sim/rival"
	"github.com/yi-json/synapse/topology"
)

// workload draws jobs that arrive faster than a small cluster can run them, many at one instant.
func workload(seed uint64, jobs int) []record.Job {
	var all []record.Job
	var at time.Duration
	for i := range jobs {
		draw := func(n uint64) float64 { return sim.Chance(seed, uint64(i)*8+n) }
		if draw(0) < 0.7 {
			at += time.Duration(draw(1)*90) * time.Second
		}
		gpus := 1 + int(draw(2)*8)
		if draw(3) < 0.3 {
			gpus = 9 + int(draw(4)*28)
		}
		all = append(all, record.Job{Submit: at, Duration: time.Duration(1+draw(5)*900) * time.Second, GPUs: gpus})
	}
	return all
}

var (
	racks = []int{3, 2, 2}
	room  = record.NewCluster(racks, 8)
)

// plain replays without actors: at each instant first ends, then arrivals, then one pass. It supports policies with one
// line.
func plain(jobs []record.Job, policy string) []time.Duration {
	room := rival.NewRoom(racks, 8)
	starts, parts := make([]time.Duration, len(jobs)), make([][]rival.Part, len(jobs))
	var waiting []int
	running := map[int]time.Duration{}
	for next, now := 0, time.Duration(0); next < len(jobs) || len(running) > 0; {
		now = math.MaxInt64
		if next < len(jobs) {
			now = jobs[next].Submit
		}
		for _, end := range running { //order: the least of them
			now = min(now, end)
		}
		for i, end := range running { //order: each by itself
			if end == now {
				room.Give(parts[i])
				delete(running, i)
			}
		}
		for ; next < len(jobs) && jobs[next].Submit == now; next++ {
			waiting = append(waiting, next)
		}
		if policy == "sjf" {
			slices.SortStableFunc(waiting, func(a, b int) int { return int(jobs[a].Duration - jobs[b].Duration) })
		}
		waiting = slices.DeleteFunc(slices.Clone(waiting), func() func(int) bool {
			blocked := false
			return func(i int) bool {
				if blocked || !room.Fits(jobs[i].GPUs) {
					blocked = blocked || policy != "greedy"
					return false
				}
				parts[i] = room.Choose(jobs[i].GPUs)
				room.Take(parts[i])
				starts[i], running[i] = now, now+jobs[i].Duration
				return true
			}
		}())
		if policy == "sjf" {
			slices.Sort(waiting)
		}
	}
	return starts
}

// TestEngine checks that jobs start through the production actors when they would start without actors.
func TestEngine(t *testing.T) {
	for seed := range uint64(3) {
		jobs := workload(seed+1, 400)
		for _, policy := range []string{"fifo", "greedy", "sjf"} {
			want := plain(jobs, policy)
			r, err := replayed(record.Order{Jobs: jobs, Cluster: room, Policy: policy, Ref: true, Oracle: true, Seed: seed},
				Watch{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range jobs {
				if got := r.lives[i].started; got != want[i] {
					t.Fatalf("seed %d, %s: job %d of %d GPUs starts at %s, want %s", seed, policy, i, jobs[i].GPUs, got, want[i])
				}
			}
			if f := r.result(); f.Unfinished != 0 || f.WaitAvg == 0 {
				t.Errorf("seed %d, %s: %+v", seed, policy, f)
			}
		}
	}
}

// TestAllPolicies checks that each policy finishes every job under the simulator's checkers. Each placement must give
// the same run twice, on one processor and on several.
func TestAllPolicies(t *testing.T) {
	jobs := workload(7, 150)
	for _, policy := range record.Policies() {
		for _, ref := range []bool{false, true} {
			o := record.Order{Jobs: jobs, Cluster: room, Policy: policy, Ref: ref, Oracle: true, Shake: 0.01, Check: true}
			first, err := Run(o, Watch{})
			if err != nil {
				t.Fatalf("%s: %v", policy, err)
			}
			was := runtime.GOMAXPROCS(1)
			again, err := Run(o, Watch{})
			runtime.GOMAXPROCS(was)
			if err != nil || first.Unfinished != 0 || fmt.Sprint(*first) == "" || first.TraceHash != again.TraceHash ||
				first.WaitAvg != again.WaitAvg {
				t.Errorf("%s: %v, %+v and %+v", policy, err, first, again)
			}
		}
	}
}

// TestPromised checks that backfilling never delays the first job compared with a strict line, and starts other jobs
// meanwhile.
func TestPromised(t *testing.T) {
	jobs := []record.Job{
		{Duration: 100 * time.Second, GPUs: 48},                     // leaves one node of seven free
		{Submit: time.Second, Duration: 10 * time.Second, GPUs: 56}, // needs all GPUs
		{Submit: 2 * time.Second, Duration: 90 * time.Second, GPUs: 8},
		{Submit: 3 * time.Second, Duration: 97 * time.Second, GPUs: 4}, // would delay that job if it started
	}
	r, err := replayed(record.Order{Jobs: jobs, Cluster: room, Policy: "easy", Ref: true, Oracle: true}, Watch{})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []time.Duration{0, 100 * time.Second, 2 * time.Second, 110 * time.Second} {
		if got := r.lives[i].started; got != want {
			t.Errorf("job %d starts at %s, want %s", i, got, want)
		}
	}
}

// TestTooBig checks that a gang that never fits on the cluster is counted and left out, and delays no other job.
func TestTooBig(t *testing.T) {
	jobs := []record.Job{{Duration: time.Second, GPUs: 57}, {Submit: 5 * time.Second, Duration: time.Second, GPUs: 56}}
	f, err := Run(record.Order{Jobs: jobs, Cluster: room, Policy: record.Synapse}, Watch{})
	if err != nil || f.TooBig != 1 || f.Jobs != 1 || f.Unfinished != 0 || f.WaitAvg != 0 {
		t.Errorf("%v, %+v", err, f)
	}
}

// TestFigures checks a run whose results are known: of two nodes in two racks one is in use for 100 s, and a gang of
// both waits.
func TestFigures(t *testing.T) {
	jobs := []record.Job{
		{Duration: 100 * time.Second, GPUs: 8}, {Duration: 50 * time.Second, GPUs: 16},
		{Submit: 200 * time.Second, Duration: 10 * time.Second, GPUs: 4},
	}
	f, err := Run(record.Order{Jobs: jobs, Cluster: record.NewCluster([]int{1, 1}, 8), Policy: "fifo", Ref: true,
		Oracle: true}, Watch{})
	if err != nil {
		t.Fatal(err)
	}
	for what, figures := range map[string][2]float64{
		"wait":  {f.WaitAvg, 100.0 / 3},
		"max":   {f.WaitMax, 100},
		"gangs": {*f.WaitMultiAvg, 100},
		"jct":   {f.JCTAvg, (100 + 150 + 10) / 3.0},
		"util":  {f.Util, (100*8 + 50*16) / (16.0 * 200)},
		"rack":  {*f.Rack, 1}, // it fits in no single rack
		"frag":  {f.Frag, 0},  // 8 are free, and it needs 16
	} {
		if math.Abs(figures[0]-figures[1]) > 1e-9 {
			t.Errorf("%s is %v, want %v", what, figures[0], figures[1])
		}
	}
}

// TestStopped checks that a run that is stopped reports its results so far.
func TestStopped(t *testing.T) {
	f, err := Run(record.Order{Jobs: workload(3, 100), Cluster: room, Policy: record.Synapse},
		Watch{Progress: func(ended int) bool { return ended < 10 }})
	if err != nil || f.Unfinished != 90 || f.JCTAvg == 0 {
		t.Errorf("%v, %+v", err, f)
	}
	f, err = Run(record.Order{Jobs: workload(3, 100), Cluster: room, Policy: record.Synapse, Until: 10 * time.Minute},
		Watch{})
	if err != nil || f.Unfinished == 0 || f.Unfinished == 100 {
		t.Errorf("until: %v, %+v", err, f)
	}
}

// TestUntil checks that a cut run counts until its end. A gang waits for all of two nodes, of which one is free.
func TestUntil(t *testing.T) {
	jobs := []record.Job{{Duration: time.Hour, GPUs: 8}, {Duration: time.Hour, GPUs: 16}}
	two := record.NewCluster([]int{2}, 8)
	f, err := Run(record.Order{Jobs: jobs, Cluster: two, Policy: record.Synapse, Until: 1000 * time.Second}, Watch{})
	if err != nil || f.Unfinished != 2 || f.IdleFit != 0 || f.Frag != 0 || f.Util != 0 {
		t.Errorf("%v, %+v", err, f)
	}
	// A job of 4 GPUs follows a gang in line. Under a policy without backfill it fits but must wait.
	jobs = append(jobs, record.Job{Submit: 500 * time.Second, Duration: time.Hour, GPUs: 4})
	f, err = Run(record.Order{Jobs: jobs, Cluster: two, Policy: "fifo", Until: 1000 * time.Second}, Watch{})
	if err != nil || f.IdleFit != 0.25 || f.Util != 0.5 {
		t.Errorf("%v, %+v", err, f)
	}
}

// TestShapes checks that equal tasks go to any nodes that fit, and a total to whole nodes of any size. A job that never
// fits delays no other job.
func TestShapes(t *testing.T) {
	mixed := record.Cluster{Racks: []int{2, 1}, GPUs: []int{8, 4, 4}}
	jobs := []record.Job{
		{Duration: 100 * time.Second, GPUs: 3}, // each on a node of 4, which leaves the fewest GPUs
		{Duration: 100 * time.Second, GPUs: 3},
		// as a total, its remainder would fit on no node
		{Submit: time.Second, Duration: 10 * time.Second, GPUs: 10, Tasks: 10},
		{Submit: 2 * time.Second, Duration: 10 * time.Second, GPUs: 16},
		// of 5 each, and two nodes have 4
		{Submit: 3 * time.Second, Duration: 10 * time.Second, GPUs: 15, Tasks: 3, Line: 9},
	}
	for _, policy := range []string{record.Synapse, record.InOrder, "fifo", "easy"} {
		r, err := replayed(record.Order{Jobs: jobs, Cluster: mixed, Policy: policy, Oracle: true, Check: true}, Watch{})
		if err != nil {
			t.Fatal(err)
		}
		third := time.Second
		if policy == record.Synapse { // it waits for a closer domain until its topology wait ends
			third = 6 * time.Second
		}
		for i, want := range []time.Duration{0, 0, third, 100 * time.Second, -1} {
			if got := r.lives[i].started; got != want {
				t.Errorf("%s: job %d starts at %s, want %s", policy, i, got, want)
			}
		}
		f := r.result()
		// ten tasks would have fit in one rack
		if fmt.Sprint(f.TooBigLines) != "[9]" || f.TooBig != 1 || f.Unfinished != 0 || *f.Rack != 0.5 {
			t.Errorf("%s: %+v", policy, f)
		}
	}
	if _, err := Run(record.Order{Jobs: jobs, Cluster: mixed, Policy: "fifo", Ref: true}, Watch{}); err == nil {
		t.Error("nodes of different sizes were accepted for a published simulator")
	}
}

// TestStartedAnew checks that a job which is restarted after its nodes were lost counts as one job, which waited once.
func TestStartedAnew(t *testing.T) {
	jobs := []record.Job{{Duration: 100 * time.Second, GPUs: 16},
		{Submit: 10 * time.Second, Duration: 5 * time.Second, GPUs: 1}}
	r, err := replayed(record.Order{Jobs: jobs, Cluster: room, Policy: record.Synapse}, Watch{})
	if err != nil {
		t.Fatal(err)
	}
	was := r.result()
	var job topology.JobID
	for id, i := range r.known { //order: one of them is it
		if i == 0 {
			job = id
		}
	}
	for machine := 1; machine <= 2; machine++ {
		again := sim.Happening{Job: job, Attempt: topology.Token{Epoch: 9, Counter: 9}, Members: 2, Machine: machine, GPUs: 8,
			Began: true, Whole: machine == 2}
		r.happened(again)
		again.Began, again.Whole = false, false
		r.happened(again)
	}
	if now := r.result(); r.ended != 2 || now.Unfinished != 0 || now.WaitAvg != was.WaitAvg || r.census.number != 0 {
		t.Errorf("%d jobs have ended, %d wait; got %+v, want %+v", r.ended, r.census.number, now, was)
	}
}

// TestClasses checks the results of each size and each queue, and the real waiting times if the record has them for all
// jobs.
func TestClasses(t *testing.T) {
	jobs := []record.Job{
		{Duration: 100 * time.Second, GPUs: 56, Queue: "b", HasWaited: true, Waited: 7 * time.Second},
		{Submit: time.Second, Duration: 10 * time.Second, GPUs: 1, Queue: "a", HasWaited: true, Waited: 13 * time.Second},
		{Submit: 2 * time.Second, Duration: 20 * time.Second, GPUs: 4, Queue: "b", HasWaited: true},
	}
	f, err := Run(record.Order{Jobs: jobs, Cluster: room, Policy: record.Synapse}, Watch{})
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, c := range f.Classes {
		got += c.GPUs + shortly(c.Waits)
	}
	for _, q := range f.Queues {
		got += q.Queue + shortly(q.Waits)
	}
	got += "real" + shortly(*f.Real)
	want := "1: 1 0 99 99 99 99 109 0.182 0.182; 2-4: 1 0 98 98 98 98 118 0.197 0.197; " +
		"9+: 1 0 0 0 0 0 100 0.167 0.167; multi-node: 1 0 0 0 0 0 100 0.167 0.167; " +
		"a: 1 0 99 99 99 99 109 0.182 0.182; b: 2 0 49 98 98 98 109 0.182 0.197; " +
		"real: 3 0 6.67 13 13 13 50 0.0833 0.178; "
	if got != want {
		t.Errorf("it is\n%s, and not\n%s", got, want)
	}
}

// shortly formats the results of a class with three digits.
func shortly(w record.Waits) string {
	return fmt.Sprintf(": %d %d %.3g %.3g %.3g %.3g %.3g %.3g %.3g; ", w.Jobs, w.Unfinished,
		w.WaitAvg, w.WaitP95, w.WaitP99, w.WaitMax, w.JCTAvg, w.SlowdownAvg, w.SlowdownP95)
}

// TestSlowdown checks that the slowdown of a job counts its wait, and that a job shorter than ten minutes is divided by
// ten minutes.
func TestSlowdown(t *testing.T) {
	long, short := &tally{}, &tally{}
	long.add(3600, 1200, true)
	short.add(600, 0, true)
	if l, s := long.figures().SlowdownAvg, short.figures().SlowdownP95; l != 4 || s != 1 {
		t.Errorf("the slowdowns are %g and %g", l, s)
	}
}

// TestShaken checks that the jitter of a duration depends only on the seed and the row, and not on the cut.
func TestShaken(t *testing.T) {
	jobs := workload(5, 50)
	o := record.Order{Jobs: jobs, Seed: 3, Shake: 0.01}
	first, again := shaken(o), shaken(o)
	o.Jobs = jobs[:20]
	fewer, moved := shaken(o), 0
	for i, j := range first {
		by := j.Duration.Seconds()/jobs[i].Duration.Seconds() - 1
		if math.Abs(by) > 0.01 || j != again[i] || i < 20 && j != fewer[i] {
			t.Fatalf("job %d is jittered by %v: %v, %v", i, by, j, again[i])
		}
		if by != 0 {
			moved++
		}
	}
	if moved < 45 {
		t.Errorf("%d of 50 durations are jittered", moved)
	}
}

// TestStrange checks that every policy replays workloads that could cause a division by zero.
func TestStrange(t *testing.T) {
	same := func(n int, j record.Job) (all []record.Job) {
		for range n {
			all = append(all, j)
		}
		return all
	}
	for name, jobs := range map[string][]record.Job{ //order: each by itself
		"all at once": same(40, record.Job{Duration: time.Minute, GPUs: 3}),
		"only gangs":  same(10, record.Job{Duration: time.Minute, GPUs: 20}),
		"one":         same(1, record.Job{Duration: time.Minute, GPUs: 1}), "none": nil,
		"too big": same(3, record.Job{Duration: time.Minute, GPUs: 57}),
		"short":   same(20, record.Job{Duration: time.Nanosecond, GPUs: 56}),
		"late":    {{Submit: 100 * 24 * time.Hour, Duration: time.Second, GPUs: 1}},
	} {
		for _, policy := range record.Policies() {
			f, err := Run(record.Order{Jobs: jobs, Cluster: room, Policy: policy, Shake: 0.5, Oracle: true}, Watch{})
			if err != nil || f.Unfinished != 0 || f.Jobs+f.TooBig != len(jobs) {
				t.Fatalf("%s, %s: %v, %+v", name, policy, err, f)
			}
			if _, err := json.Marshal(f); err != nil { // this fails for infinite or undefined results
				t.Errorf("%s, %s: %v", name, policy, err)
			}
		}
	}
}

// TestSlow checks that jobs keep their run times if every step takes time, with and without limits.
func TestSlow(t *testing.T) {
	jobs := workload(9, 60)
	for i := range jobs {
		jobs[i].Limit = jobs[i].Duration
	}
	f, err := Run(record.Order{Jobs: jobs, Cluster: room, Policy: record.Synapse, Latency: 2 * time.Second, Shake: 0.05},
		Watch{})
	if err != nil || f.Unfinished != 0 {
		t.Errorf("%v, %+v", err, f)
	}
}

// TestToldTimes compares the first start estimates with the actual starts. One gang waits for a job with a limit.
func TestToldTimes(t *testing.T) {
	jobs := []record.Job{
		{Duration: 5000 * time.Second, Limit: 5000 * time.Second, GPUs: 48, User: "a"},
		{Submit: time.Second, Duration: 10 * time.Second, Limit: 20 * time.Second, GPUs: 56, User: "b"},
	}
	r, err := replayed(record.Order{Jobs: jobs, Cluster: room, Policy: record.Synapse, Check: true}, Watch{})
	if err != nil {
		t.Fatal(err)
	}
	// 3600 s were estimated at first, and then half as much again. The limit is a second longer than the run time.
	if got := r.lives[1].started; got != 5000*time.Second {
		t.Errorf("the gang starts at %s", got)
	}
	f := r.result()
	if *f.PromiseTold != 1 || f.PromiseCover != nil || *f.PromiseErrorP50 != 1400 || *f.Slips != 0 {
		t.Errorf("told %v, cover %v, error %v, overruns %v", *f.PromiseTold, f.PromiseCover, *f.PromiseErrorP50, *f.Slips)
	}
}
