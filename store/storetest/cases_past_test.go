package storetest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
)

// This file owns the cases about finished jobs: which jobs there were, their owners, and bounded pages.

// past writes an ended job with this owner and queue.
func (w *world) past(id, owner, queue string, state messages.JobState, finishedMs int64) {
	w.Helper()
	j := w.submit(id, uint64(finishedMs))
	j.Owner.Name, j.Spec.Queue, j.Spec.Name = owner, queue, "name-"+id
	j.Spec.Labels = []*messages.Label{{Key: "team", Value: queue}, {Key: "all", Value: "yes"}}
	over := w.over(j, finishedMs)
	over.State = state
	w.wrote("DD", jobChange(j), jobChange(over))
}

// history reads all pages.
func (w *world) history(p store.Past) []store.PastJob {
	w.Helper()
	return pages(w.T, w.s, p)
}

// pages reads all pages, and checks that each is within its limits.
func pages(t *testing.T, s store.Store, p store.Past) []store.PastJob {
	t.Helper()
	var all []store.PastJob
	for range 1_000 {
		page, err := s.History(p)
		if err != nil {
			t.Fatalf("history: %v", err)
		}
		if page.Looked > p.Look || len(page.Jobs) > page.Looked {
			t.Fatalf("a page of %d jobs of %d, and %d were to be looked at", len(page.Jobs), page.Looked, p.Look)
		}
		all = append(all, page.Jobs...)
		if page.Next == (store.Position{}) {
			return all
		}
		p.Before = page.Next
	}
	t.Fatalf("the pages of %+v do not end", p)
	return nil
}

func names(jobs []store.PastJob) string {
	var ids []string
	for _, j := range jobs {
		ids = append(ids, j.Job.Id)
	}
	return strings.Join(ids, " ")
}

func tryHistory(w *world) {
	const (
		good      = messages.JobState_JOB_STATE_SUCCEEDED
		bad       = messages.JobState_JOB_STATE_FAILED
		cancelled = messages.JobState_JOB_STATE_CANCELLED
	)
	w.past("a", "alice", "q1", good, 100)
	w.past("b", "bob", "q1", bad, 200)
	w.past("c", "alice", "q2", bad, 200)
	w.past("d", "alice", "q1", cancelled, 300)
	w.past("e", "bob", "", good, 400)
	w.wrote("D", jobChange(w.submit("live", 9)))
	w.running("runs", 10, 1)
	w.crash()
	label := func(key, value string) []*messages.Label { return []*messages.Label{{Key: key, Value: value}} }
	for _, c := range []struct {
		ask  store.Past
		want string
	}{
		{store.Past{}, "e d c b a"},
		{store.Past{Before: store.Newest}, "e d c b a"},
		{store.Past{Before: store.Position{FinishedUnixMs: 200, Job: "c"}}, "b a"},
		{store.Past{Before: store.Position{FinishedUnixMs: 200}}, "a"},
		{store.Past{SinceUnixMs: 200}, "e d c b"},
		{store.Past{SinceUnixMs: 200, Before: store.Position{FinishedUnixMs: 300}}, "c b"},
		{store.Past{SinceUnixMs: math.MaxInt64}, ""},
		{store.Past{Owner: "alice"}, "d c a"},
		{store.Past{Owner: "alice", Queue: "q1"}, "d a"},
		{store.Past{Owner: "alice", Queue: "q1", States: []messages.JobState{good}}, "a"},
		{store.Past{Queue: "q1"}, "d b a"},
		{store.Past{Queue: "q1", SinceUnixMs: 200, Before: store.Position{FinishedUnixMs: 300}}, "b"},
		{store.Past{States: []messages.JobState{bad, cancelled}}, "d c b"},
		{store.Past{States: []messages.JobState{messages.JobState_JOB_STATE_TIMED_OUT}}, ""},
		{store.Past{Name: "name-b"}, "b"},
		{store.Past{Name: "name"}, ""},
		{store.Past{Labels: label("team", "q1")}, "d b a"},
		{store.Past{Labels: append(label("team", "q2"), label("all", "yes")...)}, "c"},
		{store.Past{Labels: label("team", "q3")}, ""},
		{store.Past{Owner: "nobody"}, ""},
		{store.Past{Owner: "alice\x00"}, ""},
	} {
		for _, look := range []int{1, 2, 100} {
			c.ask.Look = look
			if got := names(w.history(c.ask)); got != c.want {
				w.Errorf("%+v: %q, want %q", c.ask, got, c.want)
			}
		}
	}
	if page, err := w.s.History(store.Past{}); err != nil || len(page.Jobs) > 0 || page.Looked > 0 {
		w.Errorf("nothing was to be looked at: %+v, %v", page, err)
	}
}

// tryHistoryWhole checks that a job appears with all its attempts, and is deleted with them.
func tryHistoryWhole(w *world) {
	j, first := w.running("j", 1, 1)
	first = attempt(first, exited(0, 1), ended(messages.Cause_CAUSE_MACHINE_LOST))
	second := commit("j", w.token(2))
	k := w.active(j, second)
	w.wrote("D", jobChange(k, first, second))
	if got := w.history(store.Past{Look: 10}); len(got) > 0 {
		w.Fatalf("a job that lives is history: %v", got)
	}
	second = attempt(second, exited(0), ended(messages.Cause_CAUSE_CANCELLED))
	k = w.over(k, 50)
	w.wrote("D", jobChange(k, second))
	got := w.history(store.Past{Look: 10})
	if len(got) != 1 || !proto.Equal(got[0].Job, k) || len(got[0].Attempts) != 2 ||
		!proto.Equal(got[0].Attempts[0], first) || !proto.Equal(got[0].Attempts[1], second) {
		w.Fatalf("history has %v", got)
	}
	third := attempt(second, exited(0, 1))
	l := w.next(k, nil)
	w.wrote("D", jobChange(l, third))
	if got = w.history(store.Past{Look: 10}); len(got) != 1 || !proto.Equal(got[0].Attempts[1], third) {
		w.Fatalf("with its evidence it is %v", got)
	}
	if n, err := w.s.Prune(w.epoch, 100, 10); err != nil || n != 1 {
		w.Fatalf("pruned %d (%v)", n, err)
	}
	for _, p := range []store.Past{{Look: 10}, {Look: 10, Owner: "alice"}, {Look: 10, Owner: ""}} {
		if got := w.history(p); len(got) > 0 {
			w.Fatalf("a deleted job is in the history: %v", got)
		}
	}
}

// tryHistoryBytes checks that large jobs make short pages, and that none is omitted.
func tryHistoryBytes(w *world) {
	const jobs, heavy = 14, store.PageBytes / 5
	var want []string
	for i := range jobs {
		id := fmt.Sprintf("h%02d", i)
		want = append(want, id)
		j := w.submit(id, uint64(i+1))
		if i%2 == 0 {
			j.Spec.Env = []*messages.EnvVar{{Name: "X", Value: strings.Repeat("x", heavy)}}
			w.wrote("DD", jobChange(j), jobChange(w.over(j, int64(i+1))))
			continue
		}
		a := commit(id, w.token(uint64(i)))
		a.Places[0].Address = strings.Repeat("y", heavy)
		k := w.active(j, a)
		w.wrote("D", jobChange(j))
		w.wrote("D", jobChange(k, a))
		w.wrote("D", jobChange(w.over(k, int64(i+1)), attempt(a, exited(0, 1), ended(messages.Cause_CAUSE_SUCCEEDED))))
	}
	slices.Reverse(want)
	past, all, pages := store.Past{Look: 100}, []string(nil), 0
	for ; ; pages++ {
		page, err := w.s.History(past)
		if err != nil || len(page.Jobs) == 0 {
			w.Fatalf("a page of nothing: %v", err)
		}
		weight := 0
		for _, j := range page.Jobs {
			weight += proto.Size(j.Job)
			for _, a := range j.Attempts {
				weight += proto.Size(a)
			}
			if strings.HasSuffix(j.Job.Id, "1") && len(j.Attempts) != 1 {
				w.Errorf("%s has %d attempts", j.Job.Id, len(j.Attempts))
			}
		}
		if weight > store.PageBytes+2*heavy {
			w.Errorf("a page of %d bytes", weight)
		}
		all = append(all, strings.Fields(names(page.Jobs))...)
		if past.Before = page.Next; page.Next == (store.Position{}) {
			break
		}
	}
	if !slices.Equal(all, want) || pages < 2 {
		w.Fatalf("in %d pages there were %v, want %v", pages+1, all, want)
	}
}
