package job

import (
	"testing"

	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the tests of the recorded run times.

// TestForHowLongAnAttemptRan checks that the run time of an attempt is known to the leader that saw its start, or from
// its nodes. Otherwise it is unknown.
func TestForHowLongAnAttemptRan(t *testing.T) {
	token := messages.ToToken(topology.Token{Epoch: 1, Counter: 7})
	att := &messages.AttemptRecord{Job: "j1", Token: token, StartedUnixMs: 1,
		Places: []*messages.Place{{Node: "n1", MachineId: "m1"}}}
	rec := &messages.JobRecord{Id: "j1", Spec: leadertest.OneGPU(), State: messages.JobState_JOB_STATE_ACTIVE,
		Attempt: token}
	for _, c := range []struct {
		name string
		is   func(*Job)
		want int64
	}{
		{"it began here", func(j *Job) { j.states.Become("started", jobRunning); j.limitFrom = 4e9 }, 6_000},
		{"it has just begun here", func(j *Job) { j.states.Become("started", jobRunning); j.limitFrom = 10e9 }, 1},
		{"it began under an earlier leader, by its machine's word", func(j *Job) {
			j.begunBefore, j.ranBefore, j.begun = true, true, 3e9
		}, 7_000},
		{"nobody says when", func(j *Job) { j.begunBefore, j.ranBefore, j.limitFrom = true, true, 9e9 }, 0},
		{"its machine says that it has not begun, and the disk that it has", func(j *Job) {
			j.ranBefore, j.limitFrom = true, 9e9
		}, 0},
	} {
		p := leadertest.Ports()
		p.Clock = &leadertest.Clock{At: 10e9}
		j := New(p, leadertest.Peers, 1, rec, []*messages.AttemptRecord{att}, nil).(*Job)
		j.states.Become("resumed", jobStarting)
		if c.is(j); j.ranMs(att) != c.want {
			t.Errorf("%s: it ran for %d ms, want %d", c.name, j.ranMs(att), c.want)
		}
	}
}
