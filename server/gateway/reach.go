package gateway

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file implements processes that one task starts in another task of the same attempt. The node of the first
// task makes the request. The gateway checks that the attempt is the current one and that the rank is on that node.

// Reach runs a process in another task of the caller's attempt, and copies its streams.
func (g *Gateway) Reach(stream grpc.BidiStreamingServer[api.ExecIn, api.ExecOut]) error {
	q, job, err := g.asked(stream)
	if err != nil {
		return err
	}
	defer g.leave()
	if job, err = g.begun(stream.Context(), job); err != nil {
		return err
	}
	asks, proven := g.calling(stream.Context())
	rank, err := reachedRank(job, q, asks, proven)
	if err != nil {
		return err
	}
	q.Rank = rank
	return g.execute(q, job, stream)
}

// calling returns the node that makes a call, and whether nodes are authenticated.
func (g *Gateway) calling(ctx context.Context) (node string, proven bool) {
	if g.o.Machine == nil {
		return "", false
	}
	return g.o.Machine(ctx), true
}

// beginLook is the interval of checks while some tasks have not started.
const beginLook = 20 * time.Millisecond

// begun waits a short time until all tasks of a gang have started. One running task does not prove that the others
// run. A late start is better than a refusal, because the task would not repeat the request.
func (g *Gateway) begun(ctx context.Context, job *messages.JobStatus) (*messages.JobStatus, error) {
	token := messages.FromToken(job.GetAttempt().GetToken())
	for limit := g.o.Clock.After(comePatience); ; {
		a := job.GetAttempt()
		if a.GetStartedUnixMs() != 0 || a.GetEnd() != nil || messages.FromToken(a.GetToken()) != token {
			return job, nil
		}
		select {
		case <-limit:
			return job, nil
		case <-ctx.Done():
			return nil, lapsed(ctx.Err())
		case <-g.closed:
			return nil, api.StatusOf(closing())
		case <-g.o.Clock.After(beginLook):
		}
		var err error
		if job, err = g.find(ctx, job.GetRecord().GetId()); err != nil {
			return nil, err
		}
	}
}

// reachedRank returns the named rank (:N), or the first running rank on the named node. If nodes are authenticated,
// the caller's rank must be on the requesting node.
func reachedRank(job *messages.JobStatus, q *api.ExecIn, asks string, proven bool) (int32, error) {
	if err := isCurrent(job, q.Job, q.Attempt); err != nil {
		return 0, err
	}
	found := int32(-1)
	for _, p := range job.GetAttempt().GetPlaces() {
		named := q.Host == fmt.Sprintf(":%d", p.GetRank()) || q.Host == p.GetNode() || q.Host == p.GetAddress()
		if named && p.GetExit() == nil && (found < 0 || p.GetRank() < found) {
			found = p.GetRank()
		}
	}
	if err := runsThere(job, q.Rank, asks, proven); err != nil {
		return 0, err
	}
	if found < 0 {
		return 0, api.StatusOf(&messages.Outcome{
			Code: messages.Code_CODE_NOT_FOUND, Field: "host",
			Text: "no task of this gang runs on " + messages.AsText(q.Host), Hint: "use a host of $SYNAPSE_HOSTS",
		})
	}
	return found, nil
}

// isCurrent refuses an attempt that has ended, or that is not the job's latest.
func isCurrent(job *messages.JobStatus, id string, token *messages.Token) error {
	a := job.GetAttempt()
	if job.GetRecord().GetId() != id || messages.FromToken(a.GetToken()) != messages.FromToken(token) ||
		a.GetEnd() != nil || job.GetRecord().GetState().Terminal() {
		return api.StatusOf(&messages.Outcome{
			Code: messages.Code_CODE_CONFLICT, Field: "attempt", Text: "attempt is not the current one",
		})
	}
	return nil
}

// runsThere refuses a rank that does not exist. If nodes are authenticated, the rank must be on the calling node.
func runsThere(job *messages.JobStatus, rank int32, asks string, proven bool) error {
	for _, p := range job.GetAttempt().GetPlaces() {
		if p.GetRank() == rank && (!proven || p.GetNode() == asks) {
			return nil
		}
	}
	return api.StatusOf(&messages.Outcome{
		Code: messages.Code_CODE_NOT_ALLOWED, Field: "rank", Text: "rank does not run on the calling node",
	})
}
