package messages

import "testing"

// TestAlreadyEnded checks that the result of a job has one text for every combination of fields.
func TestAlreadyEnded(t *testing.T) {
	for _, c := range []struct {
		state     JobState
		said, why string
	}{
		{JobState_JOB_STATE_SUCCEEDED, "", "succeeded"},
		{JobState_JOB_STATE_SUCCEEDED, "succeeded", "succeeded"},
		{JobState_JOB_STATE_CANCELLED, "cancelled: no longer wanted", "cancelled: no longer wanted"},
		{JobState_JOB_STATE_FAILED, "rank 1 exited with code 3", "failed: rank 1 exited with code 3"},
	} {
		record := &JobRecord{Id: "j", State: c.state, Outcome: c.said}
		if got := AlreadyEnded(record).Text; got != "job has already ended: "+c.why {
			t.Errorf("%v %q: %q", c.state, c.said, got)
		}
	}
}
