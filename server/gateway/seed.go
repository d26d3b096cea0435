package gateway

import (
	"context"
	"strings"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file implements the call of the first clients, and defines the meaning of its few fields.

// seedScheduler serves v1.Scheduler.
type seedScheduler struct {
	api.UnimplementedSchedulerServer
	g *Gateway
}

// SubmitJob adds a job to the queue. The amounts are totals, from any nodes. The client's ID becomes the request
// ID, so that the client may repeat the call, and the job's name. The answer contains the job's real ID.
func (s seedScheduler) SubmitJob(ctx context.Context, q *api.SubmitJobRequest) (*api.SubmitJobResponse, error) {
	if err := s.g.admit(ctx, q); err != nil {
		return nil, err
	}
	reply, err := s.g.Submit(ctx, &messages.Submit{RequestId: q.Id, Spec: &messages.JobSpec{
		Name: seedName(q.Id), Image: q.Image, Command: seedCommand(q.Image),
		Gang: &messages.GangSpec{
			Split: messages.Split_SPLIT_ANY,
			Total: &messages.Resources{
				MilliCpu: int64(q.MinCpu) * 1000, MemoryBytes: q.MinMemory, MilliGpu: int64(q.MinGpu) * 1000,
			},
		},
	}})
	if err != nil {
		return nil, err
	}
	return &api.SubmitJobResponse{JobId: reply.Job, Success: true, Message: "Job queued successfully"}, nil
}

// seedCommand returns the command of a job without a command: the entrypoint of an image, or on the host a shell
// without input.
func seedCommand(image string) []string {
	if image == "host" {
		return []string{"/bin/sh"}
	}
	return nil
}

// seedName returns a valid job name for an ID, which may be any text.
func seedName(id string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, id)
	return name[:min(len(name), messages.MaxNameBytes)]
}
