package storetest

import (
	"errors"
	"slices"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/topology"
)

// This file owns the cases about reading and deleting.

// tryLoad loads four jobs. A live job has a settled, an unconfirmed and an open attempt. One finished job has
// unconfirmed exits, and another is settled. The fourth waits and came first.
func tryLoad(w *world) {
	j, a := w.running("j", 5, 1)
	settled := attempt(a, exited(0, 1), ended(messages.Cause_CAUSE_MEMBER_FAILED))
	owing := commit("j", w.token(2))
	k := w.active(j, owing)
	w.wrote("D", jobChange(k, settled, owing))
	owing = attempt(owing, exited(0), ended(messages.Cause_CAUSE_MACHINE_LOST))
	open := commit("j", w.token(3))
	l := w.active(k, open)
	w.wrote("D", jobChange(l, owing, open))

	d, debt := w.running("d", 4, 4)
	w.wrote("D", jobChange(w.over(d, 10), attempt(debt, exited(0), ended(messages.Cause_CAUSE_CANCELLED))))
	s, done := w.running("s", 3, 5)
	w.wrote("D", jobChange(w.over(s, 11), attempt(done, exited(0, 1), ended(messages.Cause_CAUSE_SUCCEEDED))))
	w.wrote("D", jobChange(w.submit("q", 2)))
	w.wrote("D", actors.Change{Node: w.machine("n1")})
	w.wrote("D", actors.Change{Node: w.machine("n0")})

	loaded := w.load()
	var got []string
	for _, r := range loaded.Jobs {
		got = append(got, r.Id)
	}
	for _, r := range loaded.Attempts {
		got = append(got, r.Job+"/"+messages.FromToken(r.Token).String())
	}
	for _, r := range loaded.Nodes {
		got = append(got, r.Id)
	}
	want := []string{
		"q", "d", "j", "d/" + w.token(4).String(), "j/" + w.token(2).String(), "j/" + w.token(3).String(), "n0", "n1",
	}
	if !slices.Equal(got, want) {
		w.Fatalf("loaded\n%v\nwant\n%v", got, want)
	}
	if loaded.Arrival != 5 {
		w.Fatalf("arrival %d, want 5", loaded.Arrival)
	}
}

// finish writes the finished jobs 0..n−1 in the order of their ends.
func (w *world) finish(n int) {
	w.Helper()
	for i := range n {
		j := w.submit(jobName(i), uint64(i+1))
		w.wrote("DD", jobChange(j), jobChange(w.over(j, int64(100+i))))
	}
}

func (w *world) page(after store.Position, limit int) ([]string, store.Position) {
	w.Helper()
	jobs, err := w.s.Finished(after, limit)
	if err != nil {
		w.Fatalf("finished: %v", err)
	}
	var ids []string
	for _, j := range jobs {
		ids, after = append(ids, j.Id), store.PositionOf(j)
	}
	return ids, after
}

func tryFinished(w *world) {
	w.finish(5)
	w.wrote("D", jobChange(w.submit("live", 9)))
	early := w.submit("early", 10)
	w.wrote("DD", jobChange(early), jobChange(w.over(early, 101))) // at the same time as the second
	at, all := store.Position{}, []string(nil)
	for {
		ids, next := w.page(at, 2)
		if len(ids) == 0 {
			break
		}
		all, at = append(all, ids...), next
	}
	want := []string{jobName(0), "early", jobName(1), jobName(2), jobName(3), jobName(4)}
	if !slices.Equal(all, want) {
		w.Fatalf("finished %v, want %v", all, want)
	}
}

func tryPrune(w *world) {
	w.finish(6)
	d, debt := w.running("debtor", 7, 1)
	w.wrote("D", jobChange(w.over(d, 50), attempt(debt, exited(0), ended(messages.Cause_CAUSE_CANCELLED))))
	prune := func(before int64, limit, want int) {
		w.Helper()
		if n, err := w.s.Prune(w.epoch, before, limit); err != nil || n != want {
			w.Fatalf("pruned %d (%v), want %d", n, err, want)
		}
	}
	prune(104, 3, 3)
	prune(104, 3, 1)
	prune(104, 3, 0)
	w.crash()
	if ids, _ := w.page(store.Position{}, 10); !slices.Equal(ids, []string{"debtor", jobName(4), jobName(5)}) {
		w.Fatalf("left are %v", ids)
	}
	w.absent(jobName(0))
	// Each is queried alone.
	for id, want := range map[string]bool{
		jobName(0): true, jobName(4): false, "debtor": false, "never": false, "": false, "\x00": false,
	} {
		if got, err := w.s.Pruned(topology.JobID(id)); err != nil || got != want {
			w.Fatalf("job %q was pruned: %t (%v)", id, got, err)
		}
	}
	if _, _, err := w.s.Requested("alice", "request-"+jobName(0)); !errors.Is(err, store.ErrNotFound) {
		w.Fatalf("the request of a pruned job: %v", err)
	}
	reused, sameRequest := w.submit(jobName(0), 20), w.submit("fresh", 21)
	reused.RequestId, sameRequest.RequestId = "new", "request-"+jobName(0)
	w.wrote("CD", jobChange(reused), jobChange(sameRequest))
	if got := w.load().Arrival; got != 21 {
		w.Fatalf("arrival %d, want 21", got)
	}
}
