package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests that every display of a waiting job shows a current reason.

// listed holds the fields of a job list that programs read.
type listed struct {
	Items []struct {
		Metadata struct{ ID string }
		Status   struct {
			Phase, Reason  string
			RuntimeSeconds int
		}
	}
}

// reasons returns the reasons of all jobs by ID.
func (c *cluster) reasons() map[string]string {
	c.t.Helper()
	var l listed
	if err := json.Unmarshal([]byte(c.cli("get", "jobs", "-o", "json").wants(c.t, 0, "", "").out), &l); err != nil {
		c.t.Fatal(err)
	}
	out := map[string]string{}
	for _, j := range l.Items {
		out[j.Metadata.ID] = j.Status.Phase + ": " + j.Status.Reason
	}
	return out
}

// wantsReason waits until a job is shown with this reason.
func (c *cluster) wantsReason(id, words string) {
	c.t.Helper()
	for limit := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		got := c.reasons()[id]
		if strings.Contains(got, words) {
			return
		}
		if time.Now().After(limit) {
			c.t.Fatalf("job %s is shown with %q after %s, want %q", id, got, patience, words)
		}
	}
}

// explains waits until the explanation of a job contains these words. The jobs ahead are updated once a second.
func (c *cluster) explains(id, words string) {
	c.t.Helper()
	got := c.cli("explain", id)
	for limit := pace.Until(10 * time.Second); !strings.Contains(got.out, words) && time.Now().Before(limit); {
		time.Sleep(100 * time.Millisecond)
		got = c.cli("explain", id)
	}
	got.wants(c.t, 0, words, "")
}

// again is a job that fails and is retried a minute later.
const again = `
apiVersion: synapse/v1
kind: Job
metadata: {name: again}
spec:
  gang: {replicas: 1}
  resources: {cpu: 1}
  image: host
  command: [/bin/sh, -c, "exit 3"]
  restart: {limit: 2, backoff: 1m}
`

// TestEveryWaitingJobHasAReason checks a job from its submit through all causes of waiting.
func TestEveryWaitingJobHasAReason(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "r1")
	c.node("n2", "r1")
	gang := func(line string, more ...string) string {
		args := append([]string{"submit", "-q", "--replicas", "2", "--gpus-per-task", "8", "--mem", "1Gi", "--image",
			"host"}, more...)
		return strings.TrimSpace(c.cli(append(args, "--", "/bin/sh", "-c", line)...).wants(t, 0, "\n", "").out)
	}
	first := gang("exec sleep 600")
	c.await(first, "running")

	// A job has a reason right after its acknowledgement.
	var waiting []string
	for range 20 {
		waiting = append(waiting, gang("exec sleep 600"))
	}
	const needs = "Resources: needs 16 GPUs, "
	for id, why := range c.reasons() {
		if id != first && (!strings.HasPrefix(why, "queued: "+needs+"0 of 16 free")) {
			t.Errorf("job %s is shown with %q", id, why)
		}
	}
	c.cli("describe", "job", waiting[3]).wants(t, 0, "Reason:       "+needs+"0 of 16 free", "")
	c.cli("get", "jobs").wants(t, 0, needs, "")
	c.explains(waiting[3], " on n1 has no time limit\n")
	c.explains(waiting[3], "Queue         3 jobs ahead (")
	c.explains(waiting[3], "In use        16 GPUs  ")
	c.cli("get", "queues", "--parsable", "--no-headers").wants(t, 0, "|20|0|1|320|16|", "")

	waits := c.begins("wait", waiting[5])
	waits.says(t, waiting[5]+" queued: "+needs+"0 of 16 free\n")

	// A change is shown within about a second.
	c.cli("cordon", "n2", "--reason", "fan").wants(t, 0, "cordoned", "")
	c.wantsReason(waiting[5], "1 node cordoned")
	waits.says(t, "0 of 16 free, 1 node cordoned\n")
	c.cli("cancel", first).wants(t, 0, "", "")
	c.wantsReason(waiting[0], needs+"8 of 16 free, 1 node cordoned")
	c.cli("hold", waiting[0], "--reason", "not today").wants(t, 0, "held", "")
	if got := c.reasons()[waiting[0]]; !strings.HasPrefix(got, "held: Held by anonymous: not today") {
		t.Errorf("a held job is shown with %q", got)
	}
	c.cli("uncordon", "n2").wants(t, 0, "", "")
	c.await(waiting[1], "running")
	c.wantsReason(waiting[2], "queued: "+needs+"0 of 16 free")
	c.cli("get", "jobs", first).wants(t, 0, "cancelled by anonymous\n", "")

	// Between two attempts, the reason includes the remaining time.
	file := filepath.Join(t.TempDir(), "again.yaml")
	if err := os.WriteFile(file, []byte(again), 0o644); err != nil {
		t.Fatal(err)
	}
	backing := strings.TrimSpace(c.cli("submit", "-q", file).wants(t, 0, "\n", "").out)
	c.wantsReason(backing, "queued: Backoff: 1 failure (retry at ")
	c.cli("cancel", backing).wants(t, 0, "", "")
	c.await(backing, "cancelled")
}
