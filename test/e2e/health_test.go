package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests health checks of a node, with real agents and programs.

// TestHealthBeforeWork checks that a failed check before an allocation is prepared keeps the gang from that node. The
// node must become unschedulable with the check's output, and the gang must run on another node without a counted
// failure. A check that hangs must be killed.
func TestHealthBeforeWork(t *testing.T) {
	told, rules := tells(t)
	c := newCluster(t, "--config", rules)
	ill := filepath.Join(c.dir, "ill")
	program := filepath.Join(c.dir, "check")
	file := filepath.Join(c.dir, "node.yaml")
	for path, text := range map[string]string{
		program: "#!/bin/sh\n[ -e " + ill + " ] || exit 0\ncat " + ill + "\n[ -s " + ill + " ] || sleep 600\nexit 1\n",
		file: "health:\n  fabric:\n    command: [" + program + ", mlx5_0]\n    timeout: 10s\n" +
			"    when: [join, prepare]\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	n1 := c.node("n1", "r1", "--config", file)
	first := c.submit(gang(1, 1, "exit 0"))
	c.await(first, "succeeded")
	told.has(t, "job-finished job "+first) // notifications work by then
	if err := os.WriteFile(ill, []byte("a port is down"), 0o600); err != nil {
		t.Fatal(err)
	}
	id := c.submit(gang(1, 1, "exit 0"))
	n1.says(t, "UNHEALTHY: a health check of this node fails: fabric: exit status 1: a port is down")
	for limit := pace.Until(30 * time.Second); !strings.Contains(c.machine("n1").GetClosed(), "a port is down"); {
		if time.Now().After(limit) {
			t.Fatalf("n1 is not cordoned: %q", c.machine("n1").GetClosed())
		}
		time.Sleep(20 * time.Millisecond)
	}
	c.node("n2", "r1")
	done := c.await(id, "succeeded")
	if r := done.GetRecord(); r.InfraRestarts != 0 || r.Failures != 0 || r.PrepareFailures != 0 || r.Runs != 2 {
		t.Errorf("the node's failure counts against the job: %v", r)
	}
	n1.kill()
	if err := os.WriteFile(ill, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.node("n1", "r1", "--config", file).says(t, "fabric: the program did not end in time (10s), and was killed")
	told.has(t, "node-unschedulable node n1 is unschedulable: ", "a port is down",
		"job-finished job "+id+" (gang) of anonymous succeeded\n")
}

// told is a file into which a scheduler's rule writes notifications.
type told string

// tells creates a notification program, and the scheduler's settings for it.
func tells(t *testing.T) (told, string) {
	t.Helper()
	dir := t.TempDir()
	to, program, file := filepath.Join(dir, "told"), filepath.Join(dir, "tell"), filepath.Join(dir, "scheduler.yaml")
	for path, text := range map[string]string{
		program: "#!/bin/sh\necho \"$SYNAPSE_EVENT $SYNAPSE_TEXT\" >> " + to + "\n",
		file:    "notify:\n  all: {on: [job-finished, node-unschedulable], command: [" + program + "]}\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return told(to), file
}

// has waits until all of these notifications were sent.
func (f told) has(t *testing.T, words ...string) {
	t.Helper()
	for limit := pace.Until(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		text, _ := os.ReadFile(string(f))
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(string(text), word) }) {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("all of %q must be notified, but got:\n%s", words, text)
		}
	}
}
