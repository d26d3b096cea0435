package messages

import "testing"

// How a job ended is told once, whatever of it stands in its record.
func TestEndWords(t *testing.T) {
	for _, c := range []struct {
		state      JobState
		said, want string
	}{
		{JobState_JOB_STATE_SUCCEEDED, "", "succeeded"},
		{JobState_JOB_STATE_SUCCEEDED, "succeeded", "succeeded"},
		{JobState_JOB_STATE_CANCELLED, "cancelled: no longer wanted", "cancelled: no longer wanted"},
		{JobState_JOB_STATE_FAILED, "rank 1 exited with code 3", "failed: rank 1 exited with code 3"},
	} {
		if got := EndWords(&JobRecord{State: c.state, Outcome: c.said}); got != c.want {
			t.Errorf("%v %q: %q, want %q", c.state, c.said, got, c.want)
		}
	}
}
