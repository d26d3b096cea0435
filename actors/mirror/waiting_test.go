package mirror

import (
	"fmt"
	"testing"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// This file owns the tests that every waiting job has a reason.

// waitsFor returns an update with the reason of a group and the jobs that join it.
func waitsFor(group policy.GroupID, reason string, jobs ...string) WaitingShown {
	w := WaitingShown{Groups: []GroupReason{{Group: group, Reason: messages.WaitResources.Because(reason)}}}
	for _, j := range jobs {
		w.Jobs = append(w.Jobs, policy.Joined{Job: topology.JobID(j), Group: group, Turn: policy.Turn(j)})
	}
	return w
}

func shownReason(t *testing.T, m *Mirror, id string) string {
	t.Helper()
	got := ask(m, &messages.GetJob{Job: id}).(*messages.GetJobReply).Job.GetReason()
	for _, j := range ask(m, &messages.ListJobs{Limit: 1000}).(*messages.ListJobsReply).Jobs {
		if j.Record.Id == id && j.Reason != got {
			t.Errorf("%s is shown with %q and listed with %q", id, got, j.Reason)
		}
	}
	return got
}

func TestWaitingJobsShareAReason(t *testing.T) {
	a := newAudience()
	a.says("list", &messages.Watch{Jobs: true})
	a.says("eager", &messages.Watch{Jobs: true, Reasons: true})
	a.says("one", &messages.Watch{Jobs: true, Reasons: true, Ids: []string{"k"}})
	for _, id := range []string{"j1", "j2", "k"} {
		a.says("", JobShown{statusOf(id, "alice", "queued")})
	}
	a.says("", waitsFor(1, "needs 8 GPUs", "j1", "j2", "nobody"))
	a.says("", waitsFor(2, "needs 9 GPUs", "k"))
	began := []string{"1 job j1 queued", "2 job j2 queued", "3 job k queued",
		"4 job j1 queued: Resources: needs 8 GPUs", "5 job j2 queued: Resources: needs 8 GPUs",
		"6 job k queued: Resources: needs 9 GPUs"}
	a.hears(t, "list", began...)
	a.hears(t, "eager", began...)
	a.hears(t, "one", "3 job k queued", "6 job k queued: Resources: needs 9 GPUs")

	a.says("", waitsFor(1, "needs 8 GPUs; 3 are free"))
	a.says("", waitsFor(1, "needs 8 GPUs; 3 are free")) // no change
	a.hears(t, "list")
	a.hears(t, "one")
	a.hears(t, "eager", "6 2 jobs wait: Resources: needs 8 GPUs; 3 are free")
	for id, want := range map[string]string{"j1": "Resources: needs 8 GPUs; 3 are free",
		"j2": "Resources: needs 8 GPUs; 3 are free", "k": "Resources: needs 9 GPUs"} {
		if got := shownReason(t, a.Mirror, id); got != want {
			t.Errorf("%s waits because %q, want %q", id, got, want)
		}
	}
	aside := WaitingShown{Aside: "1 node dead"}
	a.says("", aside)
	a.hears(t, "one", "6 1 job waits: Resources: needs 9 GPUs, "+aside.Aside)
	a.hears(t, "eager", "6 2 jobs wait: Resources: needs 8 GPUs; 3 are free, "+aside.Aside,
		"6 1 job waits: Resources: needs 9 GPUs, "+aside.Aside)

	// A watcher that returns receives the present reasons.
	a.says("late", &messages.Watch{Jobs: true, Reasons: true, After: first + 6})
	a.hears(t, "late", "6 2 jobs wait: Resources: needs 8 GPUs; 3 are free, "+aside.Aside,
		"6 1 job waits: Resources: needs 9 GPUs, "+aside.Aside, "6 synced")
	a.says("new", &messages.Watch{Jobs: true, Present: true, Ids: []string{"k"}})
	a.hears(t, "new", "6 job k queued: Resources: needs 9 GPUs, "+aside.Aside, "6 synced")
}

// TestManyReasonsAtOnceAreBounded checks that a watcher gets a bounded number of reasons even if every job has its own
// shape.
func TestManyReasonsAtOnceAreBounded(t *testing.T) {
	a := newAudience()
	a.says("eager", &messages.Watch{Jobs: true, Reasons: true})
	for i := range 2 * groupsAtOnce {
		id := fmt.Sprintf("j%04d", i)
		a.says("", JobShown{statusOf(id, "alice", "queued")})
		a.says("", waitsFor(policy.GroupID(i+1), "needs much", id))
	}
	a.says("one", &messages.Watch{Jobs: true, Reasons: true, Ids: []string{"j0500"}})
	a.told = map[string][]*messages.Event{}
	a.says("", WaitingShown{Aside: "1 node dead"})
	if n := len(a.told["eager"]); n != groupsAtOnce {
		t.Errorf("events about %d groups", n)
	}
	if n := len(a.told["one"]); n != 1 {
		t.Errorf("a watcher of one job gets %d events", n)
	}
	if got := shownReason(t, a.Mirror, "j0500"); got != "Resources: needs much, 1 node dead" {
		t.Errorf("%q", got)
	}
}

// TestWaitingEnds checks that a job loses its reason when it leaves the queue, and that the group ends with its last
// job.
func TestWaitingEnds(t *testing.T) {
	m := newAudience()
	show := func(id, phase string) { m.says("", JobShown{statusOf(id, "alice", phase)}) }
	show("j1", "queued")
	show("j2", "queued")
	m.says("", waitsFor(7, "needs 8 GPUs", "j1", "j2"))
	m.says("", waitsFor(7, "needs 8 GPUs", "j1")) // sent again: the job is counted once
	show("j1", "reserving")
	if got := shownReason(t, m.Mirror, "j1"); got != "" {
		t.Errorf("it is tried and waits: %q", got)
	}
	if got := shownReason(t, m.Mirror, "j2"); got != "Resources: needs 8 GPUs" {
		t.Errorf("%q", got)
	}
	show("j2", "queued") // its record has changed, but it still waits
	if got := shownReason(t, m.Mirror, "j2"); got != "Resources: needs 8 GPUs" {
		t.Errorf("%q", got)
	}
	show("j2", "cancelled")
	if n := len(m.waiting.groups); n != 0 {
		t.Errorf("%d groups without jobs are kept", n)
	}
	m.says("", waitsFor(8, "needs 1 GPU", "j2")) // it was cancelled meanwhile
	if n := len(m.waiting.groups); n != 0 || shownReason(t, m.Mirror, "j2") != "" {
		t.Errorf("%d groups, and a finished job waits", n)
	}
	show("j1", "queued")
	m.says("", PlanningShown{messages.WaitRecovering.Because("the leader is new")})
	if got := shownReason(t, m.Mirror, "j1"); got != "Recovering: the leader is new" {
		t.Errorf("%q", got)
	}
}

// TestGroupChangesHands checks one message in which the last job of a group moves to another group and a new job joins
// the first.
func TestGroupChangesHands(t *testing.T) {
	m, _ := counting()
	for _, id := range []string{"a", "b"} {
		ask(m, JobShown{statusOf(id, "ann", "queued")})
	}
	ask(m, waitsFor(1, "needs 8 GPUs", "a"))
	shown := waitsFor(1, "needs 8 GPUs", "a", "b")
	shown.Jobs[0].Group = 2
	shown.Groups = append(shown.Groups, GroupReason{Group: 2, Reason: messages.WaitResources.Because("needs 9 GPUs")})
	ask(m, shown)
	for id, want := range map[string]string{"a": "Resources: needs 9 GPUs", "b": "Resources: needs 8 GPUs"} {
		if got := shownReason(t, m, id); got != want {
			t.Errorf("%s waits because %q, want %q", id, got, want)
		}
	}
	ask(m, waitsFor(3, "needs 7 GPUs")) // no job joins
	if n := len(m.waiting.groups); n != 2 {
		t.Errorf("%d groups are known, of which two have jobs", n)
	}
}
