package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file tests the commands that kubectl's users type.

// TestSeveralKinds checks that `get` lists several kinds in the order of the command line.
func TestSeveralKinds(t *testing.T) {
	f := startFake(t)
	f.put(job("jaa1", "queued", messages.JobState_JOB_STATE_QUEUED))
	f.nodes = []*messages.NodeStatus{machine("n1"), machine("n2")}
	r := cli(f.address, "get", "nodes,job")
	r.wants(t, 0, "\n\nJOB ", "")
	if !strings.HasPrefix(r.out, "NODE ") || !strings.Contains(r.out, "jaa1") {
		t.Errorf("%s", r.out)
	}
	cli(f.address, "get", "jobs,nodes", "-q").wants(t, 0, "jaa1\nn1\nn2\n", "")
	cli(f.address, "get", "jobs,nodes", "-o", "yaml").wants(t, 0, "---\n", "")
	cli(f.address, "get", "jobs,nodes", "-l", "pool=b", "-q").wants(t, 0, "", "")
	cli(f.address, "get", "jobs,queues", "-l", "pool=b").wants(t, exit.Misuse, "", "queues have no labels")
	cli(f.address, "get", "events").wants(t, 0, "job jaa1 queued", "")
}

// TestTopLists checks the tables of `top nodes` and `top jobs`.
func TestTopLists(t *testing.T) {
	f := startFake(t)
	busy, idle := machine("n2"), machine("n1")
	for _, n := range []*messages.NodeStatus{busy, idle} {
		whole := &messages.Resources{MilliGpu: 8000}
		n.Ledger = &messages.LedgerReport{Total: whole, Free: &messages.Resources{MilliGpu: 8000}}
	}
	busy.Ledger.Free.MilliGpu = 2000
	f.nodes = []*messages.NodeStatus{idle, busy}
	f.put(job("jaa1", "queued", messages.JobState_JOB_STATE_QUEUED))
	f.put(job("jbb1", "running", messages.JobState_JOB_STATE_ACTIVE))
	f.put(job("jcc1", "succeeded", messages.JobState_JOB_STATE_SUCCEEDED))
	r := cli(f.address, "top", "nodes", "--no-headers")
	if r.code != 0 || !strings.HasPrefix(r.out, "n2 ") || !strings.Contains(r.out, "6/8") {
		t.Errorf("%d: %s%s", r.code, r.out, r.err)
	}
	r = cli(f.address, "top", "jobs", "--no-headers")
	if r.code != 0 || !strings.HasPrefix(r.out, "jbb1 ") || strings.Contains(r.out, "jcc1") {
		t.Errorf("%d: %s%s", r.code, r.out, r.err)
	}
	cli(f.address, "top", "jobs", "-l", "team=x").wants(t, 0, "", "no unfinished jobs")
}

// TestWaitFor checks the conditions of `wait --for`, and that a condition which cannot become true ends the wait.
func TestWaitFor(t *testing.T) {
	f := startFake(t)
	f.put(job("jaa1", "queued", messages.JobState_JOB_STATE_QUEUED))
	f.finish("jok1", "succeeded", messages.JobState_JOB_STATE_SUCCEEDED, 0, "")
	f.finish("jno1", "failed", messages.JobState_JOB_STATE_FAILED, 7, "rank 0 exited with code 7")
	for line, want := range map[string]result{
		"--for=condition=Complete jok1":                         {0, "Job jok1 is complete\n", ""},
		"--for=condition=failed=true jno1":                      {0, "Job jno1 is failed\n", ""},
		"--for=condition=complete jno1":                         {7, "", "cannot become true"},
		"--for=phase=running jok1":                              {1, "", "cannot become true"},
		"--for=delete jok1 jno1":                                {0, "Job jok1 is ended\nJob jno1 is ended\n", ""},
		"--for=jsonpath={.status.phase}=failed jno1":            {0, "Job jno1 is", ""},
		"--for=jsonpath={.metadata.id} jno1":                    {0, "Job jno1 is", ""},
		"--for=condition=running --timeout 50ms jaa1":           {exit.TimedOut, "", "did not become running in time"},
		"--for=condition=running --timeout 20s jaa1 jxx":        {exit.NotFound, "", `unknown job "jxx"`},
		"--for=jsonpath={.status.phase}=x --timeout 50ms jaa1":  {exit.TimedOut, "", "in time"},
		"--for=condition=complete=false jok1":                   {exit.Misuse, "", "only the value true"},
		"--for=jsonpath={.status[}=x jok1":                      {exit.Misuse, "", "hint: write --for"},
		"--for=condition=complete --timeout 20s -q jok1 -o bad": {exit.Misuse, "", "unknown shorthand flag"},
	} {
		cli(f.address, append([]string{"wait"}, strings.Fields(line)...)...).wants(t, want.code, want.out, want.err)
	}
	done := make(chan result)
	go func() { done <- cli(f.address, "wait", "--for=condition=running", "jaa1") }()
	await(t, "the wait", func() bool {
		for _, w := range told[*messages.Watch](f) {
			if len(w.GetIds()) == 1 && w.GetIds()[0] == "jaa1" {
				return true
			}
		}
		return false
	})
	f.put(job("jaa1", "running", messages.JobState_JOB_STATE_ACTIVE))
	select {
	case r := <-done:
		r.wants(t, 0, "Job jaa1 is running\n", "")
	case <-time.After(20 * time.Second):
		t.Fatal("the wait did not end")
	}
}

// TestErrorsOfFlagsAsJSON checks that a wrong flag before -o json also gives an error object.
func TestErrorsOfFlagsAsJSON(t *testing.T) {
	for _, line := range []string{"get jobs --bogus -o json", "get jobs --bogus --output=json", "--bogus get jobs -ojson",
		"submit --gpuss 8 -o json -- true", "get bogus -o json"} {
		r := cli("127.0.0.1:1", strings.Fields(line)...)
		if r.code != exit.Misuse || !strings.HasPrefix(r.err, "{") || !strings.Contains(r.err, `"exitCode": 2`) {
			t.Errorf("%s: %d %s", line, r.code, r.err)
		}
	}
	cli("127.0.0.1:1", "submit", "--gpuss", "8", "--", "x", "-o", "json").wants(t, exit.Misuse, "", "synapse-cli: unknown")
}

// fileOf writes a file for a test.
func fileOf(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestApplyJob checks that `apply` submits a new job, leaves an equal one, updates what can be updated, and refuses
// the rest before it changes anything.
func TestApplyJob(t *testing.T) {
	f := startFake(t)
	text := strings.Replace(jobYAML, "spec: {", "spec: {timeLimit: 1h, ", 1)
	file := fileOf(t, "job.yaml", text)
	cli(f.address, "apply", "-f", file).wants(t, 0, "Job jnew1 submitted: filed", "")
	cli(f.address, "apply", "-f", file).wants(t, 0, "Job jnew1 unchanged: filed\n", "")
	longer := fileOf(t, "job.yaml", strings.Replace(text, "1h", "2h, priority: 3", 1))
	cli(f.address, "apply", "-f", longer, "--dry-run").wants(t, 0, "would be updated: priority, timeLimit\n", "")
	if sent := told[*messages.Update](f); len(sent) > 0 {
		t.Errorf("a dry run changes the job: %v", sent)
	}
	cli(f.address, "apply", "-f", longer).wants(t, 0, "Job jnew1 has priority 3 and time limit 2h\n", "")
	two := fileOf(t, "two.yaml", longerText(text)+"---\n"+strings.Replace(text, "gpu: 2", "gpu: 4", 1))
	cli(f.address, "apply", "-f", two).wants(t, exit.Conflict, "",
		"job filed (jnew1) cannot be changed to the file: spec.resources.gpu differs\nhint: run `synapse-cli cancel jnew1`")
	if sent := told[*messages.Submit](f); len(sent) != 1 {
		t.Errorf("%d jobs are submitted", len(sent))
	}
	cli(f.address, "apply", "-f", fileOf(t, "bad.yaml", strings.Replace(text, "gpu: 2", "gpus: 2", 1))).wants(t,
		exit.Misuse, "", `spec.resources.gpus: is not a key of a job file; did you mean "gpu"?`)
	f.finish("jnew1", "succeeded", messages.JobState_JOB_STATE_SUCCEEDED, 0, "")
	cli(f.address, "apply", "-f", file).wants(t, 0, "Job jnew1 submitted: filed", "")
}

func longerText(text string) string { return strings.Replace(text, "name: filed", "name: other", 1) }

// TestDeleteFile checks that `delete -f` cancels the caller's unfinished jobs with the names of the file.
func TestDeleteFile(t *testing.T) {
	f := startFake(t)
	file := fileOf(t, "job.yaml", jobYAML)
	cli(f.address, "delete", "-f", file).wants(t, exit.NotFound, "", "no unfinished job of anonymous has the name filed")
	live := job("jaa1", "running", messages.JobState_JOB_STATE_ACTIVE)
	live.Record.Spec.Name = "filed"
	f.put(live)
	f.put(job("jbb1", "running", messages.JobState_JOB_STATE_ACTIVE))
	cli(f.address, "delete", "-f", file).wants(t, 0, "Job jaa1 is being cancelled\n", "")
	cli(f.address, "delete", "-f", file, "jbb1").wants(t, exit.Misuse, "", "-f cannot be combined")
	if sent := told[*messages.Cancel](f); len(sent) != 1 {
		t.Errorf("%v", sent)
	}
}

// TestLogsPrefix checks that --prefix labels the lines of a job with one rank too.
func TestLogsPrefix(t *testing.T) {
	f := startFake(t)
	f.put(job("jaa1", "running", messages.JobState_JOB_STATE_ACTIVE))
	f.logs = partsOf("one\ntwo\n")
	cli(f.address, "logs", "jaa1", "--prefix").wants(t, 0, "[n-jaa1/0] one\n[n-jaa1/0] two\n", "")
	cli(f.address, "logs", "jaa1").wants(t, 0, "one\ntwo\n", "")
}

// TestSuggestionsAreQuoted checks that a suggested command passes a word with spaces to a shell as one argument.
func TestSuggestionsAreQuoted(t *testing.T) {
	cli("127.0.0.1:1", "describe", "my job; ls").wants(t, exit.Misuse, "", "`synapse-cli describe job 'my job; ls'`")
	cli("127.0.0.1:1", "submit", "python train.py", "b").wants(t, exit.Misuse, "", "`-- 'python train.py' b`")
}

// TestLogsTimes checks --timestamps and --since: each line has the last time at or before its first byte, a line that
// arrives in two parts has the time of its start, and a later attempt has its own times.
func TestLogsTimes(t *testing.T) {
	f := startFake(t)
	f.put(job("jaa1", "running", messages.JobState_JOB_STATE_ACTIVE))
	now := time.Now().UnixMilli()
	at := func(offset, agoMs int64) *messages.LogTime {
		return &messages.LogTime{Offset: offset, UnixMs: now - agoMs}
	}
	stamp := func(agoMs int64) string { return time.UnixMilli(now-agoMs).UTC().Format(time.RFC3339) + " " }
	hour := time.Hour.Milliseconds()
	first, second := &messages.Token{Epoch: 1}, &messages.Token{Epoch: 2}
	f.logs = []*api.LogPart{
		{Data: []byte("one\ntwo\nthr"), Offset: 11, Attempt: first, Times: []*messages.LogTime{at(0, 3*hour), at(4, 2*hour)}},
		{Data: []byte("ee\nfour\n"), Offset: 19, Attempt: first, Times: []*messages.LogTime{at(4, 2*hour), at(11, hour)}},
		{Data: []byte("again\n"), Offset: 6, Attempt: second, Times: []*messages.LogTime{at(0, 1000)}},
		{Data: []byte("unknown\n"), Offset: 8, Stderr: true, Attempt: second},
	}
	cli(f.address, "logs", "jaa1", "--timestamps").wants(t, 0, stamp(3*hour)+"one\n"+stamp(2*hour)+"two\n"+stamp(2*hour)+
		"three\n"+stamp(hour)+"four\n"+stamp(1000)+"again\n-                    unknown\n", "")
	for since, want := range map[string]string{
		"90m": "four\nagain\nunknown\n", "150m": "two\nthree\nfour\nagain\nunknown\n", "1m": "again\nunknown\n",
	} {
		if r := cli(f.address, "logs", "jaa1", "--since", since); r.code != 0 || r.out != want {
			t.Errorf("--since %s: %d %q, want %q", since, r.code, r.out, want)
		}
	}
	cli(f.address, "logs", "jaa1", "--timestamps", "--prefix", "--since", "1m").wants(t, 0,
		"[n-jaa1/0] "+stamp(1000)+"again\n", "")
	cli(f.address, "logs", "jaa1", "--since", "soon").wants(t, exit.Misuse, "", "--since \"soon\": not a time")
	if sent := told[*api.ReadLogs](f); !sent[0].GetTimes() {
		t.Error("no times are requested")
	}
}
