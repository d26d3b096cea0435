package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/able/pace"
)

// TestLogsAsJSON checks that with --log-format json every line of a scheduler and an agent is one object, and that
// lines about a job's start and end name the job, attempt, node and leader.
func TestLogsAsJSON(t *testing.T) {
	c := newCluster(t, "--log-format", "json")
	n := c.agent("n1", "r1", "--log-format", "json")
	id := c.submit(gang(1, 1, "exit 0"))
	c.await(id, "succeeded")
	for _, p := range []*process{c.scheduler, n} {
		last := `"message":"Job ` + id + ` finished successfully"`
		for limit := pace.Until(20 * time.Second); !strings.Contains(p.said(), last); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatalf("no line about its end:\n%s", p.said())
			}
		}
		for line := range strings.Lines(p.said()) {
			var o struct {
				Time, Level, Message, Node, Job, Attempt string
				Epoch                                    int
			}
			if err := json.Unmarshal([]byte(line), &o); err != nil || o.Time == "" || o.Level == "" || o.Message == "" {
				t.Fatalf("%q is no valid line: %v", line, err)
			}
			ofJob := strings.Contains(o.Message, "Job "+id)
			if ofJob && (o.Job != id || o.Epoch != 1) || p == n && (o.Node != "n1" || ofJob && o.Attempt == "") {
				t.Errorf("the line lacks its subject: %s", line)
			}
		}
	}
}
