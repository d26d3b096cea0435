package leader

import (
	"testing"

	"github.com/yi-json/synapse/messages"
)

// TestSecretsEndWithTheJob: a job that waits has what is sealed for its tasks on disk, is shown without it, and loses
// it with the write that ends it, however it ends.
func TestSecretsEndWithTheJob(t *testing.T) {
	waits := &messages.JobRecord{Id: "j1", Spec: oneGPU(), State: messages.JobState_JOB_STATE_QUEUED, Sealed: []byte{1}}
	j := newJob(leaderPorts(), somePeers, 1, waits, nil).(*Job)
	if d := j.compose(); len(d.rec.Sealed) != 1 || len(shownFirst(d.rec).Record.Sealed) > 0 {
		t.Errorf("while it waits: %v", d.rec)
	}
	j.cancel = &messages.Deed{By: &messages.Principal{Name: "ann"}}
	if d := j.compose(); !d.closed || !d.rec.State.Terminal() || len(d.rec.Sealed) > 0 {
		t.Errorf("cancelled: %v", d.rec)
	}
	if len(waits.Sealed) != 1 {
		t.Error("the version before has changed, which others hold")
	}
}
