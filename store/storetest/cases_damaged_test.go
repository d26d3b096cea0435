package storetest

import (
	"errors"
	"slices"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/topology"
)

// This file owns the case about damage: an unreadable record affects its own job or node only.

// tryDamaged damages the record of one live job and that of an attempt of another, the same for two finished jobs, and
// the record of a node.
func tryDamaged(w *world) {
	good, attempt1 := w.running("good", 1, 1)
	w.running("bad", 2, 2)
	torn, attempt3 := w.running("torn", 3, 3)
	w.past("past", "bob", "q", messages.JobState_JOB_STATE_SUCCEEDED, 50)
	w.past("fine", "bob", "q", messages.JobState_JOB_STATE_SUCCEEDED, 51)
	gone, attempt4 := w.running("gone", 4, 4)
	w.wrote("D", jobChange(w.over(gone, 52), attempt(attempt4, exited(0, 1), ended(messages.Cause_CAUSE_SUCCEEDED))))
	w.wrote("DD", actors.Change{Node: w.machine("n0")}, actors.Change{Node: w.machine("n1")})
	w.damage("job", "bad")
	w.damage("attempt", "torn")
	w.damage("job", "past")
	w.damage("attempt", "gone")
	w.damage("node", "n1")

	w.setAside([]string{"bad of alice", "torn of alice", "n1"}, []string{"good"}, []string{"n0"})
	w.pastWithout()
	_, _, err := w.s.Job("bad")
	found := store.Answer(w.s, actors.Query{Owner: "alice", RequestID: "request-torn"})
	if !errors.Is(err, store.ErrDamaged) || found.Damaged == "" || found.Err != "" || found.Job != nil {
		w.Fatalf("a damaged job is %v, and its request made %+v", err, found)
	}

	// An unreadable job cannot be written, while a node gets a first record.
	second := w.machine("n1")
	second.Revision = 2
	over := jobChange(w.over(torn, 60), attempt(attempt3, exited(0, 1), ended(messages.Cause_CAUSE_CANCELLED)))
	w.wrote("CC", over, actors.Change{Node: second})
	first := w.machine("n1")
	w.wrote("DDC", actors.Change{Node: first}, actors.Change{Node: first}, actors.Change{Drop: "good"})
	// It is dropped once, permanently, and only as a separate change.
	drop := actors.Change{Drop: "bad"}
	w.wrote("CCDD", actors.Change{Drop: "never"}, actors.Change{Drop: "bad", Node: second}, drop, drop)
	again := w.submit("bad", 9)
	again.RequestId = "another"
	same := w.submit("same", 10)
	same.RequestId = "request-bad"
	w.wrote("DCD", actors.Change{Drop: "torn"}, jobChange(again), jobChange(same))

	w.setAside(nil, []string{"good", "same"}, []string{"n0", "n1"})
	w.stored(good, attempt1)
	w.absent("bad")
	for _, id := range []topology.JobID{"bad", "torn"} {
		if pruned, err := w.s.Pruned(id); err != nil || !pruned {
			w.Fatalf("%s was dropped, and is forgotten: %t (%v)", id, pruned, err)
		}
	}
}

// setAside checks which records a load omits and which not, also after a crash.
func (w *world) setAside(damaged, jobs, nodes []string) {
	w.Helper()
	for range 2 {
		l := w.load()
		var aside, have, machines []string
		for _, d := range l.Damaged {
			name := string(d.Node)
			if d.Job != "" {
				name = string(d.Job) + " of " + d.Owner
			}
			if aside = append(aside, name); d.What == "" || d.Over {
				w.Fatalf("the error does not name the damage: %+v", d)
			}
		}
		for _, j := range l.Jobs {
			have = append(have, j.Id)
		}
		for _, n := range l.Nodes {
			machines = append(machines, n.Id)
		}
		slices.Sort(aside)
		want := slices.Sorted(slices.Values(damaged))
		if !slices.Equal(aside, want) || !slices.Equal(have, jobs) || !slices.Equal(machines, nodes) {
			w.Fatalf("set aside are %v, and loaded %v and %v; want %v, %v and %v", aside, have, machines, want, jobs, nodes)
		}
		for _, a := range l.Attempts {
			if !slices.Contains(jobs, a.Job) {
				w.Fatalf("an attempt of %s was loaded without its job", a.Job)
			}
		}
		w.crash()
	}
}

// pastWithout reads finished jobs page by page. Unreadable ones are omitted and named.
func (w *world) pastWithout() {
	w.Helper()
	for _, look := range []int{1, 2, 10} {
		var jobs, damaged []string
		for p := (store.Past{Look: look}); ; {
			page, err := w.s.History(p)
			if err != nil {
				w.Fatalf("history: %v", err)
			}
			for _, j := range page.Jobs {
				jobs = append(jobs, j.Job.Id)
			}
			for _, d := range page.Damaged {
				damaged = append(damaged, string(d.Job))
			}
			if p.Before = page.Next; p.Before == (store.Position{}) {
				break
			}
		}
		slices.Sort(damaged)
		if !slices.Equal(jobs, []string{"fine"}) || !slices.Equal(damaged, []string{"gone", "past"}) {
			w.Fatalf("%d at a time, the past is %v without %v", look, jobs, damaged)
		}
	}
}
