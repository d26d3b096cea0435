package scheduler

import (
	"testing"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the test of when capacity becomes free: after the sum of all phases that may still follow.

// TestEndsForeseen checks that an attempt has left its nodes after its limit, its grace and the margin. The limit
// counts from the barrier. Before the barrier, it counts from the time at which the attempt would be given up. A job
// without a limit never ends for certain, but has an expected end. A stopped attempt ends soon.
func TestEndsForeseen(t *testing.T) {
	const limit, grace = 20 * time.Minute, 40 * time.Second
	c := actors.DefaultConstants()
	spec := leadertest.OneGPU()
	spec.TimeLimitMs, spec.PrepareTimeoutMs = limit.Milliseconds(), 60_000
	spec.Stop = &messages.StopSpec{GraceMs: grace.Milliseconds()}
	endless := actors.CopyOf(spec)
	endless.TimeLimitMs = 0
	phases := c.StartDeadline + time.Minute + c.StartDeadline
	if got, want := untilStarted(spec, &c), c.ReservationTTL+phases; got != want {
		t.Errorf("it has passed its barrier after %v, want %v", got, want)
	}
	clock := &watchClock{now: 100e9}
	p := leadertest.Ports()
	p.Clock = clock
	token := topology.Token{Epoch: 1, Counter: 7}
	free := func(from time.Duration) int64 { return int64(100*time.Second + from + grace + endMargin) }
	const never = int64(topology.Never)
	for _, test := range []struct {
		name         string
		heard        []any
		hard, likely int64
	}{
		{"nobody has said anything", nil, never, never},
		{"it goes on after a takeover", []any{
			protocol.Foreseen{Token: token, Spec: spec, Starts: clock.now.Plus(phases)},
		}, free(phases + limit), int64(100*time.Second + limit)},
		{"it began", []any{protocol.Foreseen{Token: token, Spec: spec, Began: 90e9}},
			free(limit - 10*time.Second), int64(90*time.Second + limit)},
		{"it began earlier, as it turns out", []any{
			protocol.Foreseen{Token: token, Spec: spec, Began: 90e9}, protocol.Foreseen{Token: token, Spec: spec, Began: 80e9},
		}, free(limit - 20*time.Second), int64(80*time.Second + limit)},
		{"its limit was lifted", []any{
			protocol.Foreseen{Token: token, Spec: spec, Began: 90e9}, protocol.Foreseen{Token: token, Spec: endless},
		}, never, int64(90*time.Second + limit)},
		{"it has none", []any{protocol.Foreseen{Token: token, Spec: endless, Began: 90e9}},
			never, int64(90*time.Second + time.Hour)},
		{"it is told to stop", []any{
			protocol.Foreseen{Token: token, Spec: spec, Began: 90e9},
			protocol.AttemptEnded{Job: "j", Token: token, End: &messages.End{Cause: messages.Cause_CAUSE_REQUEUED}},
		}, free(0), free(0)},
	} {
		s := New(p, Makers{}).(*Scheduler)
		s.peers, s.self = leadertest.Peers, leadertest.Peers.Scheduler
		rec := &messages.JobRecord{Id: "j", Spec: spec}
		if test.name == "it has none" {
			rec.Spec = endless
		}
		e := &livingJob{jobRecord: jobRecord{id: "j", rec: rec}}
		s.jobs["j"] = e
		s.newRun(nil, e, &run{token: token, spec: rec.Spec})
		who := s.tenant("j", token)
		for _, m := range test.heard {
			if f, is := m.(protocol.Foreseen); is {
				f.Job = "j"
				m = f
			}
			s.Receive(&leadertest.Context{Hears: m, Said: &[]leadertest.Letter{}})
		}
		if stay := who.Stay; stay.Hard != test.hard || stay.Likely != test.likely {
			t.Errorf("%s: %d and %d, want %d and %d", test.name, stay.Hard, stay.Likely, test.hard, test.likely)
		}
	}
}

// TestVacatedHasNoEnd checks capacity that a node reports as free while the allocation is still shown in its last saved
// state. The end of that allocation must not free the capacity a second time.
func TestVacatedHasNoEnd(t *testing.T) {
	slice := &messages.SliceReport{Token: messages.ToToken(topology.Token{Epoch: 1, Counter: 1}),
		State: messages.SliceState_SLICE_STATE_STOPPING}
	report := &messages.LedgerReport{Total: &messages.Resources{}, Free: &messages.Resources{},
		Slices: []*messages.SliceReport{slice}}
	if booksOf(report).Allocations[0].Over {
		t.Error("a slice that has its room still is believed to be over")
	}
	slice.Vacated = true
	if !booksOf(report).Allocations[0].Over {
		t.Error("a slice whose room is free is believed to give it back")
	}
}

// TestSaveGraceIsPromised checks that a start guarantee includes the time in which its victims may save.
func TestSaveGraceIsPromised(t *testing.T) {
	c := actors.DefaultConstants()
	spec := leadertest.OneGPU()
	spec.Stop = &messages.StopSpec{GraceMs: 40_000}
	for _, test := range []struct {
		save *messages.CheckpointSpec
		want time.Duration
	}{
		{nil, 40 * time.Second},
		{&messages.CheckpointSpec{GraceMs: 60_000}, 100 * time.Second},
		{&messages.CheckpointSpec{}, 40*time.Second + messages.DefaultSaveGrace},
	} {
		if spec.Checkpoint = test.save; untilPreempted(spec, &c) != test.want {
			t.Errorf("%v: %v, want %v", test.save, untilPreempted(spec, &c), test.want)
		}
	}
}
