package job

import (
	"testing"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the tests of the times and limits of a Job, rule by rule.

// countedJob is a Job with an attempt of this leader on two nodes. Neither node has reported anything.
func countedJob(spec *messages.JobSpec) (*Job, *messages.AttemptRecord) {
	att := &messages.AttemptRecord{
		Job: "j1", Token: messages.ToToken(topology.Token{Epoch: 1, Counter: 7}),
		Places: []*messages.Place{{Node: "n1", MachineId: "m1"}, {Rank: 1, Node: "n2", MachineId: "m2"}},
	}
	rec := &messages.JobRecord{Id: "j1", Spec: spec, State: messages.JobState_JOB_STATE_ACTIVE, Attempt: att.Token}
	p := leadertest.Ports()
	p.Clock = &leadertest.Clock{At: 100e9}
	return New(p, leadertest.Peers, 1, rec, []*messages.AttemptRecord{att}, nil).(*Job), att
}

// TestGraceOfAnEnd checks the grace of a stop. An attempt that has started gets the grace of its job. So does one that
// may have started under an earlier leader, and one that a user stopped, because its work may be saved. After a failed
// barrier there is nothing to save.
func TestGraceOfAnEnd(t *testing.T) {
	spec := leadertest.OneGPU()
	spec.Stop = &messages.StopSpec{GraceMs: 60_000}
	const whole = time.Minute
	short := actors.DefaultConstants().BarrierGrace
	for name, c := range map[string]struct {
		cause   messages.Cause
		started int64
		epoch   uint64
		before  bool
		want    time.Duration
	}{
		"a barrier that failed":            {cause: messages.Cause_CAUSE_MACHINE_LOST, epoch: 1, want: short},
		"of one that runs":                 {cause: messages.Cause_CAUSE_MACHINE_LOST, epoch: 1, started: 5, want: whole},
		"of an earlier leader":             {cause: messages.Cause_CAUSE_MACHINE_LOST, epoch: 0, want: whole},
		"that may have begun before":       {cause: messages.Cause_CAUSE_MACHINE_LOST, epoch: 1, before: true, want: whole},
		"cancelled before it has begun":    {cause: messages.Cause_CAUSE_CANCELLED, epoch: 1, want: whole},
		"requeued before it has begun":     {cause: messages.Cause_CAUSE_REQUEUED, epoch: 1, want: whole},
		"stopped for another before it":    {cause: messages.Cause_CAUSE_PREEMPTED, epoch: 1, want: whole},
		"too late for what it was lent":    {cause: messages.Cause_CAUSE_START_BY, epoch: 1, want: short},
		"out of time, having begun before": {cause: messages.Cause_CAUSE_TIME_LIMIT, epoch: 1, started: 5, want: whole},
	} { //order: each case by itself
		j, att := countedJob(spec)
		att.Token.Epoch, att.StartedUnixMs, att.End = c.epoch, c.started, &messages.End{Cause: c.cause}
		j.att, j.begunBefore = att, c.before
		if got := j.graceOf(att); got != c.want {
			t.Errorf("%s: its ranks have %s, want %s", name, got, c.want)
		}
	}
}

// TestFencedByWhoMayRun checks when a job waits for the fence of an unreachable node: as long as a task may run there.
// It does not wait if the exit is known, or if the node is up.
func TestFencedByWhoMayRun(t *testing.T) {
	spec := leadertest.OneGPU()
	spec.StopWhenLostMs = 20_000
	j, att := countedJob(spec)
	wait := fenceWait(spec, j.p.Constants)
	first, second := j.contacts["n1"], j.contacts["n2"]
	first.up, second.up = false, false
	first.since, second.since = 10e9, 30e9
	for _, c := range []struct {
		name  string
		after func()
		want  actors.Instant
	}{
		{"both are lost", func() {}, second.since.Plus(wait)},
		{
			"the end of the later one is known",
			func() { att.Places[1].Exit = &messages.Exit{Rank: 1} }, first.since.Plus(wait),
		},
		{"the other is up", func() { first.up = true }, 0},
	} {
		if c.after(); j.fencedUntil(att) != c.want {
			t.Errorf("%s: fenced until %d, want %d", c.name, j.fencedUntil(att), c.want)
		}
	}
}

// TestMoreTimeIsOnItsWay checks that a run is not stopped while a longer time limit, or none, is being written.
func TestMoreTimeIsOnItsWay(t *testing.T) {
	spec := leadertest.OneGPU()
	spec.TimeLimitMs = 1_000
	j, _ := countedJob(spec)
	for wanted, want := range map[int64]bool{0: true, 999: false, 1_000: false, 1_001: true} {
		with := actors.CopyOf(spec)
		with.TimeLimitMs = wanted
		j.respec = &protocol.SpecWish{Spec: with}
		if j.prolonged() != want {
			t.Errorf("%d ms are wanted: more time is on its way is %v", wanted, !want)
		}
	}
}

// TestTooShortIsNeverForgotten checks a second attempt that missed its start deadline with less time than the first.
// The longer time of the first attempt stays recorded as too short.
func TestTooShortIsNeverForgotten(t *testing.T) {
	j, _ := countedJob(leadertest.OneGPU())
	for _, c := range []struct {
		ready   time.Duration
		startBy actors.Instant
		want    time.Duration
	}{{30 * time.Second, 101e9, 0}, {30 * time.Second, 100e9, 30 * time.Second}, {10 * time.Second, 1, 30 * time.Second}} {
		j.ready, j.startBy = c.ready, c.startBy
		if j.noteTooShort(); j.lent != c.want {
			t.Errorf("%s was to be enough until %d: %s is known to be too short, want %s", c.ready, c.startBy, j.lent, c.want)
		}
	}
}
