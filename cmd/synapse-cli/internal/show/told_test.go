package show

import (
	"bytes"
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
)

// This file tests that output is complete and correct.

func total(gpus int64) *messages.JobSpec {
	return &messages.JobSpec{Name: "a-name-that-is-long-enough-to-be-in-the-way-of-all-others",
		Queue: "a-queue-that-is-long-too", Image: "host",
		Gang: &messages.GangSpec{Total: &messages.Resources{MilliGpu: gpus * 1000}}}
}

// TestRowsFit checks that no row is wider than the terminal, and that nothing is cut in a pipe.
func TestRowsFit(t *testing.T) {
	list := []*messages.JobStatus{{Phase: "queued", Reason: strings.Repeat("because ", 30),
		Record: &messages.JobRecord{Id: "jab12cd34ef56", Spec: total(8),
			Owner: &messages.Principal{Name: "somebody-with-a-long-name@example.org"}}}}
	for _, width := range []int{20, 40, 60, 80, 100, 132, 200} {
		for _, format := range []string{"", "wide"} {
			var b bytes.Buffer
			if err := Jobs(&b, Style{Width: width, Format: format, Colour: true}, list); err != nil {
				t.Fatal(err)
			}
			text := strings.NewReplacer(red, "", green, "", yellow, "", plain, "").Replace(b.String())
			for line := range strings.Lines(text) {
				if got := len([]rune(strings.TrimSuffix(line, "\n"))); got > width {
					t.Errorf("%d of %d columns: %s", got, width, line)
				}
			}
			if !strings.Contains(text, "jab12cd34ef56") {
				t.Errorf("the id is cut at %d columns:\n%s", width, text)
			}
		}
	}
	var b bytes.Buffer
	_ = Jobs(&b, Style{}, list)
	if !strings.Contains(b.String(), "in-the-way-of-all-others") || strings.Count(b.String(), "because") != 30 {
		t.Errorf("a pipe is not given all: %s", b.String())
	}
}

// TestShownAsItIs checks counts, states and attempts in the output.
func TestShownAsItIs(t *testing.T) {
	spec := total(8)
	spec.Restart = &messages.RestartSpec{Limit: 2}
	j := &messages.JobStatus{Phase: "failed", Tasks: 3,
		Record: &messages.JobRecord{Id: "j1", Spec: spec, Runs: 3, Failures: 3}}
	if got := (job{j, 0}).tasks(); got != "3" {
		t.Errorf("TASKS %s", got)
	}
	if got := (job{&messages.JobStatus{Record: j.Record}, 0}).tasks(); got != "any" {
		t.Errorf("TASKS %s", got)
	}
	if got := warned(job{j, 0}); got != "" {
		t.Errorf("Warned %s", got)
	}
	warns := &messages.JobStatus{Record: &messages.JobRecord{Spec: &messages.JobSpec{
		Warn: &messages.WarnSpec{Signal: 10, AheadMs: 120_000},
	}}}
	if got := warned(job{warns, 0}); got != "by SIGUSR1, 2m before the end" {
		t.Errorf("Warned %s", got)
	}
	warns.Warned = &messages.Warning{Cause: messages.Cause_CAUSE_TIME_LIMIT, AtUnixMs: 1, EndsUnixMs: 2}
	idle := &messages.JobStatus{Record: j.Record, Warned: &messages.Warning{AtUnixMs: 1, IdleMs: 1_800_000}}
	if got := warned(job{idle, 1}); !strings.HasPrefix(got, "notified ") || !strings.HasSuffix(got, ": idle for 30m") {
		t.Errorf("Warned %s", got)
	}
	if got := warned(job{warns, 1}); !strings.HasSuffix(got, "time limit") || !strings.Contains(got, "; sent ") {
		t.Errorf("Warned %s", got)
	}
	if got := runs(j.Record); got != "3, 3 failed (2 restarts allowed)" {
		t.Error(got)
	}
	end := func(cause messages.Cause, detail string) *messages.End {
		return &messages.End{Cause: cause, Detail: detail, AtUnixMs: 61_000}
	}
	attempts := []*messages.AttemptRecord{
		{Run: 1, StartedUnixMs: 1_000, End: end(messages.Cause_CAUSE_MEMBER_FAILED, "rank 0 on n1 exited with code 3")},
		{Run: 2, End: end(messages.Cause_CAUSE_REQUEUED, "requeued by alice")},
		{Run: 3},
	}
	j.Attempt = attempts[2]
	var b bytes.Buffer
	if err := DescribeJob(&b, Style{}, j, attempts); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Earlier attempts\n",
		"1  1970-01-01T00:00:01Z      60s  member failed: rank 0 on n1 exited with code 3\n", "requeued by alice\n",
		"Attempt 3\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
	b.Reset()
	j.Record.Spec.Restart = &messages.RestartSpec{Never: true}
	if err := DescribeJob(&b, Style{}, j, nil); err != nil || !strings.Contains(b.String(), "Restarts:     never\n") {
		t.Errorf("a job that never restarts is described as\n%s (%v)", b.String(), err)
	}
	for want, n := range map[string]*messages.NodeStatus{
		"up":       {Phase: "up"},
		"dead":     {Phase: "dead", Closed: "dead"},
		"cordoned": {Phase: "up", Closed: "cordoned by x: y", Record: &messages.NodeRecord{Cordoned: &messages.Deed{}}},
		"drained":  {Phase: "up", Closed: "drained by x: y", Record: &messages.NodeRecord{Drained: &messages.Deed{}}},
		"draining": {Phase: "up", Closed: "drained by x: y", Record: &messages.NodeRecord{Drained: &messages.Deed{}},
			Ledger: &messages.LedgerReport{Slices: []*messages.SliceReport{{}}}},
		"backed-off":    {Phase: "up", Closed: "backed off: 3 failures"},
		"unschedulable": {Phase: "up", Closed: "its disk failed"},
	} {
		if got := (node{n, 0}).state(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	draining := &messages.NodeStatus{
		Phase: "up", Closed: "drained by ops: new firmware",
		Ledger: &messages.LedgerReport{Slices: []*messages.SliceReport{{}}},
		Record: &messages.NodeRecord{Drained: &messages.Deed{}, DrainDeadlineUnixMs: 7_201_000},
	}
	want := "drained by ops: new firmware; running gangs move in 2h"
	if got := (node{draining, 1000}).remarks(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	ops := &messages.Deed{By: &messages.Principal{Name: "ops"}, Reason: "new fans"}
	closing := &messages.NodeStatus{Phase: "up", Record: &messages.NodeRecord{Closing: ops, ClosesUnixMs: 7_201_000}}
	want = "becomes unschedulable at 1970-01-01T02:00:01Z, in 2h, by ops: new fans"
	if got := (node{closing, 1000}).remarks(); got != want || (node{closing, 1000}).state() != "up" {
		t.Errorf("%s, want %s", got, want)
	}
	if o := nodeObject(closing).Status; !o.Open || o.ClosesAt != "1970-01-01T02:00:01Z" || o.Closing.Reason != "new fans" {
		t.Errorf("%+v", o)
	}
}
