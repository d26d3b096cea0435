package client

import (
	"context"
	"errors"
	"strings"
	"sync"

	"google.golang.org/grpc"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file implements exec sessions as streams. A session is never repeated: if the scheduler is lost, a
// started session ends.

// ExecSession is the client's end of a running exec session.
type ExecSession struct {
	stream  grpc.BidiStreamingClient[api.ExecIn, api.ExecOut]
	sending sync.Mutex
	first   *api.ExecOut // nil after Receive has returned it
}

// Execute starts a session. It returns when the process runs, or with the reason why the process did not
// start. The job may be named as for Job. Execute looks the name up only if it is not a complete ID.
func (c *Client) Execute(ctx context.Context, first *api.ExecIn) (*ExecSession, error) {
	if strings.Contains(first.Job, "[") { // the scheduler accepts only IDs here
		job, err := c.Job(ctx, first.Job)
		if err != nil {
			return nil, err
		}
		first.Job = job.GetRecord().GetId()
	}
	asked := false
	for hops := 0; ; {
		e, err := c.execOnce(ctx, first)
		var refused *Error
		switch {
		case moved(err, &hops):
			continue
		case asked || !errors.As(err, &refused) || refused.Code != messages.Code_CODE_NOT_FOUND:
			return e, err
		}
		asked = true
		job, named := c.Job(ctx, first.Job)
		if named != nil {
			return nil, named
		}
		if id := job.GetRecord().GetId(); id != first.Job {
			first.Job = id
			continue
		}
		return e, err
	}
}

func (c *Client) execOnce(ctx context.Context, first *api.ExecIn) (*ExecSession, error) {
	stream, err := c.SynapseClient.Exec(ctx)
	if err != nil {
		return nil, err
	}
	e := &ExecSession{stream: stream}
	_ = e.Send(first) // a refused stream reports its error on receive
	e.first, err = stream.Recv()
	return e, err
}

// Send sends input to the process. Any goroutine may call Send.
func (e *ExecSession) Send(in *api.ExecIn) error {
	e.sending.Lock()
	defer e.sending.Unlock()
	return e.stream.Send(in)
}

// Receive returns the next output of the process.
func (e *ExecSession) Receive() (*api.ExecOut, error) {
	if out := e.first; out != nil {
		e.first = nil
		return out, nil
	}
	return e.stream.Recv()
}
