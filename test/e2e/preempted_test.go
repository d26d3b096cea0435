package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
)

// This file tests that real gangs are preempted as a whole, and continue from their saved work.

// TestPreempted checks that a gang that saves its work at its stop, and exits with 0, is preempted for a job of higher
// priority. That job may start only after the gang has ended. The gang must then run again from its saved work, and
// succeed.
func TestPreempted(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "r1")
	c.node("n2", "r1")
	dir := t.TempDir()
	file := filepath.Join(dir, "queues.yaml")
	text := "apiVersion: synapse/v1\nkind: Queues\ndefault: q\nqueues:\n" +
		"- {name: q, preemption: {byPriority: true, minRuntime: 0s}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c.cli("apply", "-f", file).wants(t, 0, "queues applied (revision 1)\n", "")
	saves := strings.ReplaceAll(`mine=DIR/$SYNAPSE_RANK
if [ -e $mine.saved ]; then echo resumed; exit 0; fi
trap 'sleep 0.3; touch $mine.saved; rm $mine.alive; exit 0' TERM
touch $mine.alive
while :; do sleep 0.05; done`, "DIR", dir)
	spec := gang(2, 8, saves)
	spec.Queue, spec.Stop.GraceMs = "q", 30_000
	low := c.submit(writing(t, dir, spec))
	c.until(low, "alive", func(*messages.JobStatus) bool {
		alive, _ := filepath.Glob(filepath.Join(dir, "*.alive"))
		return len(alive) == 2
	})
	c.await(low, "running")
	beside := strings.ReplaceAll(`ls DIR/*.alive && exit 7; sleep 0.5; ls DIR/*.alive && exit 8; exit 0`, "DIR", dir)
	spec = gang(1, 8, beside)
	spec.Queue, spec.Priority = "q", 5
	high := c.submit(writing(t, dir, spec))
	c.await(high, "succeeded")
	s := c.await(low, "succeeded")
	if r := s.Record; r.Runs != 2 || r.Preemptions != 1 || r.Failures+r.InfraRestarts != 0 {
		t.Errorf("the gang ran %d times, was preempted %d times, %d failures, %d restarts", r.Runs, r.Preemptions, r.Failures,
			r.InfraRestarts)
	}
	if text := c.logs(low); !strings.Contains(text, "resumed") {
		t.Errorf("the gang did not continue from its saved work: %q", text)
	}
	c.cli("describe", "job", low).wants(t, 0, "2, 1 preempted\n", "")
	c.cli("describe", "job", low).wants(t, 0, "for job "+high+", which has a higher priority", "")
	c.cli("describe", "job", high).wants(t, 0, low+" (of lower priority)", "")
}
