package storetest

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/topology"
)

// This file owns random histories. The same history, half of which is invalid, must get the verdicts of the model
// (model_test.go) and leave its records, in each store. The other cases contain only situations that an author thought
// of. The random content is drawn in draws_test.go.

// histories runs this many histories, each on a separate store.
func histories(t *testing.T, open opener, seeds, steps int) {
	met, learned := map[store.Rule]int{}, 0
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			h := &history{T: t, r: rand.New(rand.NewPCG(seed, 7)), tried: open(t), m: newModel()}
			h.met = met
			h.lead()
			for range steps {
				h.step()
			}
			h.compare()
			learned += h.unlearned
		})
	}
	if learned < seeds && !t.Failed() {
		t.Errorf("only %d times there was an attempt to learn from", learned)
	}
	for _, rule := range []store.Rule{
		store.RuleRevision, store.RuleRequest, store.RuleID, store.RuleIdentity, store.RuleTerminal, store.RuleCommit,
		store.RuleDecision, store.RuleEnd, store.RuleEvidence, store.RuleWhole,
	} {
		if met[rule] == 0 && !t.Failed() {
			t.Errorf("no change broke the rule %s: the histories prove nothing about it", rule)
		}
	}
}

// history is one run of a store and the model.
type history struct {
	*testing.T
	r      *rand.Rand
	writer writer
	tried
	m    *model
	past [][]actors.Change // the transactions so far: the answer to any may have been lost
	met  map[store.Rule]int

	unlearned int // number of times that there was something to learn from
}

// lead begins a new epoch. The earlier leader can no longer write.
func (h *history) lead() {
	h.Helper()
	epoch, err := h.s.Lead("tester")
	if err != nil || epoch != h.writer.epoch+1 {
		h.Fatalf("epoch %d follows %d: %v", epoch, h.writer.epoch, err)
	}
	old := h.writer.epoch
	h.writer.epoch = epoch
	_, applied := h.s.Apply(old, []actors.Change{h.change(h.m)})
	_, loaded := h.s.Load(old)
	_, pruned := h.s.Prune(old, finishes, 9)
	for _, err := range []error{applied, loaded, pruned, h.s.DropPass(old, "p0")} {
		if !errors.Is(err, store.ErrDeposed) {
			h.Fatalf("epoch %d has ended, but its leader gets %v", old, err)
		}
	}
}

func (h *history) step() {
	h.Helper()
	switch n := h.r.IntN(60); {
	case n == 0:
		h.s = h.killed()
		h.lead()
	case n == 1 && h.again != nil:
		h.s = h.again()
		h.lead()
	case n == 2:
		h.lead()
	case n <= 5:
		h.compare()
	case n <= 8:
		before, limit := h.r.Int64N(finishes+2), h.r.IntN(3)
		got, err := h.s.Prune(h.writer.epoch, before, limit)
		if want := h.m.prune(before, limit); err != nil || got != want {
			h.Fatalf("%d were pruned of at most %d before %d, want %d: %v", got, limit, before, want, err)
		}
	case n <= 12 && len(h.past) > 0:
		h.apply(h.past[len(h.past)-1-h.r.IntN(min(len(h.past), 3))])
	case n == 13:
		h.spoil()
	case n <= 17:
		h.aside()
	default:
		h.apply(h.transaction())
	}
}

func (h *history) apply(changes []actors.Change) {
	h.Helper()
	got, err := h.s.Apply(h.writer.epoch, changes)
	if err != nil {
		h.Fatalf("apply\n%v: %v", changes, err)
	}
	for i, c := range changes {
		rule, want := h.m.change(c), actors.Done
		if rule != "" {
			h.met[rule]++
			want = actors.Conflict
		}
		if got[i] != want {
			h.Fatalf("change %d of\n%v\ngets %v, want %v (%s)", i, changes, got[i], want, rule)
		}
	}
	h.past = append(h.past, changes)
}

// spoil damages the record of a job. The job is named and set aside, and can be dropped.
func (h *history) spoil() {
	h.Helper()
	ids := slices.Sorted(maps.Keys(h.m.jobs))
	if len(ids) == 0 {
		return
	}
	id := ids[h.r.IntN(len(ids))]
	drop := []actors.Change{{Drop: topology.JobID(id)}}
	h.apply(drop) // it is readable, and stays
	h.damage("job", id)
	j := h.m.jobs[id]
	j.bad = true
	h.m.jobs[id] = j
	var damage *store.Damage
	if _, _, err := h.s.Job(topology.JobID(id)); !errors.As(err, &damage) {
		h.Fatalf("job %s is damaged, and read: %v", id, err)
	}
	l, err := h.s.Load(h.writer.epoch)
	page, wrong := h.s.History(store.Past{Look: 1_000})
	if err != nil || wrong != nil {
		h.Fatalf("job %s is damaged: %v, %v", id, err, wrong)
	}
	names := func(all []actors.Damaged) bool { return len(all) == 1 && all[0].Job == topology.JobID(id) }
	over := j.record.State.Terminal()
	if j.live() != names(l.Damaged) || over != names(page.Damaged) || len(page.Jobs) != len(h.m.finished())-one(over) {
		h.Fatalf("job %s is damaged, and %v and %v are named", id, l.Damaged, page.Damaged)
	}
	h.apply(drop)
}

func one(is bool) int {
	if is {
		return 1
	}
	return 0
}

// compare reads the store in every possible way.
func (h *history) compare() {
	h.Helper()
	got, err := h.s.Load(h.writer.epoch)
	if err != nil {
		h.Fatalf("load: %v", err)
	}
	want := h.m.load()
	h.same("the highest arrival and the turn of uids", fmt.Sprint(got.Arrival, got.UIDTurn),
		fmt.Sprint(want.Arrival, want.UIDTurn))
	sameRecords(h, "live jobs", got.Jobs, want.Jobs)
	sameRecords(h, "unsettled attempts", got.Attempts, want.Attempts)
	sameRecords(h, "nodes", got.Nodes, want.Nodes)
	sameRecords(h, "what was learned", []*messages.PolicyRecord{got.Policy}, []*messages.PolicyRecord{want.Policy})
	sameRecords(h, "the queues", []*messages.QueuesRecord{got.Queues}, []*messages.QueuesRecord{want.Queues})
	jobs, attempts := unlearned(got)
	wantJobs, wantAttempts := unlearned(want)
	sameRecords(h, "jobs to learn from", jobs, wantJobs)
	sameRecords(h, "attempts to learn from", attempts, wantAttempts)
	if len(got.Damaged) > 0 {
		h.Fatalf("damaged are %v", got.Damaged)
	}
	h.compareFinished()
	h.comparePast()
	h.compareJobs()
	h.compareAside()
}

func unlearned(l *actors.Loaded) (jobs []*messages.JobRecord, attempts []*messages.AttemptRecord) {
	for _, e := range l.Unlearned {
		jobs, attempts = append(jobs, e.Job), append(attempts, e.Attempt)
	}
	return jobs, attempts
}

// compareFinished reads all finished jobs in pages.
func (h *history) compareFinished() {
	h.Helper()
	var got, want []*messages.JobRecord
	for _, j := range h.m.finished() {
		want = append(want, j.record)
	}
	limit := 1 + h.r.IntN(4)
	for at := (store.Position{}); ; at = store.PositionOf(got[len(got)-1]) {
		page, err := h.s.Finished(at, limit)
		if err != nil || len(page) > limit {
			h.Fatalf("%d jobs behind %v, and at most %d were asked for: %v", len(page), at, limit, err)
		}
		if got = append(got, page...); len(page) < limit {
			break
		}
	}
	sameRecords(h, "finished jobs", got, want)
}

// comparePast queries finished jobs. The bounds are often exactly the time at which a job ended.
func (h *history) comparePast() {
	h.Helper()
	for range 3 {
		p := h.question()
		want := h.m.history(p)
		got := pages(h.T, h.s, p)
		if len(got) != len(want) {
			h.Fatalf("%+v: %d jobs %s, want %d", p, len(got), names(got), len(want))
		}
		for i, j := range got {
			sameRecords(h, fmt.Sprintf("%+v: job %d", p, i), []*messages.JobRecord{j.Job},
				[]*messages.JobRecord{want[i].record})
			sameRecords(h, "its attempts", j.Attempts, want[i].attempts)
		}
	}
}

// compareJobs looks up every job and every request.
func (h *history) compareJobs() {
	h.Helper()
	for i := range h.ids() + 1 {
		id := jobName(i)
		j, known := h.m.jobs[id]
		got, attempts, err := h.s.Job(topology.JobID(id))
		if known != (err == nil) || !known && !errors.Is(err, store.ErrNotFound) {
			h.Fatalf("job %s: known is %t, and reading it: %v", id, known, err)
		}
		sameRecords(h, "a job", []*messages.JobRecord{got}, []*messages.JobRecord{j.record})
		sameRecords(h, "its attempts", attempts, j.attempts)
		if pruned, err := h.s.Pruned(topology.JobID(id)); err != nil || pruned != h.m.pruned[id] {
			h.Fatalf("job %s: pruned is %t: %v", id, pruned, err)
		}
	}
	for _, owner := range owners {
		for _, request := range append([]string{"", "r"}, jobName(0), jobName(h.ids()-1)) {
			id := h.m.requested(owner, request)
			got, _, err := h.s.Requested(owner, request)
			if (id != "") != (err == nil) || got.GetId() != id || err != nil && !errors.Is(err, store.ErrNotFound) {
				h.Fatalf("request %q of %s: %s, want %q: %v", request, owner, got.GetId(), id, err)
			}
		}
	}
}

// compareAside reads the records outside of a leader's transactions: scripts, tokens of users, audit heads.
func (h *history) compareAside() {
	h.Helper()
	for i := range scripts {
		text := scriptText(i)
		s, known := h.m.scripts[messages.ScriptDigest(text)]
		got, err := h.s.Script(messages.ScriptDigest(text))
		if known != (err == nil) || !known && !errors.Is(err, store.ErrNotFound) || string(got) != s.text {
			h.Fatalf("script %d is %q: %v", i, got, err)
		}
	}
	var want []*messages.PassRecord
	for _, id := range slices.Sorted(maps.Keys(h.m.passes)) {
		want = append(want, h.m.passes[id])
	}
	passes, err := h.s.Passes()
	if err != nil {
		h.Fatalf("tokens: %v", err)
	}
	sameRecords(h, "tokens of people", passes, want)
	heads, err := h.s.Heads()
	if err != nil {
		h.Fatalf("heads: %v", err)
	}
	var wantHeads []store.AuditHead
	for _, of := range slices.Sorted(maps.Keys(h.m.heads)) {
		wantHeads = append(wantHeads, h.m.heads[of])
	}
	h.same("heads of audits", fmt.Sprint(heads), fmt.Sprint(wantHeads))
}

func (h *history) same(what string, got, want any) {
	h.Helper()
	if got != want {
		h.Fatalf("%s: %v, want %v", what, got, want)
	}
}

func sameRecords[M proto.Message](h *history, what string, got, want []M) {
	h.Helper()
	if len(got) != len(want) {
		h.Fatalf("%s: %v\nwant\n%v", what, got, want)
	}
	for i := range got {
		if !proto.Equal(got[i], want[i]) {
			h.Fatalf("%s: %v\nwant\n%v", what, got[i], want[i])
		}
	}
}
