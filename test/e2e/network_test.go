package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests the networks of jobs, from submit to the task.

// TestNetworkNone checks that a job without a network sees only a loopback interface. If no node supports that, the job
// waits, and its reason says so.
func TestNetworkNone(t *testing.T) { eachDriver(t, networkNone) }

func networkNone(t *testing.T, c *cluster) {
	c.node("n1", "r1")
	spec := gang(1, 0, "ls /sys/class/net; echo meets at $MASTER_ADDR")
	spec.Network = messages.Network_NETWORK_NONE
	id := c.submit(spec)
	if c.driver == "process" {
		if why := c.explain(id); !strings.Contains(why, "no node has network=none ·") ||
			!strings.Contains(why, "To start now: without network=none") {
			t.Errorf("unexpected reason: %q", why)
		}
		return
	}
	c.await(id, "succeeded")
	if said := c.logs(id); said != "lo\nmeets at 127.0.0.1\n" {
		t.Errorf("it said %q", said)
	}
	c.cli("describe", "job", id).wants(t, 0, "Network:      none", "")
}

// TestSchedulerOutOfReach checks that a task on the host network cannot reach the port of its node's scheduler, unless
// the node's operator permits it. The ports of its gang must be reachable.
func TestSchedulerOutOfReach(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"carapace", "oci"} {
		t.Run(driver, func(t *testing.T) { schedulerOutOfReach(t, clusterOf(t, driver)) })
	}
}

func schedulerOutOfReach(t *testing.T, c *cluster) {
	groups := carapace.Cgroups{Parent: "/e2e-reach"}
	t.Cleanup(func() { // they stay as long as any process creates a container
		for end := pace.Until(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			_, err := carapace.GC(t.TempDir(), groups)
			left, _ := filepath.Glob("/sys/fs/cgroup/*" + groups.Parent)
			if err == nil && len(left) == 0 {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("these cgroups are left: %v: %v", left, err)
			}
		}
	})
	for _, finding := range carapace.Check(groups) {
		if finding.Name == carapace.LackOfReach && !finding.OK {
			t.Skip(finding.Reason)
		}
	}
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(policy, []byte("reach: [schedulers]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.node("strict", "r1")
	c.node("lenient", "r1", "--job-policy", policy)
	_, port, _ := strings.Cut(c.address, ":")
	script := "for at in 127.0.0.1 127.0.0.2 0.0.0.0; do (exec 3<>/dev/tcp/$at/" + port +
		") 2>/dev/null && echo open || echo closed; done"
	for node, want := range map[string]string{"strict": "closed\nclosed\nclosed\n", "lenient": "open\nclosed\nopen\n"} {
		spec := gang(1, 0, script)
		spec.Command[0], spec.Nodes = "/bin/bash", []string{node}
		id := c.submit(spec)
		c.await(id, "succeeded")
		if said := c.logs(id); said != want {
			t.Errorf("on %s the task printed %q, want %q", node, said, want)
		}
	}
}
