package scheduler

import (
	"testing"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// This file owns the tests of start estimates for the Mirror: rarely sent, never without a change, and sent again for a
// job that returns.

// foreteller returns preset estimates and starts no job.
type foreteller struct {
	policy.Default
	told  policy.Prospects
	asked int
}

func (f *foreteller) Prospects() policy.Prospects {
	f.asked++
	return f.told
}

func TestStartsAreToldSeldom(t *testing.T) {
	clock := &watchClock{now: actors.Instant(time.Hour)}
	s, _ := waitingScheduler(clock)
	planner := &foreteller{}
	s.planner = planner
	said := func(m any) (shown []mirror.StartsShown) {
		var all []leadertest.Letter
		s.Receive(&leadertest.Context{Hears: m, Said: &all})
		for _, l := range all {
			if one, is := l.Message.(mirror.StartsShown); is {
				shown = append(shown, one)
			}
		}
		return shown
	}
	promise := func(at int64) {
		where := topology.Placement{Slots: []topology.Slot{{Node: "n1"}}}
		planner.told.Promises = []policy.Promise{{Job: "j", At: at, Where: where}}
	}
	wait := func(d time.Duration) { clock.now = clock.now.Plus(d) }
	rec := &messages.JobRecord{Id: "j", Spec: leadertest.OneGPU()}
	s.jobs["j"] = &livingJob{jobRecord: jobRecord{id: "j", rec: rec}, queueEntry: queueEntry{noted: true}}
	promise(1)
	said(protocol.Waits{Record: rec})
	if got := said(PlanNow{}); len(got) != 1 || got[0].Promises[0].At != 1 {
		t.Fatalf("first update is %v", got)
	}
	promise(2)
	wait(startsEvery / 2)
	asked := planner.asked
	if got := said(PlanNow{}); len(got) != 0 || planner.asked != asked {
		t.Errorf("update after half a second is %v", got)
	}
	wait(startsEvery / 2)
	if got := said(tellAgain{}); len(got) != 1 || got[0].Promises[0].At != 2 {
		t.Errorf("update after a second is %v", got)
	}
	wait(startsEvery)
	if got := said(PlanNow{}); len(got) != 0 {
		t.Errorf("an unchanged estimate is sent again: %v", got)
	}
	// The job was held and released quickly: the Mirror has dropped its estimate, although it is unchanged.
	wait(startsEvery)
	said(protocol.Withdraws{Job: "j"})
	said(protocol.Waits{Record: rec})
	if got := said(PlanNow{}); len(got) != 1 {
		t.Errorf("update for the returned job is %v", got)
	}
	s.planner = policy.Default{}
	wait(startsEvery)
	if got := said(PlanNow{}); len(got) != 0 {
		t.Errorf("without lookahead the update is %v", got)
	}
}
