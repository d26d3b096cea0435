package replay

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/yi-json/synapse/sim"
	"github.com/yi-json/synapse/sim/record"
	"github.com/yi-json/synapse/sim/rival"
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

var racks = []int{3, 2, 2}

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
			r, err := replayed(record.Order{Jobs: jobs, Racks: racks, GPUs: 8, Policy: policy, Ref: true, Oracle: true, Seed: seed}, Watch{})
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
			o := record.Order{Jobs: jobs, Racks: racks, GPUs: 8, Policy: policy, Ref: ref, Oracle: true, Shake: 0.01, Check: true}
			first, err := Run(o, Watch{})
			if err != nil {
				t.Fatalf("%s: %v", policy, err)
			}
			was := runtime.GOMAXPROCS(1)
			again, err := Run(o, Watch{})
			runtime.GOMAXPROCS(was)
			if err != nil || first.Unfinished != 0 || fmt.Sprint(*first) == "" || first.TraceHash != again.TraceHash || first.WaitAvg != again.WaitAvg {
				t.Errorf("%s: %v, %+v and %+v", policy, err, first, again)
			}
		}
	}
}

// TestPromised: backfilling never lets the first in line start later than a line that nobody may pass, and starts others meanwhile.
func TestPromised(t *testing.T) {
	jobs := []record.Job{
		{Duration: 100 * time.Second, GPUs: 48},                     // leaves one machine of seven
		{Submit: time.Second, Duration: 10 * time.Second, GPUs: 56}, // waits for all
		{Submit: 2 * time.Second, Duration: 90 * time.Second, GPUs: 8},
		{Submit: 3 * time.Second, Duration: 97 * time.Second, GPUs: 4}, // would delay it, were it to start
	}
	r, err := replayed(record.Order{Jobs: jobs, Racks: racks, GPUs: 8, Policy: "easy", Ref: true, Oracle: true}, Watch{})
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
	f, err := Run(record.Order{Jobs: jobs, Racks: racks, GPUs: 8, Policy: record.Synapse}, Watch{})
	if err != nil || f.TooBig != 1 || f.Jobs != 1 || f.Unfinished != 0 || f.WaitAvg != 0 {
		t.Errorf("%v, %+v", err, f)
	}
}

// TestFigures: what is known by heart. Of two machines in two racks one is taken for 100 s; a gang of both waits for it.
func TestFigures(t *testing.T) {
	jobs := []record.Job{
		{Duration: 100 * time.Second, GPUs: 8}, {Duration: 50 * time.Second, GPUs: 16}, {Submit: 200 * time.Second, Duration: 10 * time.Second, GPUs: 4},
	}
	f, err := Run(record.Order{Jobs: jobs, Racks: []int{1, 1}, GPUs: 8, Policy: "fifo", Ref: true, Oracle: true}, Watch{})
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
	f, err := Run(record.Order{Jobs: workload(3, 100), Racks: racks, GPUs: 8, Policy: record.Synapse},
		Watch{Progress: func(ended int) bool { return ended < 10 }})
	if err != nil || f.Unfinished != 90 || f.JCTAvg == 0 {
		t.Errorf("%v, %+v", err, f)
	}
	f, err = Run(record.Order{Jobs: workload(3, 100), Racks: racks, GPUs: 8, Policy: record.Synapse, Until: 10 * time.Minute}, Watch{})
	if err != nil || f.Unfinished == 0 || f.Unfinished == 100 {
		t.Errorf("until: %v, %+v", err, f)
	}
}
