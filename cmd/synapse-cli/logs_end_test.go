package main

import (
	"testing"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// TestTheEndThatIsMissing checks that a missing end of the output is reported, with exit code 8 instead of 0. The
// code of a failed job stays.
func TestTheEndThatIsMissing(t *testing.T) {
	f := startFake(t)
	f.logs = []*api.LogPart{{Data: []byte("the beginning\n")},
		{Attempt: &messages.Token{Epoch: 1}, Notice: "end of the output is missing: node n1 has not answered for 1m0s",
			Missing: true}}
	f.put(job("j1", "succeeded", messages.JobState_JOB_STATE_SUCCEEDED))
	cli(f.address, "logs", "-f", "j1").wants(t, exit.Unavailable, "the beginning\n",
		"rank 0: end of the output is missing: node n1")
	for _, c := range []struct {
		state messages.JobState
		code  int32
		want  int
	}{{messages.JobState_JOB_STATE_SUCCEEDED, 0, exit.Unavailable}, {messages.JobState_JOB_STATE_FAILED, 3, 3}} {
		done := make(chan result)
		go func() { done <- cli(f.address, "submit", "--cpu", "1", "--image", "/i", "--attach") }()
		before := len(told[*api.ReadLogs](f))
		await(t, "its output to be asked for", func() bool { return len(told[*api.ReadLogs](f)) > before })
		f.finish("jnew1", "over", c.state, c.code, "")
		(<-done).wants(t, c.want, "the beginning\n", "rank 0: end of the output is missing")
	}
}
