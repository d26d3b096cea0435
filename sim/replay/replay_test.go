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

// workload draws jobs that come faster than a small room can take them, many at one instant.
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

// plain replays without actors: ends, then arrivals, then one pass, at each instant. It is for policies of one line.
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

// TestEngine: what passes through the production actors starts when it would start without any.
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
					t.Fatalf("seed %d, %s: job %d of %d GPUs starts at %s, and not at %s", seed, policy, i, jobs[i].GPUs, got, want[i])
				}
			}
			if f := r.result(); f.Unfinished != 0 || f.WaitAvg == 0 {
				t.Errorf("seed %d, %s: %+v", seed, policy, f)
			}
		}
	}
}

// TestAllPolicies: each of them brings every job to its end under the simulator's checkers, wherever gangs go, the same
// way twice, on one processor or on several.
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

// TestPromised: backfilling never lets the first in line start later than a line that nobody may pass, and starts
// others meanwhile.
func TestPromised(t *testing.T) {
	jobs := []record.Job{
		{Duration: 100 * time.Second, GPUs: 48},                     // leaves one machine of seven
		{Submit: time.Second, Duration: 10 * time.Second, GPUs: 56}, // waits for all
		{Submit: 2 * time.Second, Duration: 90 * time.Second, GPUs: 8},
		{Submit: 3 * time.Second, Duration: 97 * time.Second, GPUs: 4}, // would delay it, were it to start
	}
	r, err := replayed(record.Order{Jobs: jobs, Cluster: room, Policy: "easy", Ref: true, Oracle: true}, Watch{})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []time.Duration{0, 100 * time.Second, 2 * time.Second, 110 * time.Second} {
		if got := r.lives[i].started; got != want {
			t.Errorf("job %d starts at %s, and not at %s", i, got, want)
		}
	}
}

// TestTooBig: a gang that no cluster of this size can hold is left out and counted, and waits for nobody.
func TestTooBig(t *testing.T) {
	jobs := []record.Job{{Duration: time.Second, GPUs: 57}, {Submit: 5 * time.Second, Duration: time.Second, GPUs: 56}}
	f, err := Run(record.Order{Jobs: jobs, Cluster: room, Policy: record.Synapse}, Watch{})
	if err != nil || f.TooBig != 1 || f.Jobs != 1 || f.Unfinished != 0 || f.WaitAvg != 0 {
		t.Errorf("%v, %+v", err, f)
	}
}

// TestFigures: what is known by heart. Of two machines in two racks one is taken for 100 s; a gang of both waits for
// it.
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
		"rack":  {*f.Rack, 1}, // it has no room in one
		"frag":  {f.Frag, 0},  // 8 are free, and it wants 16
	} {
		if math.Abs(figures[0]-figures[1]) > 1e-9 {
			t.Errorf("%s is %v, and not %v", what, figures[0], figures[1])
		}
	}
}

// TestStopped: a run that is stopped tells of what has been done.
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

// TestUntil: a run that is cut counts to its end. A gang waits for all of two machines, of which one is free.
func TestUntil(t *testing.T) {
	jobs := []record.Job{{Duration: time.Hour, GPUs: 8}, {Duration: time.Hour, GPUs: 16}}
	two := record.NewCluster([]int{2}, 8)
	f, err := Run(record.Order{Jobs: jobs, Cluster: two, Policy: record.Synapse, Until: 1000 * time.Second}, Watch{})
	if err != nil || f.Unfinished != 2 || f.IdleFit != 0 || f.Frag != 0 || f.Util != 0 {
		t.Errorf("%v, %+v", err, f)
	}
	// One of 4 that follows a gang in line: under a policy that lets nobody pass, it has a place and may not have it.
	jobs = append(jobs, record.Job{Submit: 500 * time.Second, Duration: time.Hour, GPUs: 4})
	f, err = Run(record.Order{Jobs: jobs, Cluster: two, Policy: "fifo", Until: 1000 * time.Second}, Watch{})
	if err != nil || f.IdleFit != 0.25 || f.Util != 0.5 {
		t.Errorf("%v, %+v", err, f)
	}
}

// TestShapes: tasks that are alike go wherever each has room, and a total onto whole machines, whichever machines there
// are; and one that no machines here could hold waits for nobody.
func TestShapes(t *testing.T) {
	mixed := record.Cluster{Racks: []int{2, 1}, GPUs: []int{8, 4, 4}}
	jobs := []record.Job{
		{Duration: 100 * time.Second, GPUs: 3}, // each on one of 4, where it leaves least
		{Duration: 100 * time.Second, GPUs: 3},
		// of a total no machine would hold what is left
		{Submit: time.Second, Duration: 10 * time.Second, GPUs: 10, Tasks: 10},
		{Submit: 2 * time.Second, Duration: 10 * time.Second, GPUs: 16},
		// of 5 each, and two machines have 4
		{Submit: 3 * time.Second, Duration: 10 * time.Second, GPUs: 15, Tasks: 3, Line: 9},
	}
	for _, policy := range []string{record.Synapse, record.InOrder, "fifo", "easy"} {
		r, err := replayed(record.Order{Jobs: jobs, Cluster: mixed, Policy: policy, Oracle: true, Check: true}, Watch{})
		if err != nil {
			t.Fatal(err)
		}
		third := time.Second
		if policy == record.Synapse { // it waits for a place closer together, until it is its turn whatever that is
			third = 6 * time.Second
		}
		for i, want := range []time.Duration{0, 0, third, 100 * time.Second, -1} {
			if got := r.lives[i].started; got != want {
				t.Errorf("%s: job %d starts at %s, and not at %s", policy, i, got, want)
			}
		}
		f := r.result()
		// ten tasks would have had room in one
		if fmt.Sprint(f.TooBigLines) != "[9]" || f.TooBig != 1 || f.Unfinished != 0 || *f.Rack != 0.5 {
			t.Errorf("%s: %+v", policy, f)
		}
	}
	if _, err := Run(record.Order{Jobs: jobs, Cluster: mixed, Policy: "fifo", Ref: true}, Watch{}); err == nil {
		t.Error("published simulators know no machines that differ")
	}
}

// TestStartedAnew: a job whose machines were lost and that is started again is one job, which waited once.
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
		t.Errorf("%d have ended, %d wait; %+v, and %+v before", r.ended, r.census.number, now, was)
	}
}

// TestClasses: of each size and each queue by itself, and what really was where the record says it of all.
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
	got := fmt.Sprint(f.Classes, f.Queues, *f.Real)
	want := "[{1 {1 0 99 99 99 99 109}} {2-4 {1 0 98 98 98 98 118}} {9+ {1 0 0 0 0 0 100}}]" +
		" [{a {1 0 99 99 99 99 109}} {b {2 0 49 98 98 98 109}}] {3 0 6.666666666666667 13 13 13 50}"
	if got != want {
		t.Errorf("it is %s, and not %s", got, want)
	}
}

// TestShaken: a duration is moved by the seed and the row alone, wherever else the workload is cut.
func TestShaken(t *testing.T) {
	jobs := workload(5, 50)
	o := record.Order{Jobs: jobs, Seed: 3, Shake: 0.01}
	first, again := shaken(o), shaken(o)
	o.Jobs = jobs[:20]
	fewer, moved := shaken(o), 0
	for i, j := range first {
		by := j.Duration.Seconds()/jobs[i].Duration.Seconds() - 1
		if math.Abs(by) > 0.01 || j != again[i] || i < 20 && j != fewer[i] {
			t.Fatalf("job %d is moved by %v: %v, %v", i, by, j, again[i])
		}
		if by != 0 {
			moved++
		}
	}
	if moved < 45 {
		t.Errorf("%d of 50 durations are moved", moved)
	}
}

// TestStrange: workloads that a division could stumble on are replayed by every policy.
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
			if _, err := json.Marshal(f); err != nil { // that is, no figure is no number
				t.Errorf("%s, %s: %v", name, policy, err)
			}
		}
	}
}

// TestSlow: where everything takes a while, jobs still run for as long as they did, limits or not.
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

// TestToldTimes: what the planner that looks ahead promises first is counted against what came. One gang waits for a
// job with a limit, which it keeps to.
func TestToldTimes(t *testing.T) {
	jobs := []record.Job{
		{Duration: 5000 * time.Second, Limit: 5000 * time.Second, GPUs: 48, User: "a"},
		{Submit: time.Second, Duration: 10 * time.Second, Limit: 20 * time.Second, GPUs: 56, User: "b"},
	}
	r, err := replayed(record.Order{Jobs: jobs, Cluster: room, Policy: record.Synapse, Check: true}, Watch{})
	if err != nil {
		t.Fatal(err)
	}
	// 3600 s were expected at first, and then half as much again; the limit is a second more than the trace has.
	if got := r.lives[1].started; got != 5000*time.Second {
		t.Errorf("the gang starts at %s", got)
	}
	f := r.result()
	if *f.PromiseTold != 1 || f.PromiseCover != nil || *f.PromiseErrorP50 != 1400 || *f.Slips != 0 {
		t.Errorf("told %v, cover %v, error %v, slips %v", *f.PromiseTold, f.PromiseCover, *f.PromiseErrorP50, *f.Slips)
	}
}
