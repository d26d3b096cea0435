package array

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
)

// This file owns the tests of the Array alone. Scenarios test it together with the other actors.

// swept is an Array with the messages that it has sent.
type swept struct {
	*testing.T
	a    *Array
	said []leadertest.Letter
}

func newSwept(t *testing.T, n int32, rec *messages.JobRecord) *swept {
	if rec == nil {
		spec := leadertest.OneGPU()
		spec.Array = &messages.ArraySpec{Indices: []*messages.IndexRange{{Last: n - 1}}}
		rec = &messages.JobRecord{
			Id: "k", Revision: 1, Spec: spec, State: messages.JobState_JOB_STATE_QUEUED,
			Array: &messages.ArrayRecord{Reach: protocol.ArrayStep},
		}
	}
	s := &swept{T: t, a: New(leadertest.Ports(), leadertest.Peers, 1, rec).(*Array)}
	s.a.states.Become("opened", arrayOpen)
	s.tell(protocol.ElementsTold{Fresh: rec.Revision == 1})
	return s
}

func (s *swept) tell(m any) {
	s.a.Receive(&leadertest.Context{Hears: m, Said: &s.said})
}

// sprouted returns the indices that the Array has requested.
func (s *swept) sprouted() (all []int32) {
	for _, l := range s.said {
		if m, is := l.Message.(protocol.Sprout); is {
			all = append(all, m.Index)
		}
	}
	return all
}

// write completes the pending write and returns the written record.
func (s *swept) write() *messages.JobRecord {
	d := s.a.flight
	if d == nil {
		return nil
	}
	s.tell(protocol.Written{Tag: d.rec.WrittenBy.Counter, Verdict: actors.Done})
	return d.rec
}

// TestElementsComeOneByOne checks that few elements are waiting jobs, in the order of their indices. Each is requested
// once, even if its state is reported repeatedly.
func TestElementsComeOneByOne(t *testing.T) {
	s := newSwept(t, 200, nil)
	if got := s.sprouted(); len(got) != maxElementsWaiting || got[0] != 0 || got[63] != 63 {
		t.Fatalf("asked for are %v", got)
	}
	for range 2 {
		s.tell(protocol.ElementMoved{Index: 3})
		s.tell(protocol.ElementMoved{Index: 5, Runs: true})
		s.tell(protocol.ElementMoved{Index: 7, Over: true, State: messages.JobState_JOB_STATE_FAILED})
		s.tell(protocol.ElementMoved{Index: 7, Over: true, State: messages.JobState_JOB_STATE_SUCCEEDED})
	}
	if got := s.sprouted(); len(got) != maxElementsWaiting+2 || got[64] != 64 || got[65] != 65 {
		t.Errorf("one runs and one has ended, so two more should be requested: %v", got[64:])
	}
	if c := s.a.counts(); c.Running != 1 || c.Failed != 1 || c.Succeeded != 0 || c.Waiting != 198 {
		t.Errorf("counted are %v", c)
	}
}

// TestHeldElementsTakeNoPlace checks that each held element is replaced by another one. A release requests no more
// elements, one by one or all at once. The Scheduler gets a new concurrency limit once, after it is on disk.
func TestHeldElementsTakeNoPlace(t *testing.T) {
	s := newSwept(t, 400, nil)
	for i := range int32(maxElementsWaiting) {
		s.tell(protocol.ElementMoved{Index: i, Held: i < 10})
	}
	if got := s.sprouted(); len(got) != maxElementsWaiting+10 {
		t.Fatalf("%d are asked for where ten are held", len(got))
	}
	s.tell(protocol.ElementMoved{Index: 0})
	s.tell(protocol.ElementMoved{Index: 1, Runs: true})
	s.tell(protocol.ElementMoved{Index: 2, Over: true, State: messages.JobState_JOB_STATE_CANCELLED})
	if got := s.sprouted(); len(got) != maxElementsWaiting+10 {
		t.Errorf("%d are asked for, and those that were held are back", len(got))
	}
	s.tell(&messages.Hold{Job: "k", Release: true})
	s.write()
	if got := s.sprouted(); len(got) != maxElementsWaiting+10 || len(s.a.away) != 0 {
		t.Errorf("%d are asked for when all are released, and %d are away", len(got), len(s.a.away))
	}
	s.tell(&messages.Update{Job: "k", SetArrayMost: true, ArrayMost: 3})
	told := func() (n int) {
		for _, l := range s.said {
			if m, is := l.Message.(protocol.Allows); is && m == (protocol.Allows{Array: "k", Most: 3}) {
				n++
			}
		}
		return n
	}
	if told() != 0 {
		t.Error("the Scheduler gets the limit before it is on disk")
	}
	s.write()
	s.tell(protocol.ElementMoved{Index: 3, Over: true, State: messages.JobState_JOB_STATE_SUCCEEDED})
	s.tell(arrayDue{s.a.pauses})
	if s.write(); told() != 1 {
		t.Errorf("the Scheduler gets the limit %d times", told())
	}
}

// TestReleaseIsNotAnsweredByTheHold checks that an element's reply to a hold does not count as the reply to a later
// release.
func TestReleaseIsNotAnsweredByTheHold(t *testing.T) {
	s := newSwept(t, 1, nil)
	s.tell(&messages.Hold{Job: "k", Release: true})
	s.write()
	s.tell(protocol.ElementMoved{Index: 0})
	s.tell(&messages.HoldReply{Job: "k_0", Outcome: messages.OK(), Release: true})
	s.tell(&messages.Hold{Job: "k"})
	s.write()
	s.tell(&messages.Hold{Job: "k", Release: true})
	s.write()
	open := func() (n int) {
		for _, e := range s.a.errands {
			if e.hold.Release && len(e.left) > 0 {
				n++
			}
		}
		return n
	}
	s.tell(&messages.HoldReply{Job: "k_0", Outcome: messages.OK()})
	if open() != 1 {
		t.Error("the release is taken for done when the hold is")
	}
	s.tell(&messages.HoldReply{Job: "k_0", Outcome: messages.OK(), Release: true})
	if open() != 0 {
		t.Error("the release is not taken for done")
	}
}

// TestArrayGoesOnFromItsRecord checks that the next actor continues with the ended, held and cancelled elements of the
// record. The array ends with its last element.
func TestArrayGoesOnFromItsRecord(t *testing.T) {
	s := newSwept(t, 4, nil)
	for i := range int32(3) {
		s.tell(protocol.ElementMoved{Index: i, Over: i < 2, State: messages.JobState(i + 3)})
	}
	s.tell(arrayDue{s.a.pauses})
	rec := s.write()
	if rec == nil {
		t.Fatal("the ended elements were not written")
	}
	rec.Array.ProtoReflect().SetUnknown([]byte{0xf8, 0x3f, 7}) // a field of a newer leader
	next := newSwept(t, 4, rec)
	var probed []int32
	for _, l := range next.said {
		if m, is := l.Message.(protocol.Probe); is {
			probed = append(probed, m.Index)
		}
	}
	if got := fmt.Sprint(probed, next.sprouted()); got != "[2 3] []" {
		t.Fatalf("the next actor asks whether these were jobs, and for these to be: %s", got)
	}
	next.tell(protocol.ElementNever{Index: 3})
	if got := next.sprouted(); got != nil {
		t.Fatalf("it asks for %v before it knows of all", got)
	}
	next.tell(protocol.ElementMoved{Index: 2})
	if got := fmt.Sprint(next.sprouted()); got != "[3]" {
		t.Fatalf("it asks for %s", got)
	}
	next.tell(protocol.ElementMoved{Index: 2, Over: true, State: messages.JobState_JOB_STATE_SUCCEEDED})
	next.tell(protocol.ElementMoved{Index: 3, Over: true, State: messages.JobState_JOB_STATE_SUCCEEDED})
	next.write()
	if last := next.write(); last != nil {
		rec = last
	}
	if rec = next.a.rec; rec.State != messages.JobState_JOB_STATE_FAILED || rec.Outcome != "3 ok, 1 failed" {
		t.Errorf("it ended as %v: %s", rec.State, rec.Outcome)
	}
	if got := messages.Newer(rec.Array); len(got) != 3 {
		t.Errorf("field of a newer leader is %v", got)
	}
}

// BenchmarkArray measures the memory of a hundred thousand waiting elements on a leader, and the time to accept their
// array, without the disk.
func BenchmarkArray(b *testing.B) {
	spec := leadertest.OneGPU()
	spec.Array = &messages.ArraySpec{Indices: []*messages.IndexRange{{Last: messages.MaxElements - 1}}}
	var before, after runtime.MemStats
	arrays := make([]*Array, b.N)
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range arrays {
		if err := spec.ValidateNew(); err != nil {
			b.Fatal(err)
		}
		rec := &messages.JobRecord{Id: "k", Revision: 1, Spec: spec, State: messages.JobState_JOB_STATE_QUEUED}
		arrays[i] = New(leadertest.Ports(), leadertest.Peers, 1, rec).(*Array)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(b.N)/(1<<20), "MiB/array")
	runtime.KeepAlive(arrays)
}

// replies counts the replies to clients.
func (s *swept) replies() (n int) {
	for _, l := range s.said {
		if l.To == "client" {
			n++
		}
	}
	return n
}

// TestCancelOfAnElementIsOnDisk checks that an element which its array's cancel ends is reported as cancelled only when
// that is on disk.
func TestCancelOfAnElementIsOnDisk(t *testing.T) {
	s := newSwept(t, 100, nil)
	s.tell(&messages.Cancel{Job: "k"})
	if s.tell(&messages.Cancel{Job: "k_90"}); s.replies() != 0 {
		t.Fatal("it is answered before anything is on disk")
	}
	s.write()
	if s.tell(&messages.Cancel{Job: "k_91"}); s.replies() != 2 {
		t.Fatalf("%d answers came with the record", s.replies())
	}
	if s.write(); s.replies() != 3 {
		t.Fatalf("%d answers came in all", s.replies())
	}
}

// TestUpdateOfAnElementThatIsOver checks that a change of an element is acknowledged when it is in the array's record.
// If the element was cancelled during the write, the change is refused.
func TestUpdateOfAnElementThatIsOver(t *testing.T) {
	s := newSwept(t, 100, nil)
	s.tell(&messages.Update{Job: "k_90", SetTimeLimit: true, TimeLimitMs: 5000}) // on its way to disk …
	s.tell(&messages.Update{Job: "k_91", SetTimeLimit: true, TimeLimitMs: 5000}) // … and this one waits behind it
	s.tell(&messages.Cancel{Job: "k_91"})
	s.write()
	s.write()
	got := map[string]*messages.UpdateReply{}
	for _, l := range s.said {
		if m, is := l.Message.(*messages.UpdateReply); is {
			got[m.Job] = m
		}
	}
	if r := got["k_90"]; r == nil || r.Outcome.Code != messages.Code_CODE_OK || r.TimeLimitMs != 5000 {
		t.Errorf("%v", r)
	}
	if r := got["k_91"]; r == nil || r.Outcome.Code == messages.Code_CODE_OK {
		t.Errorf("the element has ended, and the reply is %v", r)
	}
}

// TestUpdateOfAnElementSaysWhatIsOnDisk checks a change of an element followed by a change of the entire array during
// the write. The first reply shows the content of the first write.
func TestUpdateOfAnElementSaysWhatIsOnDisk(t *testing.T) {
	s := newSwept(t, 100, nil)
	s.tell(&messages.Update{Job: "k_90", SetTimeLimit: true, TimeLimitMs: 5000})
	s.tell(&messages.Update{Job: "k", SetTimeLimit: true, TimeLimitMs: 9000})
	s.write()
	for _, l := range s.said {
		if m, is := l.Message.(*messages.UpdateReply); is && m.Job == "k_90" {
			if m.TimeLimitMs != 5000 {
				t.Errorf("the answer is %v", m)
			}
			return
		}
	}
	t.Error("there is no answer")
}

// TestElementChangesAreBounded checks that any number of elements may get the same change, but only a limited number of
// different changes is kept.
func TestElementChangesAreBounded(t *testing.T) {
	s := newSwept(t, 3000, nil)
	give := func(index int, priority int32) {
		s.tell(&messages.Update{Job: fmt.Sprint("k_", index), SetPriority: true, Priority: priority})
	}
	for i := 100; i < 2500; i++ {
		give(i, 7)
	}
	if n := len(s.a.changedRanges()); n != 1 {
		t.Fatalf("equal changes of all elements take %d entries", n)
	}
	for i := 100; i < 2500; i++ {
		give(i, int32(i))
	}
	if n := len(s.a.changedRanges()); n != maxElementChanges {
		t.Fatalf("different changes take %d entries", n)
	}
	s.tell(&messages.Update{Job: "k", SetPriority: true, Priority: 1})
	if n := len(s.a.changed); n != 0 {
		t.Errorf("%d elements keep single changes after a change of the array", n)
	}
}
