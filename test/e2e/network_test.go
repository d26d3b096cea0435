package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file owns which networks jobs have, from submit to the task.

// TestNetworkNone: a job without a network runs where one can be had, and sees a loopback alone; where none can be had it waits, and is
// told why.
func TestNetworkNone(t *testing.T) { eachDriver(t, networkNone) }

func networkNone(t *testing.T, c *cluster) {
	c.node("n1", "r1")
	spec := gang(1, 0, "ls /sys/class/net; echo meets at $MASTER_ADDR")
	spec.Network = messages.Network_NETWORK_NONE
	id := c.submit(spec)
	if c.driver == "process" {
		if why := c.explain(id); !strings.Contains(why, "no machine here has the network=none") {
			t.Errorf("it is told %q", why)
		}
		return
	}
	c.await(id, "succeeded", 20*time.Second)
	if said := c.logs(id); said != "lo\nmeets at 127.0.0.1\n" {
		t.Errorf("it said %q", said)
	}
	c.cli("describe", "job", id).wants(t, 0, "Network:      none", "")
}
