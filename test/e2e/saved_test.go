package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests that tasks of real processes save a checkpoint before they are stopped, and that users see that.

// saver is a task that counts in a file that outlives its attempts, and acknowledges requests to save.
const saver = `trap '. "$SYNAPSE_NOTICE"; echo $step >"$HOME_OF_STEPS/$SYNAPSE_RANK"
	echo "$request $step" >"$SYNAPSE_CHECKPOINT_DIR/ack.$SYNAPSE_RANK"' USR1
	step=$(cat "$HOME_OF_STEPS/$SYNAPSE_RANK" 2>/dev/null || echo 0); s=$step; step=5; echo "begins at $s"
	while :; do sleep 0.05; done`

// TestSaved checks that a gang saves on request and continues, that a requeue waits for the checkpoint, and that the
// next attempt begins at the acknowledged step. A rank that does not acknowledge fails the request by name.
func TestSaved(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "r1", "--cpus", "4")
	steps := t.TempDir()
	reachable(t, steps)
	id := c.order(saver, "--replicas", "2", "--cpu", "1", "--env", "HOME_OF_STEPS="+steps, "--mount", steps+":"+steps,
		"--checkpoint", "every=10m,signal=USR1,grace=1m", "--grace", "1s")
	c.await(id, "running")
	c.prints(id, "begins at 0\n")
	c.cli("checkpoint", id, "--wait").wants(t, 0, "rank 0: step 5\nrank 1: step 5\n", "saved step 5")
	c.cli("describe", "job", id).wants(t, 0, "every 10m; on request by SIGUSR1, up to 60s to save\n", "")
	c.cli("describe", "job", id).wants(t, 0, "step 5 of attempt 1, ", "")
	c.cli("requeue", id, "--checkpoint").wants(t, 0, "attempt 1 is saving a checkpoint", "")
	c.until(id, "requeued after its checkpoint", func(s *messages.JobStatus) bool {
		return s.GetRecord().GetRuns() == 2 && s.GetPhase() == "running"
	})
	c.prints(id, "begins at 5\n")
	c.cli("cancel", id).wants(t, 0, "", "")

	id = c.order(`trap : USR1; while :; do sleep 0.05; done`, "--checkpoint", "signal=USR1,grace=1s", "--grace", "1s")
	c.await(id, "running")
	c.cli("checkpoint", id, "--wait").wants(t, 1, "", "no acknowledgement of rank 0 on n1")
	asked := time.Now()
	c.cli("requeue", id, "--checkpoint").wants(t, 0, "attempt 1 is saving a checkpoint", "")
	c.until(id, "stopped without an acknowledgement", func(s *messages.JobStatus) bool {
		return s.GetRecord().GetRuns() == 2
	})
	if took := time.Since(asked); took < time.Second || took > time.Second+pace.Of(4*time.Second) {
		t.Errorf("the attempt was stopped and the next one began %v after a request with a grace of 1s", took)
	} else {
		t.Logf("stopped and begun again %v after a request with a grace of 1s", took)
	}
	c.cli("cancel", id).wants(t, 0, "", "")
	id = c.order("sleep 600", "--grace", "1s")
	c.await(id, "running")
	c.cli("checkpoint", id).wants(t, 4, "", "saves no checkpoint on request")
	c.cli("cancel", id).wants(t, 0, "", "")
}

// TestSavedOnSocket checks that a gang of real processes acknowledges on the sockets of its tasks. The helper program
// names each mistake.
func TestSavedOnSocket(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "r1", "--cpus", "4")
	id := c.order(`trap 'o=$SYNAPSE_CHECKPOINT_DIR/one; echo request=1 >$o; SYNAPSE_NOTICE=$o \
			"$SYNAPSE_EXEC" --ack 7 2>&1 | cut -d";" -f1
		"$SYNAPSE_EXEC" --ack seven 2>&1; "$SYNAPSE_EXEC" --ack 7; echo "acknowledged: $?"' USR1
		"$SYNAPSE_EXEC" --ack 7 2>&1 | cut -d: -f1-2; while :; do sleep 0.05; done`,
		"--replicas", "2", "--cpu", "1", "--checkpoint", "signal=USR1,grace=1m,ack=socket", "--grace", "1s")
	c.await(id, "running")
	c.prints(id, "synapse-exec: no request to save is open\n")
	c.cli("checkpoint", id, "--wait").wants(t, 0, "rank 0: step 7\nrank 1: step 7\n", "saved step 7")
	for _, line := range []string{
		"synapse-exec: request 1 is not open", "synapse-exec: --ack: \"seven\" is not a step: use a whole number from 0",
		"acknowledged: 0",
	} {
		c.prints(id, line+"\n")
	}
	c.cli("cancel", id).wants(t, 0, "", "")
}

// prints waits until a job has printed a text.
func (c *cluster) prints(id, text string) {
	c.t.Helper()
	c.until(id, text, func(*messages.JobStatus) bool { return strings.Contains(c.logs(id), text) })
}
