package messages

import "testing"

// TestIdle checks which jobs are idle. A job whose use is unknown, or that does not run, is not.
func TestIdle(t *testing.T) {
	const hour = 3_600_000
	for name, c := range map[string]struct {
		phase string
		use   *Use
		after int64
		want  bool
	}{
		"not measured":         {PhaseRunning, nil, 0, false},
		"no task measured":     {PhaseRunning, &Use{IdleMs: hour}, 0, false},
		"works":                {PhaseRunning, &Use{Tasks: 1}, 0, false},
		"for a shorter time":   {PhaseRunning, &Use{Tasks: 1, IdleMs: hour - 1}, hour, false},
		"for as long as that":  {PhaseRunning, &Use{Tasks: 1, IdleMs: hour}, hour, true},
		"for any time":         {PhaseRunning, &Use{Tasks: 1, IdleMs: 1}, 0, true},
		"is being stopped":     {PhaseStopping, &Use{Tasks: 1, IdleMs: hour}, hour, false},
		"waits for a next try": {PhaseQueued, &Use{Tasks: 1, IdleMs: hour}, hour, false},
	} {
		s := &JobStatus{Phase: c.phase, Use: c.use}
		if got := Idle(s, c.after); got != c.want {
			t.Errorf("a job that %s: %v, want %v", name, got, c.want)
		}
	}
	s := &JobStatus{Use: &Use{Tasks: 2, IdleMs: hour}, Record: &JobRecord{Spec: &JobSpec{
		Gang: &GangSpec{ReplicasMin: 2}, Each: &Resources{MilliGpu: 4000}}}}
	if got := IdleMilliGPUMs(s); got != 8000*hour {
		t.Errorf("the idle GPU time is %d", got)
	}
}

// TestIdleIn checks that a queue inherits each part of the policy for idle jobs, and that the default is the report
// after half an hour.
func TestIdleIn(t *testing.T) {
	hour, second := int64(3_600_000), int64(1000)
	q := &Queues{Default: "c", Queues: []*QueueSpec{
		{Name: "a", IdleAfterMs: &hour, IdleThen: IdleAction_IDLE_ACTION_SIGNAL},
		{Name: "b", Parent: "a", IdleThen: IdleAction_IDLE_ACTION_REPORT},
		{Name: "c", Parent: "a"}, {Name: "d", Parent: "a", IdleAfterMs: &second}, {Name: "e"},
	}}
	for queue, want := range map[string]struct {
		after  int64
		signal bool
	}{
		"a": {hour, true}, "b": {hour, false}, "c": {hour, true}, "": {hour, true}, "d": {MinIdleAfterMs, true},
		"e": {IdleAfterMs, false}, "closed": {IdleAfterMs, false},
	} {
		if after, signal := q.IdleIn(queue); after != want.after || signal != want.signal {
			t.Errorf("queue %q: %d ms, signal %t", queue, after, signal)
		}
	}
	if after, signal := (*Queues)(nil).IdleIn("a"); after != IdleAfterMs || signal {
		t.Errorf("without queues: %d ms, signal %t", after, signal)
	}
}
