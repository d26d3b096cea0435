package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// This file tests the end of an output. A client that follows a job must get all of it, whatever happens to the
// scheduler.

// TestOutputOverARestart kills the only scheduler under three clients that follow a job. The job ends soon after the
// next scheduler starts. Each client must get every line, and end as the job does.
func TestOutputOverARestart(t *testing.T) {
	const tasks, lines = 16, 20
	c := newCluster(t)
	c.node("n1", "r1")
	c.node("n2", "r1")
	// The failure comes after the other members have ended, because it ends running members.
	dir := t.TempDir()
	id := c.submit(writing(t, dir, gang(tasks, 1, fmt.Sprintf("for i in $(seq %d); do echo line $i; sleep 0.5; done; "+
		"[ $SYNAPSE_RANK = 0 ] || { touch %s/$SYNAPSE_RANK; exit 0; }; "+
		"until [ $(ls %s | wc -l) = %d ]; do sleep 0.1; done; sleep 2; exit 3", lines, dir, dir, tasks-1))))
	c.await(id, "running")
	followed, attached, waited := c.begins("logs", "-f", id), c.begins("attach", id), c.begins("wait", id)
	followed.says(t, "line 3\n")
	attached.says(t, "line 3\n")
	c.scheduler.kill()
	for _, r := range []*running{followed, attached, waited} {
		r.says(t, "waiting for the scheduler to return")
	}
	time.Sleep(4 * time.Second)
	c.lead(c.address)
	for name, r := range map[string]*running{"logs -f": followed, "attach": attached} {
		a := r.end(t, 90*time.Second)
		if n := strings.Count(a.out, "line "); n != tasks*lines {
			t.Errorf("%s has shown %d of %d lines: %s", name, n, tasks*lines, a.err)
		}
		for rank := range tasks {
			if n := strings.Count(a.out, fmt.Sprintf("[%d] line %d\n", rank, lines)); n != 1 {
				t.Errorf("%s has shown the last line of rank %d %d times", name, rank, n)
			}
		}
		if want := map[string]int{"logs -f": 0, "attach": 3}[name]; a.code != want {
			t.Errorf("%s ended with %d: %s", name, a.code, a.err)
		}
	}
	if a := waited.end(t, 30*time.Second); a.code != 3 {
		t.Errorf("wait ended with %d: %s", a.code, a.err)
	}
}
