package scheduler

import (
	"reflect"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
)

// This file owns tests of repeated work of the leader, and of the sources that it accepts.

// alarms is a clock that records its timers.
type alarms struct {
	watchClock
	later []any
}

func (c *alarms) After(_ time.Duration, _ *actor.PID, message any) {
	c.later = append(c.later, message)
}

// TestFailedReadIsRepeated checks each answer of the store about a job that another one waits for. A failed read is
// repeated, so the waiting job does not wait forever.
func TestFailedReadIsRepeated(t *testing.T) {
	ended := &messages.JobRecord{Id: "first", State: messages.JobState_JOB_STATE_FAILED}
	lives := &messages.JobRecord{Id: "first", State: messages.JobState_JOB_STATE_QUEUED}
	query := actors.Query{Job: "first"}
	told := func(state messages.JobState) any {
		return protocol.Foregone{Known: &messages.AfterKnown{Job: "first", State: state}}
	}
	for _, x := range []struct {
		name        string
		found       actors.Found
		again, said any
	}{
		{"failed", actors.Found{Query: query, Err: "the disk is away"}, askAgain{find{follower: "second"}, query}, nil},
		{"ended", actors.Found{Query: query, Job: ended}, nil, told(messages.JobState_JOB_STATE_FAILED)},
		{"forgotten", actors.Found{Query: query}, nil, told(messages.JobState_JOB_STATE_UNSPECIFIED)},
		{"damaged", actors.Found{Query: query, Damaged: "no record"}, nil, told(messages.JobState_JOB_STATE_UNSPECIFIED)},
		{"living", actors.Found{Query: query, Job: lives}, nil, nil},
	} {
		clock, p := &alarms{}, leadertest.Ports()
		p.Clock = clock
		s := New(p, Makers{}).(*Scheduler)
		s.jobs["second"] = &livingJob{jobRecord: jobRecord{id: "second"},
			jobActor: jobActor{pid: actor.NewPID("here", "second")}}
		for round := range 2 { // also when it fails a second time
			var said []leadertest.Letter
			clock.later = nil
			s.onFollowed(&leadertest.Context{Said: &said}, find{follower: "second"}, x.found)
			if x.again != nil && (len(clock.later) != 1 || clock.later[0] != x.again) || x.again == nil && clock.later != nil {
				t.Errorf("%s, round %d: timer is %v, want %v", x.name, round, clock.later, x.again)
			}
			if x.said == nil && said != nil ||
				x.said != nil && (len(said) != 1 || said[0].To != "second" || !reflect.DeepEqual(said[0].Message, x.said)) {
				t.Errorf("%s, round %d: sent %v, want %v", x.name, round, said, x.said)
			}
		}
	}
}

// TestChangesOfAWaitingJobArePlannedWith checks that the queue has the last limit and priority of a waiting job. Each
// is changed alone, both together, and repeatedly.
func TestChangesOfAWaitingJobArePlannedWith(t *testing.T) {
	s, _ := waitingScheduler(&watchClock{now: actors.Instant(time.Hour)})
	s.jobs["j"] = &livingJob{jobRecord: jobRecord{id: "j"}, queueEntry: queueEntry{noted: true}}
	for _, x := range []struct {
		limitMs  int64
		priority int32
	}{{0, 0}, {60_000, 0}, {60_000, 5}, {30_000, 5}, {0, 7}, {90_000, -1}, {0, -1}} {
		spec := leadertest.OneGPU()
		spec.TimeLimitMs, spec.Priority = x.limitMs, x.priority
		s.onWaits(&leadertest.Context{Said: &[]leadertest.Letter{}},
			protocol.Waits{Record: &messages.JobRecord{Id: "j", Arrival: 1, Spec: spec}})
		w, waits := s.queue.Get("j")
		if !waits || w.Limit != x.limitMs*1_000_000 || w.Priority != x.priority {
			t.Errorf("%+v is planned with a limit of %s and priority %d", x, time.Duration(w.Limit), w.Priority)
		}
	}
}
