package client

import (
	"context"
	"io"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file finds the leading scheduler for a call. A standby names the leader in a trailer. An unreachable
// scheduler is skipped for the next one in the list. While another scheduler takes over, the call is retried
// for a limited time. Every call of the API may be repeated: a submit has a request ID, and the other calls
// set a state.

const (
	// tryTimeout limits how long one of several schedulers may take to answer. A frozen scheduler keeps
	// its connections, so only a timeout detects it.
	tryTimeout = 5 * time.Second
	// roundPause is the pause after all schedulers were asked without success.
	roundPause = 100 * time.Millisecond
	// tellAfter is the time after which a waiting user sees the reason. Shorter waits are not reported.
	tellAfter = 500 * time.Millisecond
	// maxHops limits how many trailers are followed without a pause. Without the limit, two schedulers
	// that name each other would cause an endless loop.
	maxHops = 3
)

// next returns the server to ask.
func (c *Client) next() *server {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.servers[c.at]
}

func (c *Client) size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.servers)
}

// moveOn selects another scheduler after from failed: the named leader, or else the next in the list. It
// reports whether a leader was named. Calls run concurrently: if another call has already moved on, moveOn
// keeps that choice.
func (c *Client) moveOn(from *server, trailer metadata.MD) (named bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if told := trailer.Get(api.LeaderTrailer); len(told) > 0 && told[0] != from.address {
		at := c.find(told[0])
		if at < 0 && c.add(told[0]) == nil {
			at = len(c.servers) - 1
		}
		if at >= 0 {
			c.at = at
			return true
		}
	}
	if c.servers[c.at] == from {
		c.at = (c.at + 1) % len(c.servers)
	}
	return false
}

// tries holds the state of one call's search for the leader.
type tries struct {
	began time.Time
	until time.Time
	asked int // schedulers asked since the last pause
	hops  int // trailers followed since the last pause
	told  bool
}

// again decides whether to repeat a call that did not reach the leader, and waits for the required pause.
func (c *Client) again(ctx context.Context, t *tries, from *server, trailer metadata.MD, err error) bool {
	code := status.Code(err)
	if code == codes.ResourceExhausted {
		return waits(ctx, t, trailer)
	}
	slow := code == codes.DeadlineExceeded && ctx.Err() == nil
	if code != codes.Unavailable && !slow {
		return false
	}
	if from.refused.Load() != nil || from.denied() != nil {
		return false // the credentials stay refused
	}
	c.noteAnswer(err)
	t.asked++
	if c.moveOn(from, trailer) && t.hops < maxHops {
		t.hops++
		return true
	}
	if t.asked < c.size() {
		return true
	}
	// If no scheduler ever answered and none refuses connections, the address is wrong. A scheduler that
	// refuses connections may be restarting.
	if !c.reached.Load() && !from.refuses() || time.Now().After(t.until) || endsSoon(ctx) {
		return false
	}
	if !t.told && c.config.Waiting != nil && time.Since(t.began) >= tellAfter {
		c.config.Waiting(from.explain(ctx, err))
		t.told = true
	}
	t.asked, t.hops = 0, 0
	select {
	case <-ctx.Done():
		return false
	case <-time.After(roundPause):
		return true
	}
}

// waits waits as long as a scheduler requires after too many requests, if the deadline allows it.
func waits(ctx context.Context, t *tries, trailer metadata.MD) bool {
	told := trailer.Get(api.RetryAfterTrailer)
	if len(told) != 1 {
		return false
	}
	seconds, err := strconv.ParseUint(told[0], 10, 16)
	pause := time.Duration(seconds) * time.Second
	deadline, bounded := ctx.Deadline()
	if err != nil || time.Now().Add(pause).After(t.until) || bounded && time.Until(deadline) < pause {
		return false
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return true
	}
}

// noteAnswer records that a scheduler has answered. A failed connection, or another kind of server, returns
// no outcome.
func (c *Client) noteAnswer(err error) {
	if err == nil || len(status.Convert(err).Details()) > 0 {
		c.reached.Store(true)
	}
}

// endsSoon reports whether the deadline leaves no time for another round. The caller then gets the reason why
// no scheduler leads instead of a timeout.
func endsSoon(ctx context.Context) bool {
	deadline, bounded := ctx.Deadline()
	return bounded && time.Until(deadline) < 2*roundPause
}

// answer is the interface of all replies that can contain a refusal.
type answer interface{ GetOutcome() *messages.Outcome }

// Invoke makes a call with a single reply.
func (c *Client) Invoke(ctx context.Context, method string, request, reply any, options ...grpc.CallOption) error {
	caller := ctx
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, callTimeout)
		defer cancel()
	}
	t := tries{began: time.Now(), until: time.Now().Add(c.config.Retry)}
	for {
		to := c.next()
		var trailer metadata.MD
		err := c.once(ctx, to, method, request, reply, append(options[:len(options):len(options)], grpc.Trailer(&trailer)))
		if err == nil {
			c.noteAnswer(nil)
			return nil
		}
		if !c.again(ctx, &t, to, trailer, err) {
			return to.explain(caller, err)
		}
	}
}

// once makes the call to one scheduler. If there are several schedulers, the timeout of each is short.
func (c *Client) once(ctx context.Context, to *server, method string, request, reply any,
	options []grpc.CallOption) error {
	if c.size() > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, tryTimeout)
		defer cancel()
	}
	err := to.conn.Invoke(ctx, method, request, reply, options...)
	if a, is := reply.(answer); is && err == nil && a.GetOutcome() != nil {
		err = api.StatusOf(a.GetOutcome())
	}
	return err
}

// NewStream opens a stream to the current scheduler. A standby refuses the stream only with the first answer,
// so the reader must open the stream again.
func (c *Client) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption) (
	grpc.ClientStream, error) {
	to := c.next()
	s, err := to.conn.NewStream(ctx, desc, method, options...)
	if err != nil {
		if status.Code(err) == codes.Unavailable {
			c.moveOn(to, nil)
		}
		return nil, to.explain(ctx, err)
	}
	return &explained{s, c, to, ctx}, nil
}

// explained is a stream that returns errors of this package. The end of the stream stays io.EOF.
type explained struct {
	grpc.ClientStream
	client *Client
	from   *server
	caller context.Context
}

func (s *explained) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == io.EOF {
		return err
	}
	s.client.noteAnswer(err)
	if err == nil {
		return nil
	}
	named := status.Code(err) == codes.Unavailable && s.client.moveOn(s.from, s.Trailer())
	err = s.from.explain(s.caller, err)
	if e, is := err.(*Error); is {
		e.moved = named
	}
	return err
}

// moved reports whether a scheduler refused the stream and named another. The stream can then be reopened
// without a pause, up to maxHops times in a row.
func moved(err error, hops *int) bool {
	e, is := err.(*Error)
	if !is || !e.moved || *hops >= maxHops {
		*hops = 0
		return false
	}
	*hops++
	return true
}
