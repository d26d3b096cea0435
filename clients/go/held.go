package client

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
)

// This file submits a job that is held from its start.

// heldUntil is the distance of the begin time of a job that will be held. The job cannot start before it is held.
const heldUntil = 300 * 24 * time.Hour

// SendHeld submits a job and holds it. It first submits the job with a distant begin time, so that the job cannot start
// before it is held. The request must have a request ID that is used only once.
func (c *Client) SendHeld(ctx context.Context, q *messages.Submit) (*messages.SubmitReply, error) {
	begin := q.GetSpec().GetBeginUnixMs()
	q = proto.Clone(q).(*messages.Submit)
	q.Spec.BeginUnixMs = time.Now().Add(heldUntil).UnixMilli()
	reply, err := c.Send(ctx, q)
	if err != nil {
		return reply, err
	}
	if _, err := c.Hold(ctx, &messages.Hold{Job: reply.GetJob()}); err != nil {
		return reply, err
	}
	_, err = c.Update(ctx, &messages.Update{Job: reply.GetJob(), SetBegin: true, BeginUnixMs: begin})
	return reply, err
}
