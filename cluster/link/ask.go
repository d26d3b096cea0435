package link

import (
	"context"
	"errors"

	"google.golang.org/grpc"
)

// This file owns questions that a machine asks and not one of its actors: it fetches what it needs over the connection
// that it already has, beside the stream.

// errUnlinked is the error where there is no scheduler to ask.
var errUnlinked = errors.New("there is no link to a scheduler")

// Ask calls do with the connection to each linked scheduler until one answers without an error; otherwise it returns
// the last error. Leaders and standbys are asked alike: each knows for itself whether it can answer.
func (c *Client) Ask(ctx context.Context, do func(context.Context, grpc.ClientConnInterface) error) error {
	c.mu.RLock()
	var conns []grpc.ClientConnInterface
	for _, l := range c.lines { //order: all are asked until one answers
		conns = append(conns, l.conn)
	}
	c.mu.RUnlock()
	err := errUnlinked
	for _, conn := range conns {
		if err = do(ctx, conn); err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}
