package main

import (
	"testing"
	"time"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests the job that `run` submits, and that no job remains if the command could not run. e2e's TestRun
// uses real commands.

// TestRunHolds checks that the keeper ends without a client, unless the job is kept.
func TestRunHolds(t *testing.T) {
	for _, c := range []struct {
		args   []string
		manner string
	}{
		{[]string{"run", "--gpu", "2", "bash", "--login"}, "leave"},
		{[]string{"run", "--gpu", "2", "--keep", "--", "bash", "--login"}, "stay"},
	} {
		f := startFake(t)
		f.onCancel = func(id string) {
			f.finish(id, "cancelled", messages.JobState_JOB_STATE_CANCELLED, 0, "cancelled")
		}
		go f.starts(t, "jnew1")
		cli(f.address, c.args...).wants(t, exit.NotRun, "", "")
		spec := told[*messages.Submit](f)[0].GetSpec()
		command := spec.GetCommand()
		if len(command) != 7 || command[4] != c.manner || command[5] != "bash" || command[6] != "--login" {
			t.Errorf("%q: its tasks run %q", c.args, command)
		}
		if spec.GetName() != "bash" || spec.GetImage() != messages.HostImage ||
			spec.GetGang().GetTotal().GetMilliGpu() != 2000 {
			t.Errorf("%q: submits %v", c.args, spec)
		}
		if n := len(told[*messages.Cancel](f)); (n == 1) == (c.manner == "stay") {
			t.Errorf("%q: its command was not run, and it was cancelled %d times", c.args, n)
		}
	}
}

// starts makes a job run after it was submitted.
func (f *fake) starts(t *testing.T, id string) {
	for limit := pace.Until(time.Minute); time.Now().Before(limit); time.Sleep(time.Millisecond) {
		if len(told[*messages.Submit](f)) > 0 {
			f.put(&messages.JobStatus{Phase: "running",
				Record: &messages.JobRecord{Id: id, State: messages.JobState_JOB_STATE_ACTIVE, Spec: spec("x")}})
			return
		}
	}
	t.Error("nothing is submitted")
}
