package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file tests restarts in place with real processes.

// flaky is a task whose rank 1 fails in the first two attempts. Each task finds the files of the attempt before in its
// scratch directory.
const flaky = `cd "$TMPDIR"; n=$(cat count 2>/dev/null || echo 0); echo $((n + 1)) >count
	echo "attempt $SYNAPSE_RUN finds $n"
	echo "generation ${SYNAPSE_GENERATION:-0}, rank ${SYNAPSE_RESTART_RANK:-none}"
	[ "$n" -lt 2 ] && [ "$SYNAPSE_RANK" = 1 ] && sleep 0.3 && exit 3
	[ "$n" -lt 2 ] && { trap 'exit 0' TERM; while :; do sleep 0.02; done; }
	exit 0`

// TestInPlace checks that a gang on two nodes restarts in place twice, with the same devices and files, while another
// job waits for the nodes. The job ends as succeeded, and its page names the restarts and their cost.
func TestInPlace(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "r1", "--cpus", "2", "--gpus", "4")
	c.node("n2", "r1", "--cpus", "2", "--gpus", "4")
	id := c.order(flaky, "--replicas", "2", "--gpus-per-task", "4", "--cpu", "2", "--restarts", "3", "--in-place",
		"--backoff", "200ms", "--grace", "1s")
	c.await(id, "running")
	rival := c.order("exit 0", "--replicas", "2", "--gpus-per-task", "4", "--cpu", "2")
	job := c.await(id, "succeeded")
	if runs := job.GetRecord().GetRuns(); runs != 3 {
		t.Errorf("it had %d attempts", runs)
	}
	a := job.GetAttempt()
	if h := a.GetInherited(); h.GetGeneration() != 2 || h.GetRank() != 1 || a.GetStoppingMs() == 0 {
		t.Errorf("the last attempt is %v", a)
	}
	t.Logf("stopped in %d ms, prepared in %d ms, started %d ms after COMMIT", a.GetStoppingMs(), a.GetPreparingMs(),
		a.GetStartedUnixMs()-a.GetCommittedUnixMs())
	out := c.logs(id)
	for _, want := range []string{"attempt 3 finds 2", "generation 2, rank 1"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	c.cli("describe", "job", id).wants(t, 0, "In Place:", "")
	c.cli("describe", "job", id).wants(t, 0, "restart 2, because rank 1 on n", "")
	c.cli("describe", "job", id).wants(t, 0, "  stopped in ", "") // a line of the attempt before
	c.cli("history", "-o", "json").wants(t, 0, `"restartedInPlace"`, "")
	c.cli("get", "jobs", "-o", "json").wants(t, 0, `"restartedInPlace"`, "")
	if after := c.await(rival, "succeeded").GetAttempt().GetStartedUnixMs(); after < a.GetStartedUnixMs() {
		t.Error("the other job got the nodes in between")
	}
	c.cli("submit", "--image", "host", "--in-place", "--", "true").wants(t, 2, "",
		"--in-place: needs a restart limit of at least 1")
}

// TestInPlaceFast measures a gang of eight ranks of which one is killed. All ranks run again within a time that also a
// loaded machine keeps.
func TestInPlaceFast(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "r1", "--cpus", "4")
	id := c.order(`cd "$TMPDIR"; [ -e begun ] && exec sleep 600; touch begun
		[ "$SYNAPSE_RANK" = 3 ] && { sleep 1; kill -9 $$; }
		exec sleep 600`, "--replicas", "8", "--cpu", "0.25", "--restarts", "1", "--in-place", "--grace", "1s")
	job := c.until(id, "runs again", func(s *messages.JobStatus) bool {
		return s.GetRecord().GetRuns() == 2 && s.GetPhase() == "running"
	})
	a := job.GetAttempt()
	if a.GetInherited().GetRank() != 3 || a.GetStoppingMs() == 0 {
		t.Errorf("it went through the queue: %v", a)
	}
	took := time.Duration(a.GetStoppingMs()+a.GetStartedUnixMs()-a.GetCommittedUnixMs()) * time.Millisecond
	t.Logf("from the end to the barrier: %v", took)
	if took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
	c.cli("cancel", id).wants(t, 0, "", "")
}
