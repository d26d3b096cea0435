package e2e

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	account "os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file tests the history: a restarted cluster knows its past jobs, and their accounting agrees with the attempts
// that ran.

// pastJob holds the -o json fields of a finished job.
type pastJob struct {
	ID, Name, Owner, Queue, State, Reason string
	SubmittedAt, StartedAt, FinishedAt    string
	ExitCode, AttemptCount                int
	GPUSeconds                            float64
	PeakMemoryBytes                       int64
	Attempts                              []struct {
		Number, ExitCode, Signal, Tasks int
		Cause                           string
		Nodes                           []string
		GPUs, GPUSeconds                float64
		Ranks                           []struct {
			Rank int
			Node string
			GPUs []string
			Exit struct{ Code, Signal int }
		}
	}
}

// history reads the history, and returns it by job ID.
func (c *cluster) history(more ...string) (text string, jobs map[string]pastJob) {
	c.t.Helper()
	a := c.cli(append([]string{"history", "-o", "json", "--ranks"}, more...)...).wants(c.t, 0, "items", "")
	var list struct{ Items []pastJob }
	if err := json.Unmarshal([]byte(a.out), &list); err != nil {
		c.t.Fatal(err)
	}
	jobs = map[string]pastJob{}
	for _, j := range list.Items {
		jobs[j.ID] = j
	}
	return a.out, jobs
}

// gpuSeconds returns the GPU-seconds of a job, by the attempt that it shows.
func gpuSeconds(s *messages.JobStatus) float64 {
	sum := int64(0)
	for _, p := range s.Attempt.Places {
		sum += p.Grant.Amount.MilliGpu * (p.Exit.AtUnixMs - s.Attempt.CommittedUnixMs)
	}
	return float64(sum) / 1e6
}

// settled waits until a job has finished with all exit confirmations.
func (c *cluster) settled(id, phase string) *messages.JobStatus {
	c.t.Helper()
	return c.until(id, phase+" and settled", func(s *messages.JobStatus) bool {
		for _, p := range s.GetAttempt().GetPlaces() {
			if p.Exit == nil {
				return false
			}
		}
		return s.Phase == phase
	})
}

func TestHistoryOutlivesTheCluster(t *testing.T) {
	data, err := os.MkdirTemp("", "synapse-e2e-history-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(data) })
	if err := os.Chmod(data, 0o755); err != nil { // tasks run as other users
		t.Fatal(err)
	}
	args := []string{"--nodes", "2", "--gpus", "8", "--quiet", "--data-dir", filepath.Join(data, "cluster")}
	l := up(t, args...)
	l.ready(2, 16, 1)

	shown := map[string]*messages.JobStatus{}
	// The jobs run one after the other, because the test later checks the order of their ends. Each runs for a
	// moment, because an attempt that ends before its barrier was recorded has no start.
	over := func(phase, line string, more ...string) string {
		id := l.order(line, more...)
		if phase == "cancelled" {
			l.await(id, "running")
			l.cli("cancel", id, "--reason", "enough").wants(t, 0, "", "")
		}
		shown[id] = l.settled(id, phase)
		return id
	}
	good := over("succeeded", "sleep 1", "-n", "2", "--gpus-per-task", "8", "--name", "good", "--queue", "research",
		"--label", "team=nlp")
	bad := over("failed", "sleep 0.3; exit 3", "--gpu", "1", "--name", "bad", "--queue", "night")
	killed := over("failed", "sleep 0.3; kill -SEGV $$", "--name", "killed", "--queue", "night")
	stopped := over("cancelled", "exec sleep 600", "--gpu", "2", "--name", "stopped")

	before, jobs := l.history()
	checkAccounts(t, jobs, shown)
	for id, want := range map[string]struct {
		state, queue, cause, reason string
		exit, tries, code, signal   int
		gpus                        float64
	}{
		good:    {"succeeded", "research", "succeeded", "", 0, 1, 0, 0, 16},
		bad:     {"failed", "night", "member failed", "exited with code 3", 3, 1, 3, 0, 1},
		killed:  {"failed", "night", "member failed", "signal 11", 139, 1, 139, 11, 0},
		stopped: {"cancelled", "", "cancelled", "enough", 1, 1, 0, 0, 2},
	} {
		j := jobs[id]
		if j.State != want.state || j.Queue != want.queue || j.ExitCode != want.exit || j.AttemptCount != want.tries ||
			!strings.Contains(j.Reason, want.reason) || j.Owner != ownName() {
			t.Errorf("job %s is reported as %+v, want %+v", id, j, want)
			continue
		}
		if a := j.Attempts[0]; a.Cause != want.cause || a.ExitCode != want.code || a.Signal != want.signal ||
			a.GPUs != want.gpus || len(a.Nodes) == 0 {
			t.Errorf("its attempt is reported as %+v, want %+v", a, want)
		}
	}

	_ = l.cmd.Process.Signal(syscall.SIGTERM)
	l.ends(0, 15*time.Second)
	l = upAgain(t, args...)
	l.ready(2, 16, 1)
	if after, _ := l.history(); after != before {
		t.Errorf("the history has changed from\n%s\nto\n%s", before, after)
	}
	lists := l.cli("get", "jobs", "--parsable", "--no-headers").wants(t, 0, "", "").out
	for id, s := range shown {
		if !strings.Contains(lists, id+"|"+s.Record.Spec.Name+"|"+s.Phase+"|") {
			t.Errorf("after the restart %s is not listed:\n%s", id, lists)
		}
	}
	later := l.order("exit 0", "--name", "later")
	l.settled(later, "succeeded")
	checkFilters(t, l, map[string]string{good: "good", bad: "bad", killed: "killed", stopped: "stopped", later: "later"})
	checkSums(t, l)
}

// checkAccounts compares each account with what the job showed while it was live.
func checkAccounts(t *testing.T, jobs map[string]pastJob, shown map[string]*messages.JobStatus) {
	t.Helper()
	if len(jobs) != len(shown) {
		t.Fatalf("%d jobs are reported, but %d have finished", len(jobs), len(shown))
	}
	for id, s := range shown {
		j := jobs[id]
		if want := gpuSeconds(s); j.GPUSeconds < want-0.01 || j.GPUSeconds > want+0.01 || len(j.Attempts) != 1 ||
			j.Attempts[0].GPUSeconds != j.GPUSeconds {
			t.Errorf("%s: %v GPU-seconds, want %v", j.Name, j.GPUSeconds, want)
		}
		// sixteen GPUs, for a second and the time of a start
		if j.Name == "good" && (j.GPUSeconds < 16 || j.GPUSeconds > 16*20) {
			t.Errorf("%s: %v GPU-seconds", j.Name, j.GPUSeconds)
		}
		for i, r := range j.Attempts[0].Ranks {
			p := s.Attempt.Places[i]
			if r.Node != p.Node || len(r.GPUs) != len(p.Grant.Gpus) || r.Exit.Code != int(p.Exit.Code) ||
				r.Exit.Signal != int(p.Exit.Signal) {
				t.Errorf("%s: rank %d is reported as %+v, want %v", j.Name, i, r, p)
			}
		}
		if len(j.Attempts[0].Ranks) != len(s.Attempt.Places) || j.PeakMemoryBytes == 0 || j.SubmittedAt == "" ||
			j.StartedAt == "" || j.FinishedAt < j.StartedAt {
			t.Errorf("%s: unexpected accounting: %+v", j.Name, j)
		}
	}
}

// checkFilters checks that each filter returns its jobs, newest first.
func checkFilters(t *testing.T, l *local, names map[string]string) {
	t.Helper()
	for filter, want := range map[string]string{
		"":                           "later stopped killed bad good",
		"--limit 2":                  "later stopped",
		"--state failed":             "killed bad",
		"--state failed,succeeded":   "later killed bad good",
		"--queue night --limit 1":    "killed",
		"--name good":                "good",
		"-l team=nlp":                "good",
		"--owner nobody":             "",
		"--me --since 1h":            "later stopped killed bad good",
		"--until 1h":                 "",
		"--since 2020-01-01 -l x=y":  "",
		"--until 9999-01-01 --me -q": "later stopped killed bad good",
	} {
		a := l.cli(append([]string{"history", "-q"}, strings.Fields(filter)...)...).wants(t, 0, "", "")
		var got []string
		for _, id := range strings.Fields(a.out) {
			got = append(got, names[id])
		}
		if g := strings.Join(got, " "); g != want {
			t.Errorf("%s: %q, want %q", filter, g, want)
		}
	}
}

// checkSums compares the sums with the accounts.
func checkSums(t *testing.T, l *local) {
	t.Helper()
	_, jobs := l.history()
	want := map[string]float64{}
	failed := map[string]int{}
	for _, j := range jobs {
		want[j.Queue] += j.GPUSeconds
		if j.State == "failed" {
			failed[j.Queue]++
		}
	}
	a := l.cli("history", "--sum", "queue", "-o", "csv").wants(t, 0, "queue,jobs,succeeded,failed,", "")
	rows, err := csv.NewReader(strings.NewReader(a.out)).ReadAll()
	if err != nil || len(rows) != 1+len(want) {
		t.Fatalf("%v: %s", err, a.out)
	}
	for _, row := range rows[1:] {
		gpu, err := strconv.ParseFloat(row[8], 64)
		if err != nil || gpu < want[row[0]]-0.01 || gpu > want[row[0]]+0.01 || row[3] != fmt.Sprint(failed[row[0]]) {
			t.Errorf("the sum of queue %q is %v (%v), want %v GPU-seconds and %d failed",
				row[0], row, err, want[row[0]], failed[row[0]])
		}
	}
	l.cli("history", "--sum", "owner").wants(t, 0, fmt.Sprintf("%-5s     5       2          1", ownName()), "")
	today := jobs[firstOf(jobs)].FinishedAt[:len(time.DateOnly)]
	l.cli("history", "--sum", "day", "-o", "json").wants(t, 0, `"key": "`+today+`"`, "")
}

// ownName returns the owner of jobs in a cluster of `up`: the user, or admin if the host has no name for the user.
func ownName() string {
	own, err := account.Current()
	if err != nil {
		return "admin"
	}
	return own.Username
}

func firstOf(jobs map[string]pastJob) string {
	for id := range jobs { //order: any will do
		return id
	}
	return ""
}
