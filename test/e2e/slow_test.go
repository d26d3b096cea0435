package e2e

import (
	"testing"

	"github.com/yi-json/synapse/messages"
)

// This file tests that a slow rank of real processes is named.

// even is a rank that reports a step every 0.1 s. All ranks need the same time for a step, as ranks that wait for each
// other do. Only rank 1 works longer in each step.
const even = `work=20; [ $SYNAPSE_RANK = 1 ] && work=50
step=0
while :; do
  step=$((step + 1))
  echo "{\"step\":$step,\"total\":100000,\"work_ms\":$work}" >> "$SYNAPSE_PROGRESS"
  sleep 0.1
done`

// TestSlowRank checks that the rank whose own work takes longer is named with its node, and that ranks without a slow
// one are not.
func TestSlowRank(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "r1", "--cpus", "3")
	c.node("n2", "r1", "--cpus", "3")
	args := []string{"--replicas", "3", "--cpu", "1"}
	alike := c.order(`SYNAPSE_RANK=0; `+even, args...)
	id := c.order(even, args...)
	s := c.until(id, "compared", func(s *messages.JobStatus) bool { return s.GetProgress().GetSlowRanks() > 0 })
	if slow := s.Progress.Slow; len(slow) != 1 || slow[0].Rank != 1 || slow[0].Percent != 250 || slow[0].Steps < 20 ||
		slow[0].StepUs != 50_000 || slow[0].Node != s.Attempt.Places[1].Node {
		t.Errorf("the slow ranks are %v", slow)
	}
	node := s.Attempt.Places[1].Node
	c.cli("describe", "job", id).wants(t, 0, "rank 1 on "+node+" needs 2.50 times", "")
	c.cli("get", "nodes", "--slow").wants(t, 0, node+" ", "")
	c.cli("get", "events").wants(t, 0, "slow: rank 1 on "+node, "")
	other := c.until(alike, "compared as well", func(s *messages.JobStatus) bool {
		return s.GetProgress().GetStep() > 60
	})
	if n := other.Progress.SlowRanks; n != 0 {
		t.Errorf("of equal ranks, %d are slow: %v", n, other.Progress.Slow)
	}
	c.cli("cancel", id, alike).wants(t, 0, "", "")
}
