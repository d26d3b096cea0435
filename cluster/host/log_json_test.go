package host

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/topology"
)

// TestJSONLog checks that each line is one object with its level and the same text as in the text format. It has fields
// for subjects that are among the arguments or are known of the log.
func TestJSONLog(t *testing.T) {
	var told strings.Builder
	log := NewLogIn(JSONLog, &told, false)
	log.now = func() time.Time { return time.Unix(1_700_000_000, 123_456_000) }
	own := log.With(actors.FieldNode, "n1")
	job, node, token := topology.JobID("j7"), topology.NodeID("n2"), topology.Token{Epoch: 3, Counter: 7}
	own.Info("STARTING CONTAINER: JobID=%s, Image=%s", job, "host")
	own.Debug("nobody wants this")
	log.SetEpoch(3)
	log.Warn("%s is odd, by 100%% \"sure\"", node)
	log.Error("Failed to register node %s: %s", "n3", "node already registered")
	own.Info("Task %v of job %s is stuck", topology.TaskKey{Token: token, Rank: 2}, "j8")
	actors.About(own, actors.FieldAttempt, token.String).Info("Job %s finished successfully", job)
	actors.Tagged{To: own, Tag: actors.TagCalls}.Info("Heartbeat from %s", node)
	own.Info("Nothing\nof it")
	const at = `{"time":"2023-11-14T22:13:20.123456Z","level":`
	want := []string{
		at + `"info","message":"STARTING CONTAINER: JobID=j7, Image=host","node":"n1","job":"j7"}`,
		at + `"warn","message":"n2 is odd, by 100% \"sure\"","epoch":3,"node":"n2"}`,
		at + `"error","message":"Failed to register node n3: node already registered","epoch":3,"node":"n3"}`,
		at + `"info","message":"Task 00000003.00000007-2 of job j8 is stuck","epoch":3,"node":"n1","job":"j8",` +
			`"attempt":"00000003.00000007"}`,
		at + `"info","message":"Job j7 finished successfully","epoch":3,"node":"n1","job":"j7","attempt":"00000003.00000007"}`,
		at + `"info","message":"[GRPC] Heartbeat from n2","epoch":3,"node":"n2"}`,
		at + `"info","message":"Nothing\nof it","epoch":3,"node":"n1"}`,
	}
	lines := strings.Split(strings.TrimSuffix(told.String(), "\n"), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d lines:\n%s", len(lines), told.String())
	}
	for i, line := range lines {
		if line != want[i] || !json.Valid([]byte(line)) {
			t.Errorf("%s\nwant\n%s", line, want[i])
		}
	}
}

// TestAboutInText checks that the text format shows no fields.
func TestAboutInText(t *testing.T) {
	var told strings.Builder
	log := NewLog(&told, false)
	actors.About(log.With(actors.FieldNode, "n1"), actors.FieldJob, func() string {
		t.Error("fields are computed although the log has none")
		return ""
	}).Info("Job %s finished successfully", "j7")
	if !strings.HasSuffix(told.String(), " Job j7 finished successfully\n") {
		t.Errorf("%q", told.String())
	}
}
