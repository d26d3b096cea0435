package link

import (
	"context"
	"errors"

	"google.golang.org/grpc"
)

// This file owns questions of a machine that are none of its actors': what it has to
// fetch is asked for over the connection that stands anyway, beside the stream.

// errUnlinked: there is nobody to ask.
var errUnlinked = errors.New("there is no link to a scheduler")

// Ask calls do with the connection to each scheduler that is linked, until one answers
// without an error; it returns the last error otherwise. Those that lead and those that
// stand by are asked alike: who can answer is theirs to say.
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
