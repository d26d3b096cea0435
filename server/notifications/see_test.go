package notifications

import (
	"fmt"
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
)

// jobIs returns an event about a job. ended is the end of the job; 0: not finished.
func jobIs(id string, ended int64, edit ...func(*messages.JobStatus)) *messages.Event {
	j := &messages.JobStatus{Phase: messages.PhaseQueued, Record: &messages.JobRecord{
		Id: id, Spec: &messages.JobSpec{Name: "train", Queue: "nlp"}, Owner: &messages.Principal{Name: "ann"},
		State: messages.JobState_JOB_STATE_QUEUED, FinishedUnixMs: ended,
	}}
	if ended > 0 {
		j.Record.State, j.Record.Outcome, j.Record.ExitCode = messages.JobState_JOB_STATE_FAILED, "rank 0 exited 3", 3
	}
	for _, e := range edit {
		e(j)
	}
	return &messages.Event{Job: j}
}

func promised(run, slips int32) func(*messages.JobStatus) {
	return func(j *messages.JobStatus) { j.Record.Promise = &messages.Promise{Run: run, Slips: slips} }
}

func nodeIs(id, phase, closed string) *messages.Event {
	return &messages.Event{AtUnixMs: 77, Node: &messages.NodeStatus{
		Record: &messages.NodeRecord{Id: id}, Phase: phase, Closed: closed}}
}

var synced = &messages.Event{Synced: true}

// news returns the texts of all notifications, joined.
func news(s *sight, events ...*messages.Event) string {
	var all []string
	for _, e := range events {
		for _, n := range s.take(e) {
			all = append(all, n.Event+": "+n.Text)
		}
	}
	return strings.Join(all, " | ")
}

// TestJobsOver checks that each end of a job is reported once, and that ends of elements and older ends are not.
// After a restart, ends in the saved note are not reported again, and missed ones are.
func TestJobsOver(t *testing.T) {
	s := newSight(1000, nil)
	element := func(j *messages.JobStatus) { j.Record.Spec.Element = &messages.Element{} }
	got := news(s, jobIs("old", 999), jobIs("j1", 0), synced, jobIs("j1", 2000), jobIs("j1", 2000),
		jobIs("x_1", 2001, element),
		jobIs("j2", 1500))
	want := "job-finished: job j1 (train) of ann failed: rank 0 exited 3 | " +
		"job-finished: job j2 (train) of ann failed: rank 0 " +
		"exited 3"
	if got != want {
		t.Errorf("told %q", got)
	}
	next := newSight(s.since, s.told)
	got = news(next, jobIs("old", 999), jobIs("j1", 2000), jobIs("j2", 1500), jobIs("j3", 1800), synced)
	if want := "job-finished: job j3 (train) of ann failed: rank 0 exited 3"; got != want {
		t.Errorf("after a restart: %q", got)
	}
}

// TestEndsAreForgotten checks that the remembered ends do not grow without limit, and that late or repeated ends
// are still reported once.
func TestEndsAreForgotten(t *testing.T) {
	s := newSight(0, nil)
	const many = 5000
	for i := range many {
		at := int64(i+1) * 1000
		if news(s, jobIs(fmt.Sprint("j", i), at)) == "" {
			t.Fatalf("the end of job %d is not told", i)
		}
		if i >= 300 && news(s, jobIs(fmt.Sprint("j", i-300), at-300_000)) != "" {
			t.Fatalf("the end of job %d is told twice", i-300)
		}
	}
	if len(s.told) > 1000 || news(s, jobIs("late", many*1000-horizon+1)) == "" {
		t.Errorf("%d ends are remembered", len(s.told))
	}
}

// TestMachinesClose checks that a node that closes, dies or opens is reported once. The initial state and new texts
// for the same state are not reported.
func TestMachinesClose(t *testing.T) {
	s := newSight(0, nil)
	got := news(s, nodeIs("n1", "up", ""), nodeIs("n2", "up", "cordoned"), synced,
		nodeIs("n1", "up", ""), nodeIs("n1", "up", "benched for 30s"), nodeIs("n1", "up", "benched for 60s"),
		nodeIs("n1", "up", ""), nodeIs("n2", "dead", "cordoned"), nodeIs("n3", "up", ""), nodeIs("n3", "dead", ""))
	want := "node-unschedulable: node n1 is unschedulable: benched for 30s | " +
		"node-schedulable: node n1 is schedulable again | " +
		"node-unschedulable: node n3 is unschedulable: dead"
	if got != want {
		t.Errorf("told %q", got)
	}
	gone := nodeIs("n1", "up", "")
	gone.Hidden = true
	if got := news(s, gone, nodeIs("n1", "up", "")); got != "" || len(s.closed) != 3 {
		t.Errorf("of one that left and came: %q, %v", got, s.closed)
	}
}

// TestPromisesBreak checks that a missed start guarantee is reported, separately for each attempt. A running job
// has none.
func TestPromisesBreak(t *testing.T) {
	s := newSight(0, nil)
	got := news(s, jobIs("j1", 0, promised(1, 1)), synced, jobIs("j1", 0, promised(1, 1)), jobIs("j2", 0, promised(1, 0)),
		jobIs("j2", 0, promised(1, 2)), jobIs("j2", 0), jobIs("j2", 0, promised(2, 3)))
	if want := "start-guarantee-broken: job j2 (train) of ann has missed its start guarantee 2 times"; got != want {
		t.Errorf("told %q", got)
	}
	news(s, jobIs("j2", 5))
	if len(s.promises) != 1 {
		t.Errorf("%v are remembered", s.promises)
	}
}
