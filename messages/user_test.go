package messages

import "testing"

// TestNeedsUID checks that a job without a user, or with root under any name, needs a uid.
func TestNeedsUID(t *testing.T) {
	for user, needs := range map[string]bool{
		"": true, "root": true, "0": true, "root:0": true, "0:0": true, "00": true,
		"ann": false, "1000": false, "1000:0": false, "rooted": false, "nobody": false, "10": false, ":0": false, "+0": false,
	} {
		if got := (&JobSpec{User: user}).NeedsUID(); got != needs {
			t.Errorf("%q: %v", user, got)
		}
	}
}
