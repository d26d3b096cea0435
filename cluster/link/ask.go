package link

import (
	"context"
	"errors"

	"google.golang.org/grpc"
)

// This file owns requests from a node agent outside its actors. They use the existing connection in parallel to the
// stream.

// errUnlinked is returned if there is no link to a scheduler.
var errUnlinked = errors.New("no link to a scheduler")

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
