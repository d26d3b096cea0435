package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file compares the result of `simulate` on a real cluster's history with what happened in the cluster.

// lived returns one of 200 gangs for 128 GPUs, which arrive faster than they can run. They need a part of a node,
// several nodes, or many small tasks.
func lived(i int) *messages.JobSpec {
	draw := func(n int) int { return (i*7919 + n*104729 + i*i*31) % 1009 }
	line := fmt.Sprintf("exec sleep %d.%02d", draw(1)%2, 30+draw(2)%70)
	switch draw(3) % 10 {
	case 0:
		return unnamed(gang(8, 4, line))
	case 1, 2, 3:
		return unnamed(gang(int32(2+draw(4)%3), 8, line))
	}
	return unnamed(gang(1, float64(1+draw(4)%8), line))
}

// unnamed removes the user of a job, because nodes of `up` do not permit root.
func unnamed(spec *messages.JobSpec) *messages.JobSpec {
	spec.User = ""
	return spec
}

// TestHistoryReplays records 200 jobs on 16 nodes with `history -o json`, most of which had to wait. It replays them on
// the nodes of `get nodes -o json`. No job may be missing, and the mean wait must be within a tenth, or a second, of
// the real one. This is the only test that compares the simulated cluster with a real one. Differences in policies,
// ledgers or the barrier would appear here.
func TestHistoryReplays(t *testing.T) {
	pace.Crowd(t)
	const jobs = 200
	l := up(t, "--nodes", "16", "--racks", "2", "--gpus", "8", "--driver", "process", "--quiet")
	l.ready(16, 128, 2)
	wait := []string{"wait"}
	for i := range jobs {
		wait = append(wait, l.submit(lived(i)))
	}
	if a := l.cli(wait...); a.code != 0 {
		t.Fatalf("simulate ended with %d: %.300s", a.code, a.err)
	}

	file := func(name string, args ...string) string {
		name = filepath.Join(l.dir, name)
		if err := os.WriteFile(name, []byte(l.cli(args...).wants(t, 0, "items", "").out), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	past, machines := file("past.json", "history", "-o", "json"), file("machines.json", "get", "nodes", "-o", "json")
	defer os.Remove(past)
	defer os.Remove(machines)
	var waited int
	_, all := l.history()
	for _, j := range all {
		submitted, err := time.Parse(time.RFC3339, j.SubmittedAt)
		started, wrong := time.Parse(time.RFC3339, j.StartedAt)
		if err != nil || wrong != nil {
			t.Fatalf("%+v", j)
		}
		if started.Sub(submitted) >= time.Second {
			waited++
		}
	}
	out := l.cli("simulate", past, "--cluster", machines, "-o", "json").wants(t, 0, "wait_avg", "").out
	type waits struct {
		Jobs, Unfinished int
		WaitAvg          float64 `json:"wait_avg"`
	}
	var found struct {
		Runs []struct {
			waits
			TooBig int `json:"too_big"`
			Real   waits
		}
	}
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		t.Fatal(err)
	}
	run := found.Runs[0]
	t.Logf("%d of %d jobs waited a second or more, the mean is %.2f s, in the replay %.2f s",
		waited, len(all), run.Real.WaitAvg, run.WaitAvg)
	if waited < jobs/2 || len(all) != jobs {
		t.Errorf("of %d jobs only %d waited: too few for a test", len(all), waited)
	}
	if run.Jobs != jobs || run.Real.Jobs != jobs || run.Unfinished+run.TooBig != 0 {
		t.Errorf("the replay of %d jobs has %+v", jobs, run)
	}
	if off := math.Abs(run.WaitAvg - run.Real.WaitAvg); off > max(1, run.Real.WaitAvg/10) {
		t.Errorf("the mean wait is %.2f s, but in the replay %.2f s", run.Real.WaitAvg, run.WaitAvg)
	}
}
