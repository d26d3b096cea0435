package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/yi-json/synapse/messages"
)

// This file tests the command checkpoint.

// TestCheckpoint checks the request, and what the command prints when it waits: the step of each rank, or the ranks
// that did not acknowledge.
func TestCheckpoint(t *testing.T) {
	f := startFake(t)
	id := "jcc1"
	running := func(change func(*messages.JobStatus)) {
		j := job(id, "running", messages.JobState_JOB_STATE_ACTIVE)
		j.Record.Spec.Checkpoint = &messages.CheckpointSpec{Signal: 10}
		j.Attempt = &messages.AttemptRecord{Run: 1, Places: []*messages.Place{{Rank: 0, Node: "n1"}, {Rank: 1, Node: "n2"}}}
		j.Saving = &messages.Saving{Request: 7}
		change(j)
		f.put(j)
	}
	running(func(*messages.JobStatus) {})
	cli(f.address, "checkpoint", id).wants(t, 0, "", "is asked to save a checkpoint, request 7")
	running(func(j *messages.JobStatus) {
		j.Saving.State, j.Saving.Step = messages.SaveState_SAVE_STATE_SAVED, 12
		j.Saving.Ranks = []*messages.RankSaved{{Rank: 0, Steps: []int64{11, 12}}, {Rank: 1, Exited: true}}
	})
	cli(f.address, "checkpoint", id, "--wait").wants(t, 0, "rank 0: step 11 12\nrank 1: step not named\n", "saved step 12")
	cli(f.address, "describe", "job", id).wants(t, 0, "saved step 12\n", "")
	running(func(j *messages.JobStatus) {
		j.Saving.State = messages.SaveState_SAVE_STATE_FAILED
		j.Saving.Ranks = []*messages.RankSaved{{Rank: 0, Steps: []int64{12}}}
	})
	cli(f.address, "checkpoint", id, "--wait").wants(t, 1, "", "no acknowledgement of rank 1 on n2")
	running(func(j *messages.JobStatus) {
		j.Saving.State, j.Saving.Problem = messages.SaveState_SAVE_STATE_FAILED, "the file is a link"
	})
	cli(f.address, "checkpoint", id, "--wait").wants(t, 1, "", "the file is a link")
	running(func(j *messages.JobStatus) {
		j.Saving = nil
		j.Attempt.Saved = &messages.Saved{Step: 13, Request: 7}
	})
	cli(f.address, "checkpoint", id, "--wait").wants(t, 0, "", "saved step 13")
	cli(f.address, "submit", "--cpu", "1", "--image", "host", "--checkpoint", "signal=KILLER", "--", "true").wants(t,
		2, "", "signal")
	cli(f.address, "submit", "--cpu", "1", "--image", "host", "--checkpoint", "ack=mail", "--", "true").wants(t, 2, "",
		"use file or exit or socket")
	cli(f.address, "submit", "--cpu", "1", "--image", "host", "--checkpoint", "when=now", "--", "true").wants(t, 2, "",
		"is not a key of a checkpoint")
}

// TestCheckpointInside checks that --ack runs the helper program of the task, whose exit code and texts it returns.
func TestCheckpointInside(t *testing.T) {
	cli("", "checkpoint", "--ack", "7").wants(t, 2, "", "--ack works only inside a task: SYNAPSE_EXEC is not set\n"+
		"hint: to request a checkpoint, run `synapse-cli checkpoint JOB`")
	cli("", "checkpoint", "j1", "--ack", "7").wants(t, 2, "", "unknown command \"j1\"")
	helper := filepath.Join(t.TempDir(), "helper")
	if err := os.WriteFile(helper, []byte("#!/bin/sh\necho \"$@\"; echo refused >&2; exit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	inside := map[string]string{"SYNAPSE_EXEC": helper}
	cliWith("", "", inside, "checkpoint", "--ack", "7").wants(t, 3, "--ack 7\n", "refused\n")
}
