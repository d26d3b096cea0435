package e2e

import (
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
)

// This file tests that tasks of real processes are warned of their end, and that users see that.

// TestWarned checks that a job is warned of its time limit, and succeeds if it ends by itself with its work done.
// Another job is warned of a drain, which describe shows.
func TestWarned(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "r1", "--cpus", "1")
	saves := `trap 'cat $SYNAPSE_NOTICE; exit 0' USR1; while :; do sleep 0.05; done`
	id := c.order(saves, "--time-limit", "35s", "--warn", "USR1@30s")
	c.cli("wait", id).wants(t, 0, "", "succeeded")
	if text := c.logs(id); !strings.HasPrefix(text, "reason=time-limit\nleft_seconds=") ||
		!strings.Contains(text, "\nends_unix_seconds=1") {
		t.Errorf("unexpected warning: %q", text)
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
