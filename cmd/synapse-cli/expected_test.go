package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file tests words that users know from Slurm and kubectl.

func labelled(id, name, phase string, state messages.JobState, labels ...string) *messages.JobStatus {
	j := job(id, phase, state)
	j.Record.Spec.Name, j.Record.Spec.Labels = name, nil
	for i := 0; i+1 < len(labels); i += 2 {
		j.Record.Spec.Labels = append(j.Record.Spec.Labels, &messages.Label{Key: labels[i], Value: labels[i+1]})
	}
	return j
}

// TestWordsThatPeopleExpect checks that jobs can be selected by name and label in every command, and checks --tail,
// ranges of ranks, and files with several documents.
func TestWordsThatPeopleExpect(t *testing.T) {
	f := startFake(t)
	const live, over = messages.JobState_JOB_STATE_ACTIVE, messages.JobState_JOB_STATE_SUCCEEDED
	f.jobs = []*messages.JobStatus{
		labelled("j1", "train", "succeeded", over, "team", "nlp"),
		labelled("j2", "train", "running", live, "team", "nlp", "tier", "a"),
		labelled("j3", "eval", "running", live, "team", "cv"),
		labelled("j4", "eval", "queued", messages.JobState_JOB_STATE_QUEUED), labelled("j5", "old", "succeeded", over),
	}
	cli(f.address, "describe", "job", "train").wants(t, 0, "j2", "")
	cli(f.address, "get", "job", "old", "-q").wants(t, 0, "j5\n", "")
	cli(f.address, "explain", "train").wants(t, 0, "j2 is queued: needs 64 GPUs", "")
	cli(f.address, "cancel", "eval").wants(t, exit.Conflict, "",
		"2 unfinished jobs have the name \"eval\": j3, j4\nhint: give an ID")
	cli(f.address, "cancel", "none").wants(t, exit.NotFound, "", "unknown job \"none\"")
	for _, c := range []struct{ selector, want string }{
		{"team", "j1 j2 j3"}, {"team=nlp", "j1 j2"}, {"team==nlp", "j1 j2"}, {"team!=nlp", "j3 j4 j5"}, {"team,tier=a", "j2"},
		{"team=nlp,tier!=a", "j1"},
	} {
		r := cli(f.address, "get", "jobs", "-q", "-l", c.selector)
		if got := strings.Join(strings.Fields(r.out), " "); r.code != 0 || got != c.want {
			t.Errorf("-l %s: %s, want %s (%s)", c.selector, got, c.want, r.err)
		}
	}
	cli(f.address, "hold", "-l", "team!=nlp").wants(t, 0, "Job j3 held\nJob j4 held\n", "")
	cli(f.address, "delete", "train").wants(t, 0, "Job j2 is being cancelled\n", "")
	cli(f.address, "delete", "job", "train").wants(t, 0, "Job j2 is being cancelled\n", "")
	cli(f.address, "get", "job", "job/train", "-q").wants(t, 0, "j2\n", "")
	cli(f.address, "logs", "--tail", "5", "--rank", "0-2,7", "train").wants(t, 0, "", "")
	cli(f.address, "logs", "--tail-bytes", "64Ki", "train").wants(t, 0, "", "")
	asked := told[*api.ReadLogs](f)
	if q := asked[0]; q.GetTailLines() != 5 || fmt.Sprint(q.GetRanks()) != "[0 1 2 7]" || q.GetTailBytes() != 0 {
		t.Errorf("asked for %v", q)
	}
	if q := asked[1]; q.GetTailBytes() != 64<<10 || q.GetTailLines() != 0 {
		t.Errorf("asked for %v", q)
	}
	cli(f.address, "logs", "--tail", "64Ki", "train").wants(t, exit.Misuse, "",
		"--tail \"64Ki\": must be a number of lines\nhint: use --tail for a number of lines, --tail-bytes for a size")
	cli(f.address, "logs", "--rank", "3-1", "train").wants(t, exit.Misuse, "",
		"--rank: \"3-1\" is not a rank or a range of ranks")
	two := jobYAML + "---\n" + strings.Replace(jobYAML, "filed", "second", 1)
	cliWith(f.address, two, nil, "submit", "-").wants(t, 0,
		"submitted: filed, 1 task of 2 GPUs\nJob jnew1 submitted: second", "")
	cliWith(f.address, two, nil, "submit", "-", "--request-id", "r").wants(t, exit.Misuse,
		"", "require a file with one job, got 2")
	before := len(told[*messages.Submit](f))
	file := filepath.Join(t.TempDir(), "jobs.yaml")
	if err := os.WriteFile(file, []byte(two+"---\nkind: Jbo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cli(f.address, "submit", "-f", file).wants(t, exit.Misuse, "", "jobs.yaml:11:7: kind: \"Jbo\" is not a supported kind")
	if len(told[*messages.Submit](f)) != before {
		t.Error("the first was submitted before the last was looked at")
	}
}

// TestSlurmsAndKubectlsSpellings checks that spellings of Slurm and kubectl with the same meaning are accepted.
func TestSlurmsAndKubectlsSpellings(t *testing.T) {
	f := startFake(t)
	cli(f.address, "submit", "-n", "4", "-c", "2", "-t", "1-12:00:00", "--image", "/i", "-q").wants(t, 0, "jnew1\n", "")
	cli(f.address, "submit", "--gpus", "16", "-t", "90m", "--image", "/i", "-q").wants(t, 0, "jnew1\n", "")
	cli(f.address, "submit", "-c", "2", "--image", "/i", "-q").wants(t, 0, "jnew1\n", "")
	sent := told[*messages.Submit](f)
	if s := sent[0].GetSpec(); s.GetEach().GetMilliCpu() != 2000 || s.GetGang().GetReplicasMin() != 4 ||
		s.GetTimeLimitMs() != 36*3_600_000 {
		t.Errorf("%v", s)
	}
	if s := sent[1].GetSpec(); s.GetGang().GetTotal().GetMilliGpu() != 16_000 || s.GetTimeLimitMs() != 90*60_000 {
		t.Errorf("%v", s)
	}
	if s := sent[2].GetSpec(); s.GetEach().GetMilliCpu() != 2000 || s.GetGang().GetReplicasMin() != 1 {
		t.Errorf("%v", s)
	}
	cli(f.address, "submit", "-N", "2", "--gpus", "16", "-c", "4", "--image", "/i", "-q").wants(t, 0, "jnew1\n", "")
	if s := told[*messages.Submit](f)[3].GetSpec(); s.GetEach().GetMilliGpu() != 8000 ||
		s.GetEach().GetMilliCpu() != 4000 || s.GetGang().GetReplicasMin() != 2 {
		t.Errorf("%v", s)
	}
	for line, words := range map[string]string{
		"-n 2 --gpus 7":   "--gpus 7: not divisible by 2 tasks",
		"-n 2 --gpus 0.5": `--gpus "0.5": must be a whole number of GPUs`,
		"-n 0 --gpus 8":   "--replicas", "--gpus 8 -c 4": "--gpus (a total)",
		"-n 2 --gpus 8 --gpu 4": "--gpus (a total)",
	} {
		cli(f.address, append([]string{"submit", "--image", "/i"}, strings.Fields(line)...)...).wants(t, exit.Misuse,
			"", words)
	}
	cli(f.address, "submit", "-t", "60", "-c", "1", "--image", "/i").wants(t, exit.Misuse, "",
		"write 60s, or 60m for minutes")
	cli(f.address, "submit", "-c", "1", "--mem", "10G", "--image", "/i").wants(t, exit.Misuse, "", "did you mean 10Gi?")
}

// TestFlagsForWhatOnlyFilesHad checks that most keys of a job file have a flag. -o prints a description, an
// explanation and a version as an object, and a printed job can be submitted.
func TestFlagsForWhatOnlyFilesHad(t *testing.T) {
	f := startFake(t)
	cli(f.address, "submit", "--gpu", "1", "-n", "1", "--mem", "8Gi", "--image", "/i", "--shm", "1Gi", "--stop-signal",
		"INT", "--grace", "2m", "--preferred", "rack", "--patience", "5m",
		"--restarts", "2", "--backoff", "30s", "-q").wants(t, 0, "jnew1\n", "")
	s := told[*messages.Submit](f)[0].GetSpec()
	if s.GetShmBytes() != 1<<30 || s.GetStop().GetSignal() != 2 || s.GetStop().GetGraceMs() != 120_000 ||
		s.GetTopology().GetPatienceMs() != 300_000 || s.GetRestart().GetBackoffMs() != 30_000 {
		t.Errorf("%v", s)
	}
	for args, want := range map[string]string{
		"--stop-signal SIGTRM": "--stop-signal: \"SIGTRM\" is not a signal",
		"--grace 5":            "--grace: \"5\" is not a duration",
		"--patience 5m":        "--patience: requires --preferred",
	} {
		cli(f.address, append([]string{"submit", "--cpu", "1", "--image", "/i"}, strings.Fields(args)...)...).wants(t,
			exit.Misuse, "", want)
	}
	cli(f.address, "describe", "job", "jnew1", "-o", "json").wants(t, 0, "\"kind\": \"Job\"", "")
	cli(f.address, "explain", "jnew1", "-o", "yaml").wants(t, 0, "kind: Explanation\njob: jnew1\nshortId: jnew1\n", "")
	cli(f.address, "version", "-o", "json").wants(t, 0, "\"clusterId\": \"c1\"", "")
	cli(f.address, "version", "-o", "wide").wants(t, exit.Misuse, "", "use json, yaml")
	cli("", "--version").wants(t, 0, "synapse-cli ", "")
	shown := cli(f.address, "get", "job", "jnew1", "-o", "yaml")
	cliWith(f.address, shown.out, nil, "submit", "-", "-q").wants(t, 0, "jnew1\n", "")
	sent := told[*messages.Submit](f)
	if a, b := sent[0].GetSpec().String(), sent[len(sent)-1].GetSpec().String(); a != b {
		t.Errorf("round trip:\n%s\n%s", a, b)
	}
	for args, want := range map[string]string{"get jobs --phase ti": "timed-out", "submit --required r": "rack"} {
		r := cli(f.address, append([]string{"__complete"}, strings.Fields(args)...)...)
		r.wants(t, 0, want, "")
	}
}

// TestFieldsByPath checks the formats and flags that select fields of objects, as kubectl has them.
func TestFieldsByPath(t *testing.T) {
	f := startFake(t)
	const live = messages.JobState_JOB_STATE_ACTIVE
	f.jobs = []*messages.JobStatus{
		labelled("j1", "train", "running", live, "team", "nlp"), labelled("j2", "eval", "running", live, "team", "cv"),
		labelled("j3", "a\x1b[31m", "running", live),
	}
	cli(f.address, "get", "jobs", "-o", "jsonpath={.items[*].metadata.id}").wants(t, 0, "j1 j2 j3", "")
	cli(f.address, "get", "jobs", "-o", `jsonpath={range .items[*]}{.metadata.id}={.metadata.labels.team}{"\n"}{end}`).
		wants(t, 0, "j1=nlp\nj2=cv\nj3=\n", "")
	cli(f.address, "get", "job", "j2", "-o", "jsonpath={.metadata.name}").wants(t, 0, "eval", "")
	r := cli(f.address, "get", "jobs", "-o",
		"custom-columns=ID:.metadata.id,NAME:.metadata.name,TEAM:.metadata.labels.team")
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	if len(lines) != 4 || strings.Join(strings.Fields(lines[0]), " ") != "ID NAME TEAM" ||
		strings.Join(strings.Fields(lines[3]), " ") != `j3 a\u001b[31m <none>` {
		t.Errorf("the table is %q (%s)", r.out, r.err)
	}
	cli(f.address, "get", "jobs", "-q", "--sort-by", ".metadata.name").wants(t, 0, "j3\nj2\nj1\n", "")
	cli(f.address, "get", "jobs", "-q", "--selector", "team=cv").wants(t, 0, "j2\n", "")
	cli(f.address, "get", "jobs", "-q", "-l", "team", "--selector", "team!=nlp").wants(t, 0, "j2\n", "")
	for _, c := range []struct{ flag, value, want string }{
		{"-o", "jsonpath={.items[?(@.x)]}", "a filter [?(…)] is not supported"},
		{"-o", "jsonpath={range .items[*]}", "{range} without {end}"},
		{"-o", "custom-columns=ID", `column "ID" is not HEAD:PATH`},
		{"-o", "jsonpaths={.x}", "unknown format: use wide, json, yaml, name, jsonpath=TEMPLATE"},
		{"--sort-by", "..name", "a recursive path (..) is not supported"},
	} {
		cli(f.address, "get", "jobs", c.flag, c.value).wants(t, exit.Misuse, "", c.want)
	}
	cli(f.address, "get", "nodes", "-o", "jsonpath={.kind}").wants(t, 0, "NodeList", "")
	cli(f.address, "get", "queues", "-o", "jsonpath={.kind}").wants(t, 0, "QueueList", "")
	cli(f.address, "get", "queues", "-o", "custom-columns=NAME:.name").wants(t, 0, "NAME\n", "")
	cli(f.address, "get", "jobs", "--sort-by", ".x", "--sort", "age").wants(t, exit.Misuse, "",
		"--sort-by cannot be combined with --sort")
}

// TestEndedJobIsNoError checks that a wait with -o json prints no error object for a job that failed by itself.
func TestEndedJobIsNoError(t *testing.T) {
	f := startFake(t)
	done := make(chan result, 1)
	go func() { done <- cliWith(f.address, jobYAML, nil, "submit", "-", "--wait", "-o", "json") }()
	await(t, "the wait", func() bool { return len(told[*messages.Watch](f)) > 0 })
	f.finish("jnew1", "failed", messages.JobState_JOB_STATE_FAILED, 42, "rank 1 on n1 exited with code 42")
	if r := <-done; r.code != 42 || strings.Contains(r.err, `"Error"`) {
		t.Errorf("code %d, %q", r.code, r.err)
	}
}

// TestErrorsAsJSON checks that a command with -o json prints errors as an object on stderr, with the same exit code.
func TestErrorsAsJSON(t *testing.T) {
	f := startFake(t)
	file := filepath.Join(t.TempDir(), "job.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: synapse/v1\nkind: Job\nspec: {imag: host}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		want errorObject
	}{
		{[]string{"get", "job", "none", "-o", "json"}, exit.NotFound, errorObject{Message: `unknown job "none"`}},
		{[]string{"submit", "-o", "json", "-f", file}, exit.Misuse, errorObject{Problems: []problemObject{{
			Line: 3, Column: 8, Field: "spec.imag", Message: "is not a key of a job file",
			Hint: `did you mean "image"?`}}}},
	} {
		r := cli(f.address, c.args...)
		var got errorObject
		if err := json.Unmarshal([]byte(r.err), &got); err != nil || r.code != c.code || got.ExitCode != c.code ||
			got.Kind != "Error" || !strings.Contains(got.Message, c.want.Message) {
			t.Errorf("%v: code %d, %q: %v", c.args, r.code, r.err, err)
		}
		if len(c.want.Problems) > 0 && !slices.Contains(got.Problems, c.want.Problems[0]) {
			t.Errorf("%v: the problems are %+v", c.args, got.Problems)
		}
	}
	r := cli(f.address, "get", "jobs", "none", "nothing", "-o", "json")
	decoder, n := json.NewDecoder(strings.NewReader(r.err)), 0
	for ; decoder.More(); n++ {
		var got errorObject
		if err := decoder.Decode(&got); err != nil || got.Message == "" {
			t.Fatalf("error %d of %q: %v", n, r.err, err)
		}
	}
	if n != 2 || r.code != exit.NotFound {
		t.Errorf("code %d, %d errors: %q", r.code, n, r.err)
	}
}
