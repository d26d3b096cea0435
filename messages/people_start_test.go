package messages

import "testing"

// TestStartFailure checks that only a waiting job whose last attempt never started has a start failure.
func TestStartFailure(t *testing.T) {
	for _, c := range []struct {
		phase, detail string
		cause         Cause
		want          string
	}{
		{PhaseQueued, "rank 0 on n1 prepare failed: there is no image x:1", Cause_CAUSE_PREPARE_FAILED,
			"Prepare: there is no image x:1 on n1"},
		{PhaseQueued, "rank 3 on n1 launch failed: no user ann: in no file", Cause_CAUSE_LAUNCH_FAILED,
			"Launch: no user ann: in no file on n1"},
		{PhaseHeld, "its image was not ready in time", Cause_CAUSE_PREPARE_TIMEOUT,
			"Prepare: its image was not ready in time on n1"},
		{PhaseQueued, "rank 0 on n1 prepare failed: two\nlines", Cause_CAUSE_PREPARE_FAILED, "Prepare: two lines on n1"},
		{PhaseRunning, "rank 0 on n1 prepare failed: x", Cause_CAUSE_PREPARE_FAILED, ""},
		{PhaseQueued, "rank 0 on n1 exited with code 1", Cause_CAUSE_MEMBER_FAILED, ""},
	} {
		j := &JobStatus{
			Phase: c.phase, Record: &JobRecord{State: JobState_JOB_STATE_QUEUED},
			Attempt: &AttemptRecord{End: &End{Cause: c.cause, Detail: c.detail, Node: "n1"}},
		}
		if got := StartFailure(j); got != c.want {
			t.Errorf("%s: %q, want %q", c.detail, got, c.want)
		}
	}
	if got := StartFailure(&JobStatus{Phase: PhaseQueued}); got != "" {
		t.Errorf("a job without an attempt: %q", got)
	}
}
