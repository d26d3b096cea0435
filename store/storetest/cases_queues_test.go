package storetest

import (
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
)

// This file owns the case about queues: there is one configuration, the last that was written, and the next leader has
// it.

func (w *writer) queues(revision uint64, names ...string) *messages.QueuesRecord {
	r := &messages.QueuesRecord{WrittenBy: w.stamp(), Revision: revision, Queues: &messages.Queues{Default: names[0]}}
	for _, name := range names {
		r.Queues.Queues = append(r.Queues.Queues, &messages.QueueSpec{
			Name: name, Quota: []*messages.Amount{{Name: "gpu", Amount: 8_000}},
		})
	}
	return r
}

// describes compares a load with the configuration, also after a crash.
func (w *world) describes(want *messages.QueuesRecord) {
	w.Helper()
	for range 2 {
		if l := w.load(); !proto.Equal(l.Queues, want) || len(l.Damaged) > 0 {
			w.Fatalf("the queues are\n%v\nwant\n%v; damaged is %v", l.Queues, want, l.Damaged)
		}
		w.crash()
	}
}

func tryQueues(w *world) {
	w.describes(nil)
	one := w.queues(1, "nlp")
	change := func(r *messages.QueuesRecord) actors.Change { return actors.Change{Queues: r} }
	w.wrote("DD", change(one), change(one)) // its answer had been lost
	w.describes(one)
	two, three := w.queues(2, "nlp", "vision"), w.queues(3, "vision")
	w.wrote("DCC", change(three), change(two), change(one)) // late ones
	w.describes(three)
	w.wrote("CCCC", actors.Change{Queues: w.queues(4, "a"), Node: w.machine("n0")},
		actors.Change{Queues: w.queues(4, "a"), Policy: w.policy()},
		change(&messages.QueuesRecord{WrittenBy: w.stamp(), Revision: 4}), // it configures nothing
		change(&messages.QueuesRecord{Revision: 4, Queues: one.Queues}))
	learned := w.policy("alice")
	w.wrote("D", actors.Change{Policy: learned}) // neither record blocks the other
	w.describes(three)
	w.learns(learned)
	w.damage("queues", "")
	if l := w.load(); l.Queues != nil || len(l.Damaged) != 1 || !l.Damaged[0].Queues || l.Damaged[0].What == "" {
		w.Fatalf("the queues are damaged, and loaded is %+v", l)
	}
	four := w.queues(1, "nlp")
	w.wrote("D", change(four))
	w.describes(four)
}
