package traces

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

var first, second = topology.Token{Epoch: 1, Counter: 1}, topology.Token{Epoch: 1, Counter: 2}

// job returns an event about a job that was submitted at 1 s.
func job(edit ...func(*messages.JobStatus)) *messages.Event {
	j := &messages.JobStatus{Record: &messages.JobRecord{
		Id: "j1", SubmittedUnixMs: 1000, Owner: &messages.Principal{Name: "ann"}, State: messages.JobState_JOB_STATE_QUEUED,
		Spec: &messages.JobSpec{Name: "train", Queue: "nlp", Gang: &messages.GangSpec{ReplicasMax: 2}},
	}}
	for _, e := range edit {
		e(j)
	}
	return &messages.Event{Job: j}
}

// ended ends the job's attempt. began is the time of the start barrier; 0: never passed.
func ended(token topology.Token, run int32, cause messages.Cause, committed, began, at int64) func(
	*messages.JobStatus) {
	return func(j *messages.JobStatus) {
		j.Attempt = &messages.AttemptRecord{Token: messages.ToToken(token), Run: run, CommittedUnixMs: committed,
			StartedUnixMs: began, End: &messages.End{Cause: cause, Detail: "rank 0 exited 1", AtUnixMs: at}}
	}
}

func over(state messages.JobState, at int64) func(*messages.JobStatus) {
	return func(j *messages.JobStatus) {
		j.Record.State, j.Record.FinishedUnixMs, j.Record.Outcome = state, at, "rank 0 exited 1"
	}
}

func phase(token topology.Token, run int32, name, event string, givenUp bool, took time.Duration) actors.Passage {
	return actors.Passage{Job: "j1", Token: token, Run: run, Phase: name, Event: event, GivenUp: givenUp, Took: took}
}

// wordsOf returns the names of spans with their times in seconds.
func wordsOf(all []*span) string {
	var said []string
	for _, s := range all {
		text := fmt.Sprintf("%s %g-%g", s.name, float64(s.from)/1e9, float64(s.until)/1e9)
		if s.failed != "" {
			text += " (" + s.failed + ")"
		}
		said = append(said, text)
	}
	return strings.Join(said, ", ")
}

// TestALife checks the trace of a gang that is refused once, fails once and then succeeds. Each attempt has its
// phases, and no span appears twice.
func TestALife(t *testing.T) {
	w := newWeaver("c1")
	var all []*span
	add := func(spans []*span) { all = append(all, spans...) }
	w.take(&messages.Event{Synced: true})
	refusedOne := topology.Token{Epoch: 1, Counter: 9}
	add(w.take(job()))
	add(w.passed(phase(refusedOne, 1, "reserving", "refused", true, time.Second), 2000))
	add(w.passed(phase(first, 1, "reserving", "all reserved", false, time.Second), 4000))
	add(w.passed(phase(first, 1, "deciding", "decided", false, time.Second), 5000))
	for n, name := range []string{"committing", "preparing", "starting"} {
		add(w.passed(phase(first, 1, name, "all", false, time.Second), int64(6000+n*1000)))
	}
	failed := ended(first, 1, messages.Cause_CAUSE_MEMBER_FAILED, 5000, 8000, 20_000)
	add(w.take(job(failed)))
	add(w.take(job(failed)))
	good := ended(second, 2, messages.Cause_CAUSE_SUCCEEDED, 30_000, 31_000, 40_000)
	add(w.take(job(good, over(messages.JobState_JOB_STATE_SUCCEEDED, 41_000))))
	add(w.take(job(good, over(messages.JobState_JOB_STATE_SUCCEEDED, 41_000))))
	want := "reserve 1-2 (refused), attempt 1-2 (refused), reserve 3-4, decide 4-5, commit 5-6, prepare 6-7, start 7-8, " +
		"wait 1-3, attempt 3-20 (rank 0 exited 1), run 8-20 (rank 0 exited 1), wait 20-30, attempt 30-40, run 31-40, job 1-41"
	if got := wordsOf(all); got != want {
		t.Errorf("told\n%s, want\n%s", got, want)
	}
	ids, above := map[[8]byte]string{}, map[[8]byte]string{}
	for _, s := range all {
		if s.trace != all[0].trace {
			t.Errorf("%s is of another trace", s.name)
		}
		if ids[s.id] != "" {
			t.Errorf("%s and %s have one id", s.name, ids[s.id])
		}
		ids[s.id], above[s.id] = s.name, s.name
	}
	for _, s := range all {
		want := "attempt"
		switch {
		case s.name == "job":
			want = ""
		case slices.Contains([]string{"attempt", "wait"}, s.name):
			want = "job"
		}
		if got := above[s.parent]; got != want {
			t.Errorf("%s is below %q, want %q", s.name, got, want)
		}
	}
	if len(w.lives) != 0 {
		t.Errorf("%d lives are remembered", len(w.lives))
	}
}

// TestAnotherLeader checks that jobs that finished earlier are not exported, and that a running job keeps its IDs.
func TestAnotherLeader(t *testing.T) {
	w, next := newWeaver("c1"), newWeaver("c1")
	if got := w.take(job(over(messages.JobState_JOB_STATE_FAILED, 5000))); got != nil {
		t.Errorf("of one that was over: %s", wordsOf(got))
	}
	w = newWeaver("c1")
	w.take(job())
	end := job(ended(first, 1, messages.Cause_CAUSE_SUCCEEDED, 2000, 0, 3000),
		over(messages.JobState_JOB_STATE_FAILED, 5000))
	w.take(&messages.Event{Synced: true})
	next.take(&messages.Event{Synced: true})
	one, other := w.take(end), next.take(end)
	if got := wordsOf(one); got != "wait 1-2, attempt 2-3, job 1-5 (rank 0 exited 1)" || got != wordsOf(other) {
		t.Errorf("told %q, and by another leader %q", got, wordsOf(other))
	}
	for i := range one {
		if one[i].id != other[i].id || one[i].trace != other[i].trace {
			t.Errorf("%s has another id by another leader", one[i].name)
		}
	}
	if elsewhere := newWeaver("c2").ofJob("j1", "job", ""); elsewhere.trace == one[0].trace {
		t.Error("a job of another cluster is of the same trace")
	}
}

// TestOverIsBounded checks that the number of remembered finished jobs is limited.
func TestOverIsBounded(t *testing.T) {
	w := newWeaver("c1")
	for i := range 2 * maxOver {
		w.forget(fmt.Sprint("j", i))
	}
	if len(w.over) != maxOver || len(w.order) != maxOver {
		t.Errorf("%d and %d are remembered", len(w.over), len(w.order))
	}
}
