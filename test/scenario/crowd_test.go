// This file holds the largest scenario: ten thousand jobs wait in a cluster of ten thousand nodes.
package scenario

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/sim"
	"github.com/yi-json/synapse/test/able/pace"
	"github.com/yi-json/synapse/topology"
)

// TestScenarioTenThousandWaiting has as many waiting jobs as nodes. Every job needs a whole rack, and in each rack one
// node is unschedulable. So all jobs wait, and every pass of the planner examines everything. Meanwhile heartbeats
// continue. Planning must neither delay the heartbeats of a live node nor hide a dead one. `make test` runs a fifth of
// each, which has the same rules and 4% of the pairs.
func TestScenarioTenThousandWaiting(t *testing.T) {
	n := 2_000
	if pace.Crowded() {
		n = 10_000
	}
	// A subtest, so that selecting another scenario does not also run the crowd.
	t.Run("crowd", func(t *testing.T) { playCrowd(t, n) })
}

func playCrowd(t *testing.T, n int) {
	const perRack = 16
	w, err := sim.NewWorld(sim.Options{World: "big", Plain: true, Machines: n, PerRack: perRack, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	var deaths []string
	w.OnLine(func(_, text string) {
		if strings.HasPrefix(text, "REAPER:") {
			deaths = append(deaths, text)
		}
	})
	joined := 0
	all := func() bool {
		for joined < n && w.NodeState(joined+1) == "member" {
			joined++
		}
		return joined == n
	}
	if !w.StepUntil(all, time.Minute) {
		t.Fatalf("only %d of %d nodes joined in a minute", joined, n)
	}
	for i := 1; i <= n; i += perRack {
		w.Change(i, messages.NodeVerb_NODE_VERB_CORDON, 0)
	}
	w.RunFor(time.Second)
	orders := make([]*sim.Order, n)
	for i := range orders {
		orders[i] = w.Submit(&messages.JobSpec{
			Name: fmt.Sprintf("wide-%d", i), Image: "host", Queue: "default", Command: sim.Script(time.Minute, 0),
			Gang:     &messages.GangSpec{ReplicasMin: perRack, ReplicasMax: perRack},
			Each:     &messages.Resources{MilliGpu: 8 * topology.WholeGPU},
			Topology: &messages.TopologySpec{Required: "rack"},
		})
	}
	began := w.Now()
	w.RunFor(40 * time.Second)
	waiting := 0
	for _, o := range orders {
		if w.Stored(o).GetState() == messages.JobState_JOB_STATE_QUEUED {
			waiting++
		}
	}
	if waiting != n {
		t.Errorf("only %d of %d jobs wait", waiting, n)
	}
	if len(deaths) > 0 {
		t.Errorf("%d nodes were declared dead, the first of them: %s", len(deaths), deaths[0])
	}
	// A node that truly dies in this crowd is detected in time, and a rack that becomes schedulable is used at
	// once.
	w.PowerLoss(n, 0)
	w.RunFor(16 * time.Second)
	if len(deaths) != 1 {
		t.Errorf("one node lost its power, but the declared deaths are %q", deaths)
	}
	w.Change(1, messages.NodeVerb_NODE_VERB_UNCORDON, 0)
	if !w.StepUntil(func() bool { return len(w.Processes(1)) == 1 }, 20*time.Second) {
		t.Error("a rack became schedulable, but no job runs there")
	}
	for _, v := range w.Violations() {
		t.Error(v)
	}
	t.Logf("%d nodes, %d jobs, %s of virtual time", n, n, w.Now()-began)
}
