package e2e

import (
	"strings"
	"testing"
)

// This file tests exec among the tasks of a gang, with real processes.

// TestExecInGang checks that a task can run commands in the gang's other tasks, by node and by rank, with streams and
// exit code. Tasks of another gang must be unreachable. With --lead the gang must succeed when its first task's command
// does.
func TestExecInGang(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"process", "carapace"} {
		t.Run(driver, func(t *testing.T) {
			c := clusterOf(t, driver)
			c.node("n1", "r1")
			c.node("n2", "r1")
			c.node("n3", "r1")
			elsewhere := gang(1, 1, "exec sleep 1000")
			elsewhere.Nodes = []string{"n3"}
			other := c.submit(elsewhere)
			c.await(other, "running")
			const script = `set -u
x=$SYNAPSE_EXEC
echo "there: $($x n2 'echo $SYNAPSE_RANK of $SYNAPSE_JOB_ID' | sed "s/$SYNAPSE_JOB_ID/us/")"
echo "fed: $(head -c 300000 /dev/zero | $x -x -o BatchMode=yes :1 wc -c)"
$x :1 'echo wrong >&2; exit 7'; echo "code: $?"
$x nowhere true; echo "code: $?"
$x n3 true; echo "code: $?"
$x -l root n2 true; echo "code: $?"
$x :1 'kill -9 $$'; echo "code: $?"
SYNAPSE_RANK=1 $x :2 true; echo "code: $?"
exit 0`
			job := gang(2, 1, `exec $SYNAPSE_EXEC --lead sh -c "`+strings.NewReplacer(`"`, `\"`, "$", `\$`).Replace(script)+`"`)
			job.Gang.Apart, job.Exclude = true, []string{"n3"}
			id := c.submit(job)
			over := c.cli("wait", "-q", id)
			got := c.cli("logs", id, "--rank", "0")
			if over.code != 0 {
				t.Errorf("the job ended with %d: %s%s", over.code, over.err, got.out+got.err)
			}
			got.wants(t, 0, "there: 1 of us\n", "")
			for _, want := range []string{
				"fed: 300000\n", "code: 7\n", "no task of this gang runs on nowhere", "no task of this gang runs on n3",
				"-l is not supported: the command runs as the task's user", "code: 137\n",
			} {
				if !strings.Contains(got.out+got.err, want) {
					t.Errorf("%q is missing in\n%s%s", want, got.out, got.err)
				}
			}
			c.cli("cancel", other).wants(t, 0, "", "")
		})
	}
}
