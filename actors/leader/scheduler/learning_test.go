package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/topology"
)

// This file owns the tests of the run-time statistics and of their writes.

// savingClock records the delays before the next statistics record.
type savingClock struct {
	leadertest.Host
	waits []time.Duration
}

func (c *savingClock) After(d time.Duration, _ *actor.PID, message any) {
	if _, is := message.(saveLearned); is {
		c.waits = append(c.waits, d)
	}
}

// TestLearnedIsWrittenOnceAMinute checks that a record is written a minute after an attempt ended, one at a time. Each
// end is in exactly one record: ends during a write go into the next one.
func TestLearnedIsWrittenOnceAMinute(t *testing.T) {
	p, clock := leadertest.Ports(), &savingClock{}
	p.Clock = clock
	s := New(p, Makers{}).(*Scheduler)
	s.peers, s.self = leadertest.Peers, leadertest.Peers.Scheduler
	s.jobs["j"] = &livingJob{jobRecord: jobRecord{id: "j",
		rec: &messages.JobRecord{Id: "j", Spec: leadertest.OneGPU()}}}
	token := func(n uint64) topology.Token { return topology.Token{Epoch: 1, Counter: n} }
	var said []leadertest.Letter
	tell := func(m any) { s.Receive(&leadertest.Context{Hears: m, Said: &said}) }
	ends := func(n uint64, cause messages.Cause, ranMs int64) {
		tell(protocol.Foreseen{Job: "j", Token: token(n), Spec: leadertest.OneGPU(), Began: 1})
		tell(protocol.AttemptEnded{Job: "j", Token: token(n), End: &messages.End{Cause: cause, RanMs: ranMs}})
	}
	saves := func(want ...uint64) actors.Change {
		t.Helper()
		said = nil
		tell(saveLearned{})
		tell(mirror.GPUTimeTaken{Time: &messages.GpuTime{UntilUnixMs: 7}})
		if len(said) != 2 || said[0].Message != (mirror.TakeGPUTime{}) || said[1].To != "journal" {
			t.Fatalf("sent %v", said)
		}
		w := said[1].Message.(protocol.Write)
		if w.Tag != (learnedWrite{}) || fmt.Sprint(w.Change.Learned) != fmt.Sprint(tokens(want)) ||
			w.Change.Policy.Validate() != nil {
			t.Fatalf("written is %v, want %v", w.Change, want)
		}
		return w.Change
	}
	waits := func(want int) {
		t.Helper()
		if len(clock.waits) != want ||
			slices.ContainsFunc(clock.waits, func(d time.Duration) bool { return d != time.Minute }) {
			t.Fatalf("waited for %v, want %d times", clock.waits, want)
		}
	}
	waits(0)
	ends(1, messages.Cause_CAUSE_SUCCEEDED, 5_000)
	ends(2, messages.Cause_CAUSE_REQUEUED, 5_000)
	ends(3, messages.Cause_CAUSE_MEMBER_FAILED, 0) // unknown run time: the store has no note of it either
	waits(1)
	first := saves(1, 2)
	if at := slices.IndexFunc(first.Policy.Cells, func(c *messages.Cell) bool {
		return c.Level == messages.CellLevel_CELL_LEVEL_POOL
	}); at < 0 || first.Policy.Cells[at].Ended != 1 {
		t.Errorf("one job ran to its end, but statistics have %v", first.Policy.Cells)
	}
	ends(4, messages.Cause_CAUSE_TIME_LIMIT, 7_000)
	waits(1) // not while one is on its way
	tell(protocol.Written{Tag: learnedWrite{}, Verdict: actors.Done})
	waits(2)
	second := saves(4)
	if !messages.FromToken(first.Policy.WrittenBy).Less(messages.FromToken(second.Policy.WrittenBy)) {
		t.Errorf("%v was written after %v", second.Policy.WrittenBy, first.Policy.WrittenBy)
	}
	tell(protocol.Written{Tag: learnedWrite{}, Verdict: actors.Conflict})
	waits(2) // a refused record is not repeated alone
	ends(5, messages.Cause_CAUSE_CANCELLED, 1_000)
	waits(3)
	saves(4, 5)
	tell(protocol.Written{Tag: learnedWrite{}, Verdict: actors.Done})
	waits(3)

	// The next leader continues from the record, with the attempts that ended after it.
	next := New(p, Makers{}).(*Scheduler)
	next.peers = leadertest.Peers
	next.recall(&leadertest.Context{Said: &said}, actors.Loaded{Policy: second.Policy, Unlearned: []actors.Ended{{
		Job: s.jobs["j"].rec, Attempt: &messages.AttemptRecord{Token: messages.ToToken(token(5)),
			End: &messages.End{Cause: messages.Cause_CAUSE_CANCELLED, RanMs: 1_000}},
	}}})
	if !slices.Equal(next.learning.cells.Known(), s.learning.cells.Known()) {
		t.Errorf("the next leader has\n%v, the last one had\n%v", next.learning.cells.Known(), s.learning.cells.Known())
	}
	waits(4)
}

// TestEndIsHeardFromDisk checks an actor that failed before it could report the end of its attempt. The recreated
// actor's records contain the end, and the Scheduler counts it once, however often that happens.
func TestEndIsHeardFromDisk(t *testing.T) {
	p := leadertest.Ports()
	p.Clock = &watchClock{now: 1} // 0 stands for "not yet"
	s := New(p, Makers{}).(*Scheduler)
	s.peers, s.self = leadertest.Peers, leadertest.Peers.Scheduler
	token, rec := topology.Token{Epoch: 1, Counter: 1}, &messages.JobRecord{Id: "j", Spec: leadertest.OneGPU()}
	e := &livingJob{jobRecord: jobRecord{id: "j", rec: rec}}
	s.jobs["j"] = e
	var said []leadertest.Letter
	ctx := &leadertest.Context{Said: &said}
	s.onForeseen(ctx, protocol.Foreseen{Job: "j", Token: token, Spec: leadertest.OneGPU(), Began: 1})
	attempt := &messages.AttemptRecord{Token: messages.ToToken(token)}
	s.hearEnd(ctx, e, []*messages.AttemptRecord{attempt})
	if len(s.learning.news) != 0 {
		t.Fatal("an attempt that continues is in the statistics")
	}
	attempt.End = &messages.End{Cause: messages.Cause_CAUSE_SUCCEEDED, RanMs: 5_000}
	for range 2 {
		s.hearEnd(ctx, e, []*messages.AttemptRecord{attempt})
	}
	if !slices.Equal(s.learning.news, []topology.Token{token}) {
		t.Errorf("learned of %v, want %v once", s.learning.news, token)
	}
}

func tokens(counters []uint64) (out []topology.Token) {
	for _, n := range counters {
		out = append(out, topology.Token{Epoch: 1, Counter: n})
	}
	return out
}

// TestCellsOnDisk checks that cells are unchanged after a write and a read, and that the record may hold all cells that
// are kept.
func TestCellsOnDisk(t *testing.T) {
	if messages.MaxCells != estimate.MaxCells {
		t.Errorf("%d cells are kept, and a record takes %d", estimate.MaxCells, messages.MaxCells)
	}
	var known []estimate.Cell
	for level := estimate.OfPool; level <= estimate.OfOwnerQueueSizeLimit; level++ {
		key := estimate.CellKey{Level: level, Owner: "ann", Group: "train-é", Size: int64(level), Limit: 3600e9}
		known = append(known, estimate.Cell{CellKey: key, Count: 1<<20 + 7, Sum: 9, Ended: 50, Used: 3})
	}
	record := &messages.PolicyRecord{WrittenBy: &messages.Token{Epoch: 1, Counter: 1}, Cells: toCells(known)}
	read := &messages.PolicyRecord{}
	if err := proto.Unmarshal(messages.Bytes(record), read); err != nil || read.Validate() != nil {
		t.Fatal(err, read.Validate())
	}
	if got := fromCells(read.Cells); !slices.Equal(got, known) {
		t.Errorf("read as\n%v, written was\n%v", got, known)
	}
}

// TestCreditsAreKept checks that the anti-starvation credit of a planner goes into the record, and that the next
// leader's planner has it.
func TestCreditsAreKept(t *testing.T) {
	p := leadertest.Ports()
	p.Planner, p.Settings = nil, policy.DefaultSettings()
	first, next := New(p, Makers{}).(*Scheduler), New(p, Makers{}).(*Scheduler)
	want := []policy.Credit{{Pool: "", Amount: -3}, {Pool: "H100", Amount: 5_000_000_000}}
	first.remembers(func(r policy.Rememberer) { r.Recall(want) })
	record := &messages.PolicyRecord{Credits: first.credits()}
	next.self, next.peers = leadertest.Peers.Scheduler, leadertest.Peers
	next.recall(&leadertest.Context{Said: &[]leadertest.Letter{}}, actors.Loaded{Policy: record})
	looked := false
	next.remembers(func(r policy.Rememberer) {
		looked = true
		if got := r.Credits(); !slices.Equal(got, want) {
			t.Errorf("the next leader has %v, want %v", got, want)
		}
	})
	if !looked {
		t.Error("the next leader's planner has no guard")
	}
	p.Settings = policy.Settings{}
	if plain := New(p, Makers{}).(*Scheduler); plain.credits() != nil {
		t.Error("a planner that has no guard has credits")
	}
}

// TestOlderRecordsAreRecalled checks that a leader continues from records of earlier versions, which had cells only,
// then credits, then queue usage. It writes back everything that it read, including unknown fields of a later version.
func TestOlderRecordsAreRecalled(t *testing.T) {
	key := estimate.CellKey{Level: estimate.OfPool, Group: "H100"}
	cells := toCells([]estimate.Cell{{CellKey: key, Count: 3 << 20, Sum: 9_000, Ended: 3, Used: 3 << 20}})
	credits := []*messages.Credit{{Pool: "H100", MilliGpuSeconds: 5_000}}
	uses := []*messages.QueueUse{{Queue: "low", MilliGpuMs: 7_000}}
	later := &messages.PolicyRecord{Cells: cells}
	later.ProtoReflect().SetUnknown([]byte{0xf8, 0x3f, 7})
	for _, older := range []*messages.PolicyRecord{
		nil, {}, {Cells: cells}, {Cells: cells, Credits: credits}, {Cells: cells, Credits: credits, Uses: uses}, later,
	} {
		s := newDoor(t).s
		var said []leadertest.Letter
		ctx := &leadertest.Context{Said: &said}
		l := actors.Loaded{Policy: older}
		s.recall(ctx, l)
		s.recollect(l)
		s.onSaveLearned(ctx)
		s.onGPUTimeTaken(ctx, mirror.GPUTimeTaken{})
		written := said[len(said)-1].Message.(protocol.Write).Change.Policy
		want := &messages.PolicyRecord{
			WrittenBy: written.WrittenBy, Cells: older.GetCells(), Credits: older.GetCredits(), Uses: older.GetUses(),
		}
		want.ProtoReflect().SetUnknown(messages.Newer(older))
		if !proto.Equal(written, want) {
			t.Errorf("of\n%v\nthe next record is\n%v", older, written)
		}
	}
}
