package e2e

import (
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file tests with real processes that another node replaces a lost one.

// TestSwap ends a node with all its processes. Another node takes its rank over. The other rank finds its files again.
func TestSwap(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "r1", "--cpus", "2", "--gpus", "1")
	lost := c.node("n2", "r1", "--cpus", "2", "--gpus", "1")
	id := c.order(`cd "$TMPDIR"; n=$(cat count 2>/dev/null || echo 0); echo $((n + 1)) >count
		echo "attempt $SYNAPSE_RUN of rank $SYNAPSE_RANK finds $n; generation ${SYNAPSE_GENERATION:-0}"
		[ "$SYNAPSE_RUN" = 2 ] && exit 0
		exec sleep 600`, "--replicas", "2", "--gpus-per-task", "1", "--cpu", "2", "--restarts", "1", "--in-place",
		"--grace", "1s")
	first := c.await(id, "running").GetAttempt()
	c.node("n3", "r1", "--cpus", "2", "--gpus", "1")
	moved := rankOn(first, "n2")
	c.crash(lost)
	a := c.await(id, "succeeded").GetAttempt()
	if a.GetRun() != 2 || len(a.GetInherited().GetSwapped()) != 1 || rankOn(a, "n3") != moved ||
		rankOn(a, "n1") != rankOn(first, "n1") {
		t.Errorf("%v follows %v", a, first)
	}
	t.Logf("lost %d ms after the barrier, stopped in %d ms, prepared in %d ms, started %d ms after COMMIT",
		first.GetEnd().GetRanMs(), a.GetStoppingMs(), a.GetPreparingMs(), a.GetStartedUnixMs()-a.GetCommittedUnixMs())
	out := c.logs(id)
	for _, want := range []string{"finds 1; generation 1", "finds 0; generation 1"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	c.cli("describe", "job", id).wants(t, 0, "n3 replaced n2", "")
	c.cli("history", "-o", "json").wants(t, 0, `"swapped"`, "")
}

// TestSpare ends a node while another job waits. No node is free, but the job holds a spare.
func TestSpare(t *testing.T) {
	c := newCluster(t)
	nodes := map[string]*process{}
	for _, n := range []string{"n1", "n2", "n3"} {
		nodes[n] = c.node(n, "r1", "--cpus", "2", "--gpus", "1")
	}
	id := c.order(`[ "$SYNAPSE_RUN" = 2 ] && exit 0; exec sleep 600`, "--replicas", "2", "--gpus-per-task", "1",
		"--cpu", "2", "--restarts", "1", "--in-place", "--spares", "1", "--grace", "1s")
	first := c.await(id, "running").GetAttempt()
	if len(first.GetSpares()) != 1 {
		t.Fatalf("it holds the spares %v", first.GetSpares())
	}
	spare, lost := first.Spares[0].Node, first.Places[1].Node
	other := c.order("exit 0", "--gpus-per-task", "1", "--cpu", "2")
	c.await(other, "queued")
	c.cli("describe", "job", id).wants(t, 0, "Spares:", "")
	c.crash(nodes[lost])
	a := c.await(id, "succeeded").GetAttempt()
	swapped := a.GetInherited().GetSwapped()
	if len(swapped) != 1 || swapped[0].Node != lost || swapped[0].By != spare || len(a.GetSpares()) != 0 {
		t.Errorf("%s was lost, %s is the spare, and %v follows", lost, spare, a)
	}
	c.await(other, "succeeded")
}

// rankOn returns the rank of an attempt on a node, or -1.
func rankOn(a *messages.AttemptRecord, node topology.NodeID) int32 {
	for _, p := range a.GetPlaces() {
		if p.Node == string(node) {
			return p.Rank
		}
	}
	return -1
}
