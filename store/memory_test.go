package store

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// dump returns the entire content of a store as text, including indexes.
func (m *Memory) dump() string {
	ids := make([]topology.JobID, 0, len(m.jobs))
	for id := range m.jobs {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	out := fmt.Sprintf("arrival %d, %d requests, %d tokens, finished %v, pruned %v\n",
		m.arrival, len(m.requests), len(m.tokens), m.finished, m.pruned)
	for _, id := range ids {
		_, live := m.live[id]
		e := m.jobs[id]
		out += fmt.Sprintf("%s live=%v %+v %x\n", id, live, e.head, e.record)
		for _, a := range e.attempts {
			out += fmt.Sprintf("  %s ended=%v owes=%v of=%s %x\n", a.token, a.ended, a.owes, m.tokens[a.token], a.record)
		}
	}
	for r, id := range m.requests {
		if h := m.jobs[id].head; h.Owner != r.owner || h.RequestID != r.id {
			out += fmt.Sprintf("request %v leads to %s of another\n", r, id)
		}
	}
	nodes := make([]topology.NodeID, 0, len(m.nodes))
	for id := range m.nodes {
		nodes = append(nodes, id)
	}
	slices.Sort(nodes)
	for _, id := range nodes {
		out += fmt.Sprintf("%s %x\n", id, m.nodes[id])
	}
	return out
}

// leader makes random changes that are often valid: it continues from the stored records.
type leader struct {
	m      *Memory
	writes uint64
}

func (l *leader) change(t *rapid.T) actors.Change {
	l.writes++
	by := &messages.Token{Epoch: 1, Counter: l.writes}
	if rapid.IntRange(0, 9).Draw(t, "machine") == 0 {
		return actors.Change{Node: &messages.NodeRecord{
			Id: rapid.SampledFrom([]string{"n0", "n1"}).Draw(t, "node"), Revision: rapid.Uint64Range(1, 3).Draw(t, "revision"),
			WrittenBy: by,
		}}
	}
	id := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "job")
	e := l.m.jobs[topology.JobID(id)]
	if e == nil {
		return actors.Change{Job: &messages.JobRecord{
			Id: id, Revision: 1, WrittenBy: by, Arrival: l.writes, State: messages.JobState_JOB_STATE_QUEUED,
			Owner: &messages.Principal{Name: "alice"}, RequestId: rapid.SampledFrom([]string{"", "r", id}).Draw(t, "request"),
		}}
	}
	job, attempts, err := e.read(topology.JobID(id))
	if err != nil {
		t.Fatal(err)
	}
	job.Revision, job.WrittenBy = job.Revision+1, by
	return l.goOn(t, job, attempts)
}

// goOn takes a job one step further.
func (l *leader) goOn(t *rapid.T, job *messages.JobRecord, attempts []*messages.AttemptRecord) actors.Change {
	c := actors.Change{Job: job}
	var open *messages.AttemptRecord
	if n := len(attempts); n > 0 && attempts[n-1].End == nil {
		open = attempts[n-1]
	}
	switch rapid.IntRange(0, 3).Draw(t, "step") {
	case 0:
		a := &messages.AttemptRecord{
			Job: job.Id, Token: &messages.Token{Epoch: 1, Counter: l.writes}, Run: 1,
			Places: []*messages.Place{{Node: "n0", MachineId: "m0", Grant: &messages.Grant{Amount: &messages.Resources{}}}},
		}
		job.State, job.Attempt = messages.JobState_JOB_STATE_ACTIVE, a.Token
		c.Attempts = append(c.Attempts, a)
	case 1:
		if open != nil {
			open.End = &messages.End{Cause: messages.Cause_CAUSE_SUCCEEDED}
			c.Attempts = append(c.Attempts, open)
		}
	case 2:
		for _, a := range attempts {
			a.Places[0].Exit = &messages.Exit{Kind: messages.ExitKind_EXIT_KIND_EXITED}
		}
		c.Attempts = attempts
	case 3:
		if !job.State.Terminal() {
			job.State, job.FinishedUnixMs = messages.JobState_JOB_STATE_SUCCEEDED, int64(l.writes)
		}
	}
	return c
}

// TestMemoryCrashLeavesAPrefix checks that a crash leaves exactly the synced transactions and a prefix of the others.
// The result equals a store to which only those were applied.
func TestMemoryCrashLeavesAPrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := NewMemory()
		m.HoldSync()
		if _, err := m.Lead("tester"); err != nil {
			t.Fatal(err)
		}
		l := &leader{m: m}
		var durable, volatile []func(*Memory)
		write := func(do func(*Memory)) {
			do(m)
			volatile = append(volatile, do)
		}
		apply := func(t *rapid.T) {
			var changes []actors.Change
			for range rapid.IntRange(1, 3).Draw(t, "changes") {
				changes = append(changes, l.change(t))
			}
			write(func(m *Memory) { _, _ = m.Apply(1, changes) })
		}
		prune := func(t *rapid.T) {
			before := rapid.Int64Range(0, int64(l.writes)+1).Draw(t, "before")
			write(func(m *Memory) { _, _ = m.Prune(1, before, 2) })
		}
		t.Repeat(map[string]func(*rapid.T){
			"apply": apply, "apply again": apply, "prune": prune,
			"sync": func(*rapid.T) {
				m.Sync()
				durable, volatile = append(durable, volatile...), nil
			},
			"crash": func(t *rapid.T) {
				keep := rapid.IntRange(0, len(volatile)).Draw(t, "keep")
				m.CrashKeeping(keep)
				durable, volatile = append(durable, volatile[:keep]...), nil
			},
			"": func(t *rapid.T) {
				oracle := NewMemory()
				_, _ = oracle.Lead("tester")
				for _, do := range append(slices.Clone(durable), volatile...) {
					do(oracle)
				}
				if got, want := m.dump(), oracle.dump(); got != want {
					t.Fatalf("the store has\n%s\nwant\n%s", got, want)
				}
			},
		})
	})
}

func TestMemorySyncsBeforeItShows(t *testing.T) {
	shows := map[string]func(*Memory){
		"Load":      func(m *Memory) { _, _ = m.Load(1) },
		"Job":       func(m *Memory) { _, _, _ = m.Job("j") },
		"Requested": func(m *Memory) { _, _, _ = m.Requested("alice", "r") },
		"Finished":  func(m *Memory) { _, _ = m.Finished(Position{}, 1) },
		"History":   func(m *Memory) { _, _ = m.History(Past{Look: 1}) },
		"Lead":      func(m *Memory) { _, _ = m.Lead("next") },
	}
	for name, show := range shows {
		m := NewMemory()
		m.HoldSync()
		_, _ = m.Lead("tester")
		l := submitted("j", 1)
		if v, err := m.Apply(1, []actors.Change{{Job: l}}); err != nil || v[0] != actors.Done || len(m.tail) != 1 {
			t.Fatalf("apply: %v %v, %d transactions that a crash undoes", v, err, len(m.tail))
		}
		show(m)
		m.Crash()
		if got, _, err := m.Job("j"); err != nil || !proto.Equal(got, l) {
			t.Errorf("%s showed a record that a crash undid: %v", name, err)
		}
	}
	m := NewMemory()
	m.HoldSync()
	_, _ = m.Lead("tester")
	_, _ = m.Apply(1, []actors.Change{{Job: submitted("j", 1)}})
	m.Crash()
	if _, _, err := m.Job("j"); err == nil {
		t.Error("a record that was neither synced nor shown survived")
	}
	if got := m.Broken(); len(got) != 0 {
		t.Errorf("rules broken: %v", got)
	}
}

// submitted returns the smallest record that may be submitted.
func submitted(id string, write uint64) *messages.JobRecord {
	return &messages.JobRecord{
		Id: id, Revision: 1, WrittenBy: &messages.Token{Epoch: 1, Counter: write}, Arrival: write,
		Owner: &messages.Principal{Name: "alice"}, RequestId: "r" + id, State: messages.JobState_JOB_STATE_QUEUED,
		Spec: &messages.JobSpec{Name: "train"},
	}
}

func TestRulesTellBugsFromRaces(t *testing.T) {
	m := NewMemory()
	_, _ = m.Lead("tester")
	j := submitted("j", 1)
	_, _ = m.Apply(1, []actors.Change{{Job: j}, {Job: submitted("j", 2)}, {}})
	got := m.Broken()
	if got[RuleRevision] != 1 || got[RuleShape] != 1 || len(got) != 2 {
		t.Fatalf("broken rules: %v", got)
	}
	if RuleRevision.Bug() || Rule("").Bug() || !RuleShape.Bug() {
		t.Fatal("a lost race counts as a bug, or an empty change does not")
	}
}

// TestSeats checks that an epoch which was issued twice belongs to the process that took it last.
func TestSeats(t *testing.T) {
	m := NewMemory()
	a, b := m.HeldBy("a"), m.HeldBy("b")
	backup := m.Copy(0)
	epoch, err := a.Lead("")
	if err != nil {
		t.Fatal(err)
	}
	b.Memory, a.Memory = backup, backup // the replica that has lost the epoch
	if again, err := b.Lead(""); err != nil || again != epoch {
		t.Fatalf("epoch %d (%v), want %d once more", again, err, epoch)
	}
	_, applyErr := a.Apply(epoch, nil)
	_, loadErr := a.Load(epoch)
	_, pruneErr := a.Prune(epoch, 1, 1)
	for i, err := range []error{applyErr, loadErr, pruneErr} {
		if !errors.Is(err, ErrDeposed) {
			t.Errorf("call %d of the earlier leader: %v", i, err)
		}
	}
	if _, err := b.Load(epoch); err != nil {
		t.Error(err)
	}
}
