package slurmrest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/yi-json/synapse/cmd/internal/command"
	"github.com/yi-json/synapse/messages"
)

// This file tests the commands of synapse-submit.

// run sends the options of a command, and returns the status and the output or the error.
func run(t *testing.T, url, method, name string, options any) (status int, out string) {
	t.Helper()
	body, is := options.(string)
	if !is {
		text, err := json.Marshal(options)
		if err != nil {
			t.Fatal(err)
		}
		body = string(text)
	}
	q, err := http.NewRequestWithContext(context.Background(), method, url+command.Prefix+name, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || int64(len(text)) != answer.ContentLength {
		t.Fatalf("%v, and %d of %d bytes", err, len(text), answer.ContentLength)
	}
	return answer.StatusCode, string(text)
}

// TestCommands checks the output of each command, and its errors.
func TestCommands(t *testing.T) {
	s := &service{jobs: []*messages.JobStatus{
		jobOn("j2", messages.PhaseSucceeded, messages.JobState_JOB_STATE_SUCCEEDED),
		jobOn("j3", messages.PhaseQueued, messages.JobState_JOB_STATE_QUEUED),
	}}
	s.jobs[1].Record.Spec.Name, s.jobs[1].Record.Owner.Name = "wait\x1b", "bob"
	url := address(t, s)
	n := messages.NumericID
	type choice = command.Choice
	type queue = command.Queue
	for _, m := range []struct {
		options queue
		status  int
		out     string
	}{
		{queue{NoHeader: true, Format: "%i|%T|%N"}, 200, n("j3") + "|PENDING|\n" + n("j1") + "|RUNNING|n1\n"},
		{queue{Choice: choice{JobList: n("j1")}, Format: "%.3t"}, 200, " ST\n  R\n"},
		{queue{Choice: choice{Me: true}, NoHeader: true, Format: "%u"}, 200, "ann\n"},
		{queue{Choice: choice{Users: "bob"}, NoHeader: true, Format: "%j"}, 200, "wait\\u001b\n"},
		{queue{Choice: choice{StateList: "CD"}, NoHeader: true, Format: "%i"}, 200, n("j3") + "\n"},
		{queue{Choice: choice{NodeList: "n[1-2]"}, NoHeader: true, Format: "%i"}, 200, n("j1") + "\n"},
		{queue{Choice: choice{Names: "x"}, NoHeader: true}, 200, ""},
		{queue{Long: true, Choice: choice{Names: "x"}}, 200,
			"             JOBID PARTITION     NAME     USER    STATE       TIME TIME_LIMI  NODES NODELIST(REASON)\n"},
		{queue{Format: "%S"}, 400, "time zone of the user"}, {queue{Format: "%100.20e"}, 400, "time zone of the user"},
		{queue{Format: "%all"}, 400, "time zone of the user"}, {queue{Format: "%!"}, 400, "unknown field"},
		{queue{Choice: choice{StateList: "NO"}}, 400, "unknown state"},
		{queue{Choice: choice{JobList: "77"}}, 404, "Invalid job id specified: 77"},
		{queue{Format: "%.8000i", NoHeader: true}, 200, strings.Repeat(" ", 7_900)},
		{queue{Format: "%9000i"}, 400, "fewer columns"}, {queue{Format: strings.Repeat("%i", 65)}, 400, "fewer columns"},
		{queue{Format: "%i" + strings.Repeat("x", 9000)}, 400, "fewer columns"},
	} {
		status, out := run(t, url, "POST", "squeue", m.options)
		if status != m.status || status == 200 && len(m.out) < 7000 && out != m.out || !strings.Contains(out, m.out) {
			t.Errorf("squeue %+v: %d %.300q, not %d %.300q", m.options, status, out, m.status, m.out)
		}
	}
	for _, m := range []struct {
		options choice
		status  int
		want    string
	}{
		{choice{JobList: n("j1") + "," + n("j2") + ",j3"}, 200, "j1 j3"}, {choice{Me: true}, 200, "j1"},
		{choice{StateList: "PD", Users: "bob"}, 200, "j3"}, {choice{JobList: "77," + n("j1")}, 404, "j1"},
		{choice{}, 400, ""}, {choice{StateList: "NO"}, 400, ""}, {choice{Names: "x"}, 200, ""},
	} {
		s.canceled = nil
		status, out := run(t, url, "POST", "scancel", m.options)
		slices.Sort(s.canceled)
		if got := strings.Join(s.canceled, " "); status != m.status || got != m.want || status == 200 && out != "" {
			t.Errorf("scancel %+v: %d %q, cancelled %q, not %q", m.options, status, out, got, m.want)
		}
	}
	for _, m := range []struct {
		method, name, body string
		status             int
		text               string
	}{
		{"GET", "squeue", "", 405, "use POST"}, {"POST", "sinfo", "{}", 404, "there is no command"},
		{"POST", "squeue", `{"Later":1}`, 400, "Later"}, {"POST", "squeue", ``, 400, "cannot be read"},
		{"POST", "sbatch", `{"Words":["--wrap","true","--wait"]}`, 400, "--wait"},
		{"POST", "sbatch", `{"Words":["--wrap","true","-b","12:00"]}`, 400, "time zone"},
		{"POST", "sbatch", `{"Words":["--wrap","true","--mail-type=END"]}`, 400, "warning"},
		{"POST", "sbatch", `{"Words":["--nonsense"]}`, 400, "--nonsense"},
		{"POST", "sbatch", `{"Words":["a.sh"],"Script":"no script"}`, 400, "#!"},
	} {
		if status, out := run(t, url, m.method, m.name, m.body); status != m.status || !strings.Contains(out, m.text) {
			t.Errorf("%s %s %s: %d %s", m.method, m.name, m.body, status, out)
		}
	}
	if s.sent != nil {
		t.Errorf("a refused sbatch submits %v", s.sent)
	}
}

// TestCommandSubmits checks the job of a submit.
func TestCommandSubmits(t *testing.T) {
	s := &service{}
	url := address(t, s)
	status, out := run(t, url, "POST", "sbatch", command.Batch{
		Words:  []string{"-H", "-D", "in", "job.sh", "one", "--wrap"},
		Script: "#!/bin/sh\n#SBATCH -N2 --export=A,B=b\ntrue\n",
		Dir:    "/home/ann", Host: "login1", User: "ann", As: "me", Env: []string{"A=a", "B=b", "C=c"}, RequestID: "cli-7",
	})
	spec := s.sent.GetSpec()
	if status != 200 || out != "Submitted batch job "+messages.NumericID("j2")+"\n" || s.sent.GetRequestId() != "cli-7" ||
		!s.sent.GetHold() || spec.GetGang().GetReplicasMin() != 2 || spec.GetSubmitDir() != "/home/ann/in" ||
		spec.GetUser() != "me" || spec.Called() != "job.sh" || fmt.Sprint(spec.GetScript().GetArgs()) != "[one --wrap]" ||
		variable("A")(spec) != "a" || variable("B")(spec) != "b" || variable("C")(spec) != "" ||
		variable("SLURM_SUBMIT_HOST")(spec) != "login1" || variable("SLURM_JOB_USER")(spec) != "ann" {
		t.Errorf("%d %q: %v", status, out, s.sent)
	}
	s.wrong = context.DeadlineExceeded
	if status, _ := run(t, url, "POST", "sbatch", command.Batch{Words: []string{"--wrap", "true"}}); status < 400 {
		t.Errorf("a failed submit: %d", status)
	}
}
