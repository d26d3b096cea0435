package store

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/yi-json/synapse/messages"
)

// This file owns the tests of the boundaries of rules, on both sides.

// TestLargestNumbers checks that the largest number that a database can store is accepted, and the next one is refused.
func TestLargestNumbers(t *testing.T) {
	for name, set := range map[string]func(*messages.JobRecord, uint64){ //order: each is tried by itself
		"arrival":           func(j *messages.JobRecord, n uint64) { j.Arrival = n },
		"turn of uids":      func(j *messages.JobRecord, n uint64) { j.UidTurn = n },
		"writer's epoch":    func(j *messages.JobRecord, n uint64) { j.WrittenBy.Epoch = n },
		"writer's counter":  func(j *messages.JobRecord, n uint64) { j.WrittenBy.Counter = n },
		"revision, by next": func(j *messages.JobRecord, n uint64) { j.Revision = n },
	} {
		for n, want := range map[uint64]Rule{math.MaxInt64: "", math.MaxInt64 + 1: RuleShape} { //order: the same
			j := submitted("j", 1)
			set(j, n)
			var stored *Head
			if j.Revision == n {
				h := headOf(j)
				h.Revision, h.WrittenBy.Counter = n-1, h.WrittenBy.Counter+1
				stored = &h
			}
			if repeated, rule := JudgeJob(stored, j); repeated || rule != want {
				t.Errorf("%s %d: the rule %q, want %q", name, n, rule, want)
			}
		}
	}
}

// TestCopyHasEverything checks that a copy of a store has every field, including fields that are added later.
func TestCopyHasEverything(t *testing.T) {
	m := NewMemory()
	original := reflect.ValueOf(m).Elem()
	// These fields belong to the process and not to the stored records.
	own := []string{"mu", "holding", "tail", "broken", "closed"}
	fill(m)
	dup := reflect.ValueOf(m.Copy(0)).Elem()
	for i := range original.NumField() {
		name := original.Type().Field(i).Name
		if slices.Contains(own, name) {
			continue
		}
		if original.Field(i).IsZero() || original.Field(i).Kind() == reflect.Map && original.Field(i).Len() == 0 {
			t.Errorf("the test stores nothing in %s", name)
		}
		if got, want := fmt.Sprint(dup.Field(i)), fmt.Sprint(original.Field(i)); got != want {
			t.Errorf("%s is %s in the copy, and %s here", name, got, want)
		}
	}
}

// fill writes one record of each kind into a store.
func fill(m *Memory) {
	j := submitted("j", 1)
	j.UidTurn = 3
	token := j.WrittenBy
	m.epoch, m.holder, m.arrival, m.uidTurn = 5, "me", 7, 3
	e := &jobEntry{record: encode(j), head: headOf(j)}
	e.head.State, e.head.RequestID = messages.JobState_JOB_STATE_FAILED, "r"
	e.attempts = []attemptEntry{{attemptHead: attemptHead{token: messages.FromToken(token)}, owes: true}}
	m.index("j", e)
	m.nodes["n1"], m.passes["p"] = []byte{1}, []byte{2}
	m.pruned["old"], m.unlearned[messages.FromToken(token)] = struct{}{}, struct{}{}
	m.scripts["s"], m.heads["h"] = &scriptEntry{text: []byte{3}}, AuditHead{Scheduler: "h", N: 1, Hash: "x"}
	m.policies.put(token, []byte{4})
	m.tree.put(token, []byte{5})
}
