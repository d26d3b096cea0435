package storetest

import (
	"errors"
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/topology"
)

// This file owns the cases about leadership, durability and the compare-and-set. Cases about decisions are in
// cases_attempt_test.go, those about reading and deleting in cases_read_test.go.

func tryEpochs(w *world) {
	first := w.epoch
	if first == 0 {
		w.Fatal("epoch 0 names no leader")
	}
	w.lead()
	second := w.epoch
	w.crash()
	if first >= second || second >= w.epoch {
		w.Fatalf("epochs %d, %d, %d do not grow", first, second, w.epoch)
	}
}

func tryDeposed(w *world) {
	old := w.epoch
	w.lead()
	j := w.submit("j", 1)
	for _, epoch := range []uint64{0, old, w.epoch + 1} {
		if _, err := w.s.Apply(epoch, []actors.Change{jobChange(j)}); !errors.Is(err, store.ErrDeposed) {
			w.Fatalf("apply under epoch %d: %v", epoch, err)
		}
		if _, err := w.s.Load(epoch); !errors.Is(err, store.ErrDeposed) {
			w.Fatalf("load under epoch %d: %v", epoch, err)
		}
		if _, err := w.s.Prune(epoch, 1, 1); !errors.Is(err, store.ErrDeposed) {
			w.Fatalf("prune under epoch %d: %v", epoch, err)
		}
	}
	w.absent("j")
	w.wrote("D", jobChange(j))
}

func tryDurable(w *world) {
	j, a := w.running("j", 3, 1)
	n := w.machine("n0")
	w.wrote("D", actors.Change{Node: n})
	w.crash()
	w.stored(j, a)
	l := w.load()
	if len(l.Nodes) != 1 || !proto.Equal(l.Nodes[0], n) {
		w.Fatalf("nodes are %v", l.Nodes)
	}
	if l.Arrival != 3 {
		w.Fatalf("arrival %d, want 3", l.Arrival)
	}
	w.wrote("D", jobChange(w.active(j, a), attempt(a, ended(messages.Cause_CAUSE_SUCCEEDED))))
}

func tryAliasing(w *world) {
	j := w.submit("j", 1)
	want := proto.Clone(j).(*messages.JobRecord)
	w.wrote("D", jobChange(j))
	j.Spec.Name, j.State = "changed behind the store's back", messages.JobState_JOB_STATE_FAILED
	w.stored(want)
	w.load().Jobs[0].Spec.Name = "changed by a reader"
	w.stored(want)
}

func tryRevision(w *world) {
	j := w.submit("j", 1)
	skipped := w.next(j, nil)
	w.wrote("C", jobChange(skipped)) // there is no record yet
	w.wrote("D", jobChange(j))
	other := w.submit("j", 1)
	w.wrote("C", jobChange(other)) // created twice
	k := w.next(j, nil)
	rival := w.next(j, nil)
	w.wrote("DC", jobChange(k), jobChange(rival))
	w.wrote("C", jobChange(w.next(w.next(k, nil), nil))) // skips one
	w.stored(k)
}

func tryRepeated(w *world) {
	j, a := w.running("j", 1, 1)
	w.wrote("D", jobChange(j, a))
	w.crash()
	w.wrote("D", jobChange(j, a)) // the answer had been lost
	w.stored(j, a)
	n := w.machine("n0")
	w.wrote("DD", actors.Change{Node: n}, actors.Change{Node: n})
	k := w.next(j, nil)
	w.wrote("D", jobChange(k))
	w.wrote("C", jobChange(j, a)) // a late one, after the record changed
	w.stored(k, a)
}

func tryIndependent(w *world) {
	j, k := w.submit("j", 1), w.submit("k", 2)
	w.wrote("D", jobChange(j))
	w.wrote("CDCD", jobChange(w.submit("j", 1)), jobChange(k), jobChange(w.next(w.next(j, nil), nil)),
		actors.Change{Node: w.machine("n0")})
	w.crash()
	w.stored(j)
	w.stored(k)
	if nodes := w.load().Nodes; len(nodes) != 1 {
		w.Fatalf("nodes are %v", nodes)
	}
}

func tryRequests(w *world) {
	j := w.submit("j", 1)
	twice := w.submit("k", 2)
	twice.RequestId = j.RequestId
	w.wrote("DC", jobChange(j), jobChange(twice))
	w.absent("k")
	got, _, err := w.s.Requested("alice", j.RequestId)
	if err != nil || got.Id != "j" {
		w.Fatalf("requested: %v, %v", got, err)
	}
	bobs := w.submit("b", 3)
	bobs.RequestId, bobs.Owner = j.RequestId, &messages.Principal{Name: "bob"}
	unnamed, another := w.submit("u1", 4), w.submit("u2", 5)
	unnamed.RequestId, another.RequestId = "", ""
	w.wrote("DDD", jobChange(bobs), jobChange(unnamed), jobChange(another))
	if _, _, err := w.s.Requested("alice", ""); !errors.Is(err, store.ErrNotFound) {
		w.Fatalf("no request at all: %v", err)
	}
	if _, _, err := w.s.Requested("alice", "\x00"); !errors.Is(err, store.ErrNotFound) {
		w.Fatalf("invalid text: %v", err)
	}
	w.absent("\x00")
	w.wrote("CC",
		jobChange(w.next(j, func(n *messages.JobRecord) { n.RequestId = "another" })),
		jobChange(w.next(j, func(n *messages.JobRecord) { n.Owner = &messages.Principal{Name: "bob"} })))
}

func tryTerminal(w *world) {
	j := w.submit("j", 1)
	k := w.over(j, 10)
	w.wrote("DD", jobChange(j), jobChange(k))
	for _, c := range []struct {
		name string
		edit func(*messages.JobRecord)
	}{
		{"revived", func(n *messages.JobRecord) { n.State = messages.JobState_JOB_STATE_QUEUED }},
		{"cancelled", func(n *messages.JobRecord) { n.State = messages.JobState_JOB_STATE_CANCELLED }},
		{"with another code", func(n *messages.JobRecord) { n.ExitCode = 1 }},
		{"at another time", func(n *messages.JobRecord) { n.FinishedUnixMs = 11 }},
	} {
		w.Log(c.name)
		w.wrote("C", jobChange(w.next(k, c.edit)))
	}
	w.wrote("C", jobChange(w.next(k, nil), commit("j", w.token(1)))) // nothing starts any more
	l := w.next(k, func(n *messages.JobRecord) { n.Cancel = &messages.Deed{Reason: "too late"} })
	w.wrote("D", jobChange(l))
	w.stored(l)
}

func tryShape(w *world) {
	j := w.submit("j", 1)
	noID, noWriter, noState := w.submit("", 2), w.submit("k", 2), w.submit("l", 2)
	noWriter.WrittenBy, noState.State = nil, 0
	zero, far, farRequest := w.submit("z\x00", 2), w.submit("f", 2), w.submit("g", 2)
	far.WrittenBy.Counter = 1 << 63
	farRequest.RequestId = "r\x00"
	noNodeWriter := w.machine("n0")
	noNodeWriter.WrittenBy = nil
	w.wrote("DCCCCCCCCCC", jobChange(j), jobChange(zero), jobChange(far), jobChange(farRequest),
		jobChange(noID), jobChange(noWriter), jobChange(noState), actors.Change{},
		actors.Change{Node: noNodeWriter}, actors.Change{Node: w.machine("")},
		actors.Change{Node: w.machine("n0"), Attempts: []*messages.AttemptRecord{commit("j", w.token(1))}})
	w.stored(j)
	if nodes := w.load().Nodes; len(nodes) != 0 {
		w.Fatalf("nodes are %v", nodes)
	}
}

// tryUnreadable checks that a bug which reaches the store affects one job, but not the store.
func tryUnreadable(w *world) {
	j := w.submit("j", 1)
	noSpec := w.submit("k", 2)
	noSpec.Spec = nil
	noNode := w.machine("n\n0")
	w.wrote("DCC", jobChange(j), jobChange(noSpec), actors.Change{Node: noNode})
	damages := map[string]func(*messages.AttemptRecord){
		"the port 0":   func(a *messages.AttemptRecord) { a.Rendezvous.Port = 0 },
		"no address":   func(a *messages.AttemptRecord) { a.Rendezvous.Address = "" },
		"a rank twice": func(a *messages.AttemptRecord) { a.Places[1].Rank = 0 },
		"no grant":     func(a *messages.AttemptRecord) { a.Places[1].Grant = nil },
	}
	for what, damage := range damages { //order: each is tried by itself
		a := commit("j", w.token(1))
		a.Rendezvous = &messages.Rendezvous{
			Address: "n0", Port: 1024, Peers: []*messages.Peer{{Node: "n0"}, {Rank: 1, Node: "n1"}},
		}
		damage(a)
		if verdicts, err := w.s.Apply(w.epoch, []actors.Change{jobChange(w.active(j, a), a)}); err != nil ||
			verdicts[0] != actors.Conflict {
			w.Errorf("%s: %v, %v", what, verdicts, err)
		}
	}
	w.crash()
	w.stored(j)
	if l := w.load(); len(l.Jobs) != 1 || len(l.Nodes) != 0 {
		w.Fatalf("loaded %v", l)
	}
}

func tryNodes(w *world) {
	n := w.machine("n0")
	w.wrote("D", actors.Change{Node: n})
	w.wrote("C", actors.Change{Node: w.machine("n0")})
	drained := proto.Clone(n).(*messages.NodeRecord)
	drained.Revision, drained.WrittenBy, drained.Drained = 2, w.stamp(), &messages.Deed{Reason: "new fans"}
	rival := proto.Clone(drained).(*messages.NodeRecord)
	rival.WrittenBy = w.stamp()
	w.wrote("DC", actors.Change{Node: drained}, actors.Change{Node: rival})
	w.crash()
	if nodes := w.load().Nodes; len(nodes) != 1 || !proto.Equal(nodes[0], drained) {
		w.Fatalf("nodes are %v", nodes)
	}
}

func tryTogether(w *world) {
	j, n := w.submit("j", 1), w.machine("n0")
	w.wrote("D", actors.Change{Job: j, Node: n})
	w.wrote("D", actors.Change{Job: j, Node: n})
	k := w.next(j, nil)
	w.wrote("C", actors.Change{Job: k, Node: w.machine("n0")}) // the node's half conflicts
	w.stored(j)
	w.wrote("C", actors.Change{Job: k, Node: n}) // half of it is stored, so it never was one write
	w.stored(j)
	m := w.machine("n1")
	w.wrote("C", actors.Change{Job: w.next(k, nil), Node: m}) // the job's half conflicts
	if nodes := w.load().Nodes; len(nodes) != 1 {
		w.Fatalf("nodes are %v", nodes)
	}
}

// tryConcurrent checks simultaneous reads and writes of one job: each revision comes from one writer.
func tryConcurrent(w *world) {
	const callers, rounds = 8, 10
	w.wrote("D", jobChange(w.submit("j", 1)))
	var won atomic.Uint64
	var wait sync.WaitGroup
	for caller := range uint64(callers) {
		wait.Go(func() {
			for round := range uint64(rounds) {
				job, _, err := w.s.Job("j")
				if err != nil {
					w.Error(err)
					return
				}
				job.Revision++
				job.WrittenBy = &messages.Token{Epoch: w.epoch, Counter: 1000*caller + round + 100}
				verdicts, err := w.s.Apply(w.epoch, []actors.Change{jobChange(job)})
				if err != nil {
					w.Error(err)
					return
				}
				if verdicts[0] == actors.Done {
					won.Add(1)
				}
			}
		})
	}
	wait.Wait()
	job, _, err := w.s.Job("j")
	if err != nil || job.Revision != 1+won.Load() || won.Load() < rounds {
		w.Fatalf("%d writes won, and the revision is %d (%v)", won.Load(), job.GetRevision(), err)
	}
}

func tryClosed(w *world) {
	if err := w.s.Close(); err != nil {
		w.Fatalf("close: %v", err)
	}
	_, leadErr := w.s.Lead("late")
	_, loadErr := w.s.Load(w.epoch)
	_, applyErr := w.s.Apply(w.epoch, nil)
	_, _, jobErr := w.s.Job(topology.JobID("j"))
	_, finishedErr := w.s.Finished(store.Position{}, 1)
	_, historyErr := w.s.History(store.Past{Look: 1})
	_, scriptErr := w.s.Script("none")
	keepErr := w.s.KeepScript(w.epoch, []byte("#!"))
	for i, err := range []error{leadErr, loadErr, applyErr, jobErr, finishedErr, historyErr, scriptErr, keepErr} {
		if !errors.Is(err, store.ErrClosed) {
			w.Fatalf("call %d on a closed store: %v", i, err)
		}
	}
}
