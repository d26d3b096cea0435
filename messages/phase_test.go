package messages

import "testing"

// TestExplain checks that the phase and the result of a job have one text for every combination of fields.
func TestExplain(t *testing.T) {
	for _, c := range []struct {
		state             JobState
		reason, said, why string
	}{
		{JobState_JOB_STATE_SUCCEEDED, "", "", "succeeded"},
		{JobState_JOB_STATE_SUCCEEDED, "", "succeeded", "succeeded"},
		{JobState_JOB_STATE_CANCELLED, "", "cancelled: no longer wanted", "cancelled: no longer wanted"},
		{JobState_JOB_STATE_FAILED, "", "rank 1 exited with code 3", "failed: rank 1 exited with code 3"},
		{JobState_JOB_STATE_QUEUED, "needs 8 GPUs", "", "queued: needs 8 GPUs"},
	} {
		record := &JobRecord{Id: "j", State: c.state, Outcome: c.said}
		status := &JobStatus{Record: record, Phase: EndPhase(c.state), Reason: c.reason}
		ended := status.Phase != ""
		if !ended {
			status.Phase = PhaseQueued
		}
		if got := Explain(status); got != "j: "+c.why {
			t.Errorf("%v %q: %q, want %q", c.state, c.said, got, c.why)
		}
		if got := AlreadyEnded(record).Text; ended && got != "job has already ended: "+c.why {
			t.Errorf("%v %q: %q", c.state, c.said, got)
		}
	}
}
