package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file tests what `exec` passes to a process, and that `explain -f` makes the same check as a submit.

// shells is a fake scheduler whose processes end with their input.
type shells struct {
	*fake
	refused *messages.Outcome // the answer to a submit
}

func (s *shells) Exec(stream grpc.BidiStreamingServer[api.ExecIn, api.ExecOut]) error {
	for first := true; ; first = false {
		in, err := stream.Recv()
		if err != nil {
			return err
		}
		if first {
			_ = s.heard(in)
			if err := stream.Send(&api.ExecOut{}); err != nil {
				return err
			}
		}
		if in.GetStdinEnds() {
			return stream.Send(&api.ExecOut{End: &api.ExecEnd{Code: 7}})
		}
	}
}

func (s *shells) DryRun(_ context.Context, q *messages.DryRun) (*messages.DryRunReply, error) {
	if s.refused != nil {
		return nil, api.StatusOf(s.refused)
	}
	return &messages.DryRunReply{Outcome: ok()}, s.heard(q)
}

func startShells(t *testing.T) *shells {
	s := &shells{fake: &fake{changed: make(chan struct{}), seq: 1 << 32}}
	s.address = serve(t, s)
	s.put(job("jone", "running", messages.JobState_JOB_STATE_ACTIVE))
	return s
}

// TestExecWithoutTerminal checks that -t is ignored with a message if the input is not a terminal. The end of the
// input is passed on, so that a shell ends.
func TestExecWithoutTerminal(t *testing.T) {
	s := startShells(t)
	cli(s.address, "exec", "-it", "jone", "--", "bash").wants(t, 7, "", "standard input is not a terminal")
	cli(s.address, "exec", "-i", "jone", "--", "bash").wants(t, 7, "", "")
	cli(s.address, "exec", "-t", "jone", "--", "bash").wants(t, 7, "", "")
	for i, in := range told[*api.ExecIn](s.fake) {
		if in.GetTerminal() != (i == 2) {
			t.Errorf("call %d asks for a terminal: %t", i, in.GetTerminal())
		}
	}
}

// TestExplainFileAsSubmit checks that a job that a submit would refuse is refused, even if resources are free.
func TestExplainFileAsSubmit(t *testing.T) {
	s := startShells(t)
	file := filepath.Join(t.TempDir(), "job.yaml")
	text := "apiVersion: synapse/v1\nkind: Job\nmetadata: {name: a}\nspec: {image: /i}\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cli(s.address, "explain", "-f", file).wants(t, 0, "a would wait: needs 64 GPUs\n", "")
	s.refused = &messages.Outcome{
		Code: messages.Code_CODE_INVALID, Field: "time_limit_ms", Text: "is 48h0m0s, and the maximum in queue q is 1h0m0s",
	}
	r := cli(s.address, "explain", "-f", file)
	r.wants(t, exit.Misuse, "", "--time-limit: is 48h0m0s, and the maximum in queue q is 1h0m0s\n")
	if r.out != "" {
		t.Errorf("it says %q", r.out)
	}
}
