package e2e

import (
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
)

// This file owns that tasks of real processes are told of their end, and people that they were.

// TestWarned: a job is told of its time limit ahead of it, ends by itself with its work done, and that counts. Another
// is told of a drain, and whoever describes it sees that.
func TestWarned(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "r1", "--cpus", "1")
	saves := `trap 'cat $SYNAPSE_NOTICE; exit 0' USR1; while :; do sleep 0.05; done`
	id := c.order(saves, "--time-limit", "35s", "--warn", "USR1@30s")
	c.cli("wait", id).wants(t, 0, "", "succeeded")
	if text := c.logs(id); !strings.HasPrefix(text, "reason=time-limit\nleft_seconds=") ||
		!strings.Contains(text, "\nends_unix_seconds=1") {
		t.Errorf("it was told %q", text)
	}
	id = c.order(`trap : USR1; while :; do sleep 0.05; done`, "--warn", "USR1@1h", "--grace", "1s")
	c.await(id, "running")
	c.cli("describe", "job", id).wants(t, 0, "by SIGUSR1, 1h before the end\n", "")
	c.cli("drain", "n1", "--reason", "fan", "--deadline", "10m").wants(t, 0, "", "")
	c.until(id, "told of the drain", func(s *messages.JobStatus) bool {
		return s.GetWarned().GetCause() == messages.Cause_CAUSE_DRAINED
	})
	c.cli("describe", "job", id).wants(t, 0, ": drained\n", "")
	c.cli("cancel", id).wants(t, 0, "", "")
}
