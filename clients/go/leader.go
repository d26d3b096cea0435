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

// This file owns how a call finds the scheduler that leads. One that stands by
// says who does, in a trailer; one that is gone is passed over for the next in the
// list; and while another is taking over, the call is tried again for a while. All
// calls of the API may be made twice: a submit has its request's id, and the
// others say how things are to be.

const (
	// tryTimeout is how long one of several schedulers may take to answer, before the
	// next is asked: one that is frozen keeps its connections.
	tryTimeout = 5 * time.Second
	// roundPause is waited once all have been asked in vain.
	roundPause = 100 * time.Millisecond
	// tellAfter is when one who waits is told why: what passes sooner is not worth a word.
	tellAfter = 500 * time.Millisecond
	// maxHops bounds how often a trailer is followed without a pause: two that each
	// take the other for the leader must not be asked in a circle.
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

// moveOn turns to another scheduler than the one that did not serve: to the one it
// named, else to the next. It reports whether one was named. Calls run beside each
// other: whoever finds that another has moved on already, follows it.
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

// tries is one call's search for the leader.
type tries struct {
	began time.Time
	until time.Time
	asked int // since the last pause
	hops  int // trailers followed since then
	told  bool
}

// again decides whether a call that did not reach the leader is made once more,
// and waits as long as it must.
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
		return false // it will be refused again
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
	// Where a scheduler never answered and its machine does not refuse either, the address
	// is wrong; one that refuses may be restarting.
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

// waits waits for as long as a scheduler said to one who asked too much, if there is time for that.
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

// noteAnswer notes that a scheduler is there, if that is who has answered: what is
// gone, or is none, has no outcome to tell.
func (c *Client) noteAnswer(err error) {
	if err == nil || len(status.Convert(err).Details()) > 0 {
		c.reached.Store(true)
	}
}

// endsSoon reports whether the caller has no time for another round: then it is told
// why there is no leader, and not that its time is over.
func endsSoon(ctx context.Context) bool {
	deadline, bounded := ctx.Deadline()
	return bounded && time.Until(deadline) < 2*roundPause
}

// answer is the interface of all replies that can refuse.
type answer interface{ GetOutcome() *messages.Outcome }

// Invoke makes a call of one answer.
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

// once asks one scheduler. Several must each answer soon.
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

// NewStream opens a stream at the scheduler to be asked now. That it is another
// one's to serve shows with the first answer, so who reads it opens it again.
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

// explained is a stream whose errors are ours. Its end stays io.EOF.
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

// moved reports whether a stream was refused by a scheduler that named another, which
// need not be waited for. In a row it counts for a few only, as a call's hops do.
func moved(err error, hops *int) bool {
	e, is := err.(*Error)
	if !is || !e.moved || *hops >= maxHops {
		*hops = 0
		return false
	}
	*hops++
	return true
}
