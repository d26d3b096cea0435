package gateway

import (
	"fmt"

	"google.golang.org/grpc"

	"github.com/yi-json/synapse/cluster/api"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns processes that a task has run in another task of its attempt. A machine asks for its task, and is
// asked for proof: that the attempt is the one that runs now, and that this rank of it is on that machine.

// Reach runs a process in another task of the caller's attempt, and carries its streams.
func (g *Gateway) Reach(stream grpc.BidiStreamingServer[api.ExecIn, api.ExecOut]) error {
	q, job, err := g.asked(stream)
	if err != nil {
		return err
	}
	defer g.leave()
	asks := ""
	if g.o.Machine != nil {
		asks = g.o.Machine(stream.Context())
	}
	rank, err := fellowOf(job, q, asks, g.o.Machine != nil)
	if err != nil {
		return err
	}
	q.Rank = rank
	return g.execute(q, job, stream)
}

// fellowOf is the rank that is named (:N), or the first on the machine that is, of those that run. Where machines prove
// who they are, the caller's must be on the one that asks.
func fellowOf(job *messages.JobStatus, q *api.ExecIn, asks string, proven bool) (int32, error) {
	a := job.GetAttempt()
	if job.GetRecord().GetId() != q.Job || messages.FromToken(a.GetToken()) != messages.FromToken(q.Attempt) ||
		a.GetEnd() != nil || job.GetRecord().GetState().Terminal() {
		return 0, api.StatusOf(&messages.Outcome{
			Code: messages.Code_CODE_CONFLICT, Field: "attempt", Text: "it is not the attempt that runs now",
		})
	}
	caller, found := topology.NodeID(""), int32(-1)
	for _, p := range a.GetPlaces() {
		if p.GetRank() == q.Rank {
			caller = topology.NodeID(p.GetNode())
		}
		named := q.Host == fmt.Sprintf(":%d", p.GetRank()) || q.Host == p.GetNode() || q.Host == p.GetAddress()
		if named && p.GetExit() == nil && (found < 0 || p.GetRank() < found) {
			found = p.GetRank()
		}
	}
	switch {
	case caller == "" || proven && string(caller) != asks:
		return 0, api.StatusOf(&messages.Outcome{
			Code: messages.Code_CODE_NOT_ALLOWED, Field: "rank", Text: "that rank does not run on the machine that asks",
		})
	case found < 0:
		return 0, api.StatusOf(&messages.Outcome{
			Code: messages.Code_CODE_NOT_FOUND, Field: "host",
			Text: "no task of this gang runs on " + messages.AsText(q.Host), Hint: "$SYNAPSE_HOSTS lists its machines",
		})
	}
	return found, nil
}
