package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file owns agents that lie, beside honest ones: real processes, of which one
// is built with a lie in it.

// lyingAgent is the program. A lie is chosen by the machine's name.
var lyingAgent = overlaid("liars", "synapse-node")

// TestOneMachineLies: three honest machines and a liar. It is named with what was
// wrong, the honest ones have their gang, and the store opens again.
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
	// Only with the liar there is room for this: it is asked until it is named.
	bait := c.submit(gang(8, 4, "exec sleep 600"))
	c.named(liar, words)
	if liar != "liar-capacity" && liar != "liar-epoch" { // those are found out again by what they say of themselves
		c.named(liar, "cordoned by synapse")
	}
	c.cancel(bait)
	honest := c.submit(gang(3, 8, "exec sleep 600"))
	c.await(honest, "running")

	c.scheduler.kill()
	c.lead(c.address)
	c.client = c.dial()
	if s := c.await(honest, "running"); s.Record.Runs != 1 {
		t.Errorf("the honest machines' gang is in run %d", s.Record.Runs)
	}
	c.named(liar, "")
	if said := c.scheduler.said(); strings.Contains(said, "ADMISSIONS STOPPED") {
		t.Errorf("one machine stopped the cluster:\n%s", said)
	}
	c.cancel(honest)
	// A leader that has just taken over takes no submits until its machines have reported, for 2 s at most.
	time.Sleep(3 * time.Second)
	c.await(c.submit(gang(3, 8, "exit 0")), "succeeded")
}

// named waits until people are told what is wrong with a machine.
func (c *cluster) named(machine, words string) {
	c.t.Helper()
	closed := ""
	for limit := time.Now().Add(patience); time.Now().Before(limit); time.Sleep(50 * time.Millisecond) {
		reply, err := c.client.ListNodes(c.ctx(), &messages.ListNodes{})
		if err != nil {
			continue // a scheduler that has just begun
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
	c.t.Fatalf("%s is %q, and nobody is told %q", machine, closed, words)
}
