package launcher_test

import (
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/launcher"
)

// This file measures the cost of progress to an agent: the share of a core that its process uses while tasks report.

const (
	silentTask = `while :; do sleep 1; done`
	filingTask = `n=0; while :; do n=$((n+1)); echo "{\"step\":$n,\"total\":5000,\"loss\":2.1}" >> "$SYNAPSE_PROGRESS"; sleep 1
		done`
	postingTask = `exec python3 -c '
import json, os, time, urllib.request
token = open(os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"]).read()
n = 0
while True:
  n += 1
  body = {"trainerStatus": {"progressPercentage": 1, "metrics": [{"name": "current_step", "value": str(n)},
    {"name": "total_steps", "value": "5000"}, {"name": "loss", "value": "2.1"}]}}
  urllib.request.urlopen(urllib.request.Request(os.environ["KUBEFLOW_TRAINER_SERVER_URL"], json.dumps(body).encode(),
    {"Authorization": "Bearer " + token}))
  time.sleep(1)'`
	floodingTask = `yes '{"step":1,"total":5000,"loss":2.1}' | head -c 300000000 >> "$SYNAPSE_PROGRESS"; sleep 600`
)

// BenchmarkProgressNone, BenchmarkProgressFile and BenchmarkProgressPost run 8 tasks for ten seconds per round.
func BenchmarkProgressNone(b *testing.B) { whileTasks(b, silentTask) }
func BenchmarkProgressFile(b *testing.B) { whileTasks(b, filingTask) }
func BenchmarkProgressPost(b *testing.B) { whileTasks(b, postingTask) }

func whileTasks(b *testing.B, lines string) {
	r := newRig(b, room(b), func(o *launcher.Options) { o.Kubeflow = true })
	for rank := range int32(8) {
		r.run(rank, script(lines))
		take[*messages.TaskStarted](r, rank)
	}
	time.Sleep(2 * time.Second)
	began := cpuTime(b)
	b.ResetTimer()
	for range b.N {
		time.Sleep(10 * time.Second)
	}
	b.ReportMetric(100*(cpuTime(b)-began).Seconds()/b.Elapsed().Seconds(), "%core")
	b.StopTimer()
	for rank := range int32(8) {
		r.tell(&messages.StopTask{Id: id(rank), Signal: int32(unix.SIGKILL)})
		r.gone(rank)
	}
}

// TestProgressBesideFlood checks that while a task writes its file as fast as it can, the progress of another task
// arrives without delay, and the agent's process is idle for at least half of the time.
func TestProgressBesideFlood(t *testing.T) {
	if _, err := exec.LookPath("yes"); err != nil {
		t.Skip(err)
	}
	r := newRig(t, room(t), nil)
	flood := script(floodingTask)
	flood.Progress = &messages.ProgressSpec{Pattern: `(\d+)/(\d+)`}
	flood.DiskBytes = 512 << 20
	r.run(0, flood)
	take[*messages.TaskStarted](r, 0)
	if m := reportedBy(r, 0, 1, 0); m.Step != 1 {
		t.Fatal(m)
	}
	var before, after unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &before)
	began := time.Now()
	r.run(1, script(`echo '{"step":7}' >> "$SYNAPSE_PROGRESS"; sleep 600`))
	take[*messages.TaskStarted](r, 1)
	if m := reportedBy(r, 1, 7, 0); m.Step != 7 {
		t.Fatal(m)
	}
	if took := time.Since(began); took > soon {
		t.Errorf("it took %v", took)
	}
	_ = unix.Getrusage(unix.RUSAGE_SELF, &after)
	spent := time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
	if took := time.Since(began); spent > took/2 {
		t.Errorf("the agent was busy for %v of %v", spent, took)
	}
	for rank := range int32(2) {
		r.tell(&messages.StopTask{Id: id(rank), Signal: int32(unix.SIGKILL)})
		r.gone(rank)
	}
}
