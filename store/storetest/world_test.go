// Package storetest tests a store against its contract. Every database runs the same cases, so that the simulator's
// results for the store in memory apply to the others.
package storetest

import (
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/topology"
)

// contract tests one store.
func contract(t *testing.T, open opener) {
	for _, c := range []struct {
		name string
		try  func(*world)
	}{
		{"an epoch is higher than all before, also after a crash", tryEpochs},
		{"a deposed leader neither writes nor reads the queue", tryDeposed},
		{"what was written survives a crash, whole and equal", tryDurable},
		{"records do not share memory with their callers", tryAliasing},
		{"a job is written by compare-and-set on its revision", tryRevision},
		{"a repeated write is done, not a conflict", tryRepeated},
		{"a conflict does not hinder the other changes of a batch", tryIndependent},
		{"one request makes one job", tryRequests},
		{"what is over stays over", tryTerminal},
		{"a change that says too little is refused", tryShape},
		{"what could not be read again is not written", tryUnreadable},
		{"one COMMIT per token, one open attempt per job", tryCommit},
		{"what COMMIT decided, and how it ended, never changes", tryDecision},
		{"an exit never vanishes", tryEvidence},
		{"machines are written by compare-and-set", tryNodes},
		{"a job and a machine in one change are written together", tryTogether},
		{"load hands out what is not settled, in order of arrival", tryLoad},
		{"finished jobs are read in pages", tryFinished},
		{"history is what is over, by whose and when it was", tryHistory},
		{"history has a job with all its attempts, until it is pruned", tryHistoryWhole},
		{"a page of history is bounded, and nothing is between two", tryHistoryBytes},
		{"pruning forgets all but that the id was used", tryPrune},
		{"a script is kept once, for as long as a job names it", tryScripts},
		{"a leader learns once of each attempt that ended", tryPolicy},
		{"the queues are those that were written last", tryQueues},
		{"a person's token is there until it is dropped", tryPasses},
		{"how far each audit has got is what its scheduler said last", tryHeads},
		{"one damaged record is set aside, and the rest is there", tryDamaged},
		{"callers at the same time are judged one after the other", tryConcurrent},
		{"a closed store does nothing", tryClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &world{T: t, tried: open(t)}
			if _, err := w.s.Load(0); !errors.Is(err, store.ErrDeposed) {
				t.Fatalf("a load succeeds before the first leader: %v", err)
			}
			w.lead()
			c.try(w)
		})
	}
}

// world is one case: a store and the leader that writes to it.
type world struct {
	*testing.T
	writer
	tried
}

func (w *world) lead() {
	w.Helper()
	epoch, err := w.s.Lead("tester")
	if err != nil {
		w.Fatalf("lead: %v", err)
	}
	w.epoch = epoch
}

// crash kills the store's process, and leads again.
func (w *world) crash() {
	w.Helper()
	w.s = w.killed()
	w.lead()
}

// wrote applies changes and compares their verdicts with a word: D for done, C for conflict.
func (w *world) wrote(want string, changes ...actors.Change) {
	w.Helper()
	verdicts, err := w.s.Apply(w.epoch, changes)
	if err != nil {
		w.Fatalf("apply: %v", err)
	}
	got := ""
	for _, v := range verdicts {
		got += map[actors.Verdict]string{actors.Done: "D", actors.Conflict: "C"}[v]
	}
	if got != want {
		w.Fatalf("verdicts %q, want %q", got, want)
	}
}

func (w *world) load() *actors.Loaded {
	w.Helper()
	l, err := w.s.Load(w.epoch)
	if err != nil {
		w.Fatalf("load: %v", err)
	}
	return l
}

// stored compares a job and its attempts with the stored ones.
func (w *world) stored(want *messages.JobRecord, attempts ...*messages.AttemptRecord) {
	w.Helper()
	got, gotAttempts, err := w.s.Job(topology.JobID(want.Id))
	if err != nil {
		w.Fatalf("job %s: %v", want.Id, err)
	}
	if !proto.Equal(got, want) {
		w.Fatalf("job is\n%v\nwant\n%v", got, want)
	}
	if len(gotAttempts) != len(attempts) {
		w.Fatalf("job %s has %d attempts, want %d", want.Id, len(gotAttempts), len(attempts))
	}
	for i := range attempts {
		if !proto.Equal(gotAttempts[i], attempts[i]) {
			w.Fatalf("attempt %d is\n%v\nwant\n%v", i, gotAttempts[i], attempts[i])
		}
	}
}

func (w *world) absent(id string) {
	w.Helper()
	if _, _, err := w.s.Job(topology.JobID(id)); !errors.Is(err, store.ErrNotFound) {
		w.Fatalf("job %s: error %v, want not found", id, err)
	}
}

// token returns a token of one of this leader's attempts.
func (w *world) token(counter uint64) topology.Token {
	return topology.Token{Epoch: w.epoch, Counter: 1000 + counter}
}

// running writes a job with one open attempt.
func (w *world) running(id string, arrival, counter uint64) (*messages.JobRecord, *messages.AttemptRecord) {
	w.Helper()
	j := w.submit(id, arrival)
	a := commit(id, w.token(counter))
	k := w.active(j, a)
	w.wrote("D", jobChange(j))
	w.wrote("D", jobChange(k, a))
	return k, a
}
