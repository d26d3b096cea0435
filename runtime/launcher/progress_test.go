package launcher_test

import (
	"testing"

	"github.com/yi-json/synapse/messages"
)

// TestProgress: what a task writes to the file and to its output reaches the actor, and garbage is counted.
func TestProgress(t *testing.T) {
	r := newRig(t, room(t), nil)
	spec := script(`echo '{"step":3,"total":10,"loss":2.1}' >> "$SYNAPSE_PROGRESS"
		` + untilGo + `rm go; echo 'step 7/10'
		` + untilGo + `echo nonsense >> "$SYNAPSE_PROGRESS"; sleep 60`)
	spec.Progress = &messages.ProgressSpec{Pattern: `step (\d+)/(\d+)`}
	r.run(0, spec)
	first := take[*messages.TaskProgress](r, 0)
	if first.Step != 3 || first.Total != 10 || first.ChangedNs == 0 || len(first.Metrics) != 1 ||
		first.Metrics[0].Value != "2.1" {
		t.Fatalf("the file gave %v", first)
	}
	letGo(t, r.dir, 0)
	if m := take[*messages.TaskProgress](r, 0); m.Step != 7 || m.MilliRate <= 0 {
		t.Fatalf("the output gave %v", m)
	}
	letGo(t, r.dir, 0)
	if m := take[*messages.TaskProgress](r, 0); m.Garbage != 1 || m.Step != 7 {
		t.Fatalf("nonsense gave %v", m)
	}
	r.tell(&messages.StopTask{Id: id(0)})
	r.gone(0)
}
