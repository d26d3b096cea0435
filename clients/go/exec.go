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

// This file owns an exec session in a task, as a stream. It is never begun twice: once it runs, a scheduler that goes
// away is its end.

// ExecSession is an exec session that runs.
type ExecSession struct {
	stream  grpc.BidiStreamingClient[api.ExecIn, api.ExecOut]
	sending sync.Mutex
	first   *api.ExecOut // until it was received
}

// Execute runs one. It returns when the process runs, or says why it does not. The job may be named as for Job; only
// where that is no whole id is anybody asked which it is.
func (c *Client) Execute(ctx context.Context, first *api.ExecIn) (*ExecSession, error) {
	if strings.Contains(first.Job, "[") { // the scheduler knows ids alone
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
	_ = e.Send(first) // a stream that was refused says why when it is listened to
	e.first, err = stream.Recv()
	return e, err
}

// Send sends what is for the process. Any goroutine may.
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
