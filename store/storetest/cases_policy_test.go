package storetest

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the case about statistics: there is one policy record. Each attempt that ran and ended is loaded until
// that record includes it, and never after.

func ranFor(ms int64) func(*messages.AttemptRecord) {
	return func(a *messages.AttemptRecord) {
		a.End = &messages.End{Cause: messages.Cause_CAUSE_SUCCEEDED, Rank: -1, AtUnixMs: 9, RanMs: ms}
	}
}

func (w *writer) policy(owners ...string) *messages.PolicyRecord {
	p := &messages.PolicyRecord{WrittenBy: w.stamp()}
	for i, owner := range owners {
		p.Cells = append(p.Cells, &messages.Cell{
			Level: messages.CellLevel_CELL_LEVEL_OWNER, Owner: owner, Count: 1 << 20, Sum: int64(i) << 40, Ended: 1,
		})
	}
	return p
}

// learns compares a load with the policy record and the attempts that it does not include, also after a crash.
func (w *world) learns(policy *messages.PolicyRecord, want ...string) {
	w.Helper()
	for range 2 {
		l := w.load()
		if !proto.Equal(l.Policy, policy) {
			w.Fatalf("the policy record is\n%v\nwant\n%v", l.Policy, policy)
		}
		var have []string
		for _, e := range l.Unlearned {
			if e.Attempt.Job != e.Job.Id || e.Attempt.End == nil {
				w.Fatalf("to be learned from is %v of %v", e.Attempt, e.Job)
			}
			have = append(have, fmt.Sprintf("%s/%d at revision %d", e.Job.Id, e.Attempt.Token.Counter-1000, e.Job.Revision))
		}
		if !slices.Equal(have, want) {
			w.Fatalf("to be learned from are %q, want %q", have, want)
		}
		w.crash()
	}
}

func tryPolicy(w *world) {
	first := topology.Token{Epoch: w.epoch, Counter: 1000}
	token := func(n uint64) topology.Token { return topology.Token{Epoch: first.Epoch, Counter: first.Counter + n} }
	again, attempt1 := w.running("again", 1, 1)
	brief, attempt2 := w.running("brief", 2, 2)
	older, attempt3 := w.running("older", 3, 3)
	lost, attempt4 := w.running("lost", 4, 4)
	w.learns(nil)
	ended1 := attempt(attempt1, ranFor(5))
	again = w.next(again, nil)
	w.wrote("D", jobChange(again, ended1))
	w.wrote("D", jobChange(again, ended1)) // its answer had been lost
	brief, ended2 := w.over(brief, 50), attempt(attempt2, ranFor(7), exited(0))
	w.wrote("DDD",
		jobChange(brief, ended2),
		// The run time of this attempt is unknown.
		jobChange(w.over(older, 51), attempt(attempt3, ended(messages.Cause_CAUSE_SUCCEEDED), exited(0, 1))),
		jobChange(w.next(lost, nil), attempt(attempt4, ended(messages.Cause_CAUSE_MACHINE_LOST)))) // it never ran
	w.learns(nil, "again/1 at revision 3", "brief/2 at revision 3")

	// The job continues, with later facts about the ended attempt and with another attempt.
	again = w.active(again, commit("again", token(5)))
	w.wrote("D", jobChange(again, attempt(ended1, exited(0, 1)), commit("again", token(5))))
	one := w.policy("alice", "bob")
	knows := func(p *messages.PolicyRecord, counters ...uint64) actors.Change {
		c := actors.Change{Policy: p}
		for _, n := range counters {
			c.Learned = append(c.Learned, token(n))
		}
		return c
	}
	w.wrote("D", knows(one, 2, 3, 4))
	w.wrote("D", knows(one, 2, 3, 4))
	w.wrote("D", jobChange(w.next(brief, nil), attempt(ended2, exited(1)))) // a late exit is not another end
	w.learns(one, "again/1 at revision 4")
	two, three := w.policy("alice"), w.policy()
	unreadable := w.policy("alice", "alice")
	w.wrote("DCDCCC", knows(two), knows(one, 1), knows(three), knows(two, 1), // a late one, whose content does not count
		knows(unreadable, 1), actors.Change{Policy: w.policy(), Learned: []topology.Token{{}}})
	w.wrote("CCC", actors.Change{Policy: w.policy(), Node: w.machine("n0")},
		actors.Change{Learned: []topology.Token{token(1)}}, actors.Change{Policy: &messages.PolicyRecord{}})
	w.learns(three, "again/1 at revision 4")

	// An attempt ends in one transaction with a record that already includes it. Another is deleted before any record
	// includes it.
	four := w.policy("carol")
	over := w.over(again, 60)
	w.wrote("DD", jobChange(over, attempt(commit("again", token(5)), ranFor(9), exited(0, 1))), knows(four, 5))
	w.learns(four, "again/1 at revision 5")
	if n, err := w.s.Prune(w.epoch, 100, 9); err != nil || n != 3 {
		w.Fatalf("pruned %d jobs: %v", n, err)
	}
	w.learns(four)
	w.damagedPolicy()
}

// damagedPolicy checks that an unreadable record is reported, affects nothing else, and is replaced by the next one.
func (w *world) damagedPolicy() {
	w.Helper()
	_, a := w.running("torn", 9, 20)
	w.damage("policy", "")
	l := w.load()
	if l.Policy != nil || len(l.Damaged) != 1 || !l.Damaged[0].Policy || l.Damaged[0].What == "" ||
		len(l.Attempts) != 1+1 || a.Job != "torn" {
		w.Fatalf("the policy record is damaged, and loaded is %+v", l)
	}
	next := w.policy("dave")
	w.wrote("D", actors.Change{Policy: next})
	w.learns(next)
}
