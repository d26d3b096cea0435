package job

import (
	"testing"

	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/messages"
)

// shownBy returns the status of a job that the Mirror receives.
func shownBy(j *Job) *messages.JobStatus {
	var said []leadertest.Letter
	j.show(&leadertest.Context{Said: &said})
	return said[0].Message.(mirror.JobShown).Status
}

// TestSecretsEndWithTheJob checks the sealed secrets of a job. They are on disk while the job waits, are never shown,
// and are removed by the write that ends the job, whatever its end.
func TestSecretsEndWithTheJob(t *testing.T) {
	waits := &messages.JobRecord{Id: "j1", Spec: leadertest.OneGPU(), State: messages.JobState_JOB_STATE_QUEUED,
		Sealed: []byte{1}}
	j := New(leadertest.Ports(), leadertest.Peers, 1, waits, nil, nil).(*Job)
	if d := j.compose(); len(d.rec.Sealed) != 1 || len(shownBy(j).Record.Sealed) > 0 {
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
