package gateway

import (
	"context"
	"strings"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file owns the call of the first clients, and what their few fields mean.

// seedScheduler serves v1.Scheduler.
type seedScheduler struct {
	api.UnimplementedSchedulerServer
	g *Gateway
}

// SubmitJob puts a job into the queue. The amounts are totals, from whatever machines have them free. The id that the
// client made up becomes the request's id, so that the client may ask again, and the job's name; the answer has the id
// under which the job is known here.
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

// seedCommand is the command of a job that cannot name one: an image's own entrypoint, and on the host, which has none,
// a shell without input.
func seedCommand(image string) []string {
	if image == "host" {
		return []string{"/bin/sh"}
	}
	return nil
}

// seedName makes a job's name of an id, for which the first clients may use any text.
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
