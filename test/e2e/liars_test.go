package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file tests lying agents next to honest ones, with real processes. One of them is built with a lie.

// lyingAgent is the program. The node's name selects a lie.
var lyingAgent = overlaid("liars", "synapse-node")

// TestOneMachineLies runs three honest nodes and a liar. The liar must be named with the false value, the honest nodes
// must run their gang, and admissions must continue.
func TestOneMachineLies(t *testing.T) {
	t.Parallel()
	for about, words := range map[string]string{
		"port":     "rendezvous port 0 is outside 1 to 65535",
		"grants":   "ranks, but 2 were requested",
		"token":    "which was never created",
		"capacity": "its reports are impossible",
		"epoch":    "follows a leader of epoch",
	} { //order: each has a cluster of its own
		t.Run(about, func(t *testing.T) { besideALiar(t, "liar-"+about, words) })
	}
}

func besideALiar(t *testing.T, liar, words string) {
	c := newCluster(t)
	program, err := lyingAgent()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		c.node(fmt.Sprintf("n%d", i), "r1")
	}
	launch(t, liar, program, c.agentArgs(liar, "r1")...)
	// This gang fits only with the liar, which is used until it is named.
	bait := c.submit(gang(8, 4, "exec sleep 600"))
	c.named(liar, words)
	if liar != "liar-capacity" && liar != "liar-epoch" { // these are detected again by their own reports
		c.named(liar, "cordoned by synapse")
	}
	c.cancel(bait)
	honest := c.submit(gang(3, 8, "exec sleep 600"))
	c.await(honest, "running")

	c.scheduler.kill()
	c.lead(c.address)
	c.client = c.dial()
	if s := c.await(honest, "running"); s.Record.Runs != 1 {
		t.Errorf("the gang of the honest nodes is in attempt %d", s.Record.Runs)
	}
	c.named(liar, "")
	if said := c.scheduler.said(); strings.Contains(said, "ADMISSIONS STOPPED") {
		t.Errorf("one node stopped the cluster:\n%s", said)
	}
	c.cancel(honest)
	// A new leader accepts no submits until its nodes have reported, for at most 2 s.
	time.Sleep(3 * time.Second)
	c.await(c.submit(gang(3, 8, "exit 0")), "succeeded")
}

// named waits until a node's status names the error.
func (c *cluster) named(machine, words string) {
	c.t.Helper()
	closed := ""
	for limit := time.Now().Add(patience); time.Now().Before(limit); time.Sleep(50 * time.Millisecond) {
		reply, err := c.client.ListNodes(c.ctx(), &messages.ListNodes{})
		if err != nil {
			continue // a scheduler that has just started
		}
		for _, n := range reply.Nodes {
			if n.Record.Id == machine {
				closed = n.Closed
			}
		}
		if closed != "" && closed != "not heard since this leader took over" && strings.Contains(closed, words) {
			return
		}
	}
	c.t.Fatalf("%s is %q, but its status does not contain %q", machine, closed, words)
}
