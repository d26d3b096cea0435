package gateway

import (
	"slices"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file implements a watch. It buffers the events that the Mirror has sent and the client has not read. The
// Mirror never waits, so the watch of a slow client ends, with a hint about how to continue.

// maxBehind limits the number of changes that a client may be behind. The initial state does not count, because the
// size of the Mirror limits it.
const maxBehind = 1_024

// Watch sends every change to a client until the client disconnects.
func (g *Gateway) Watch(q *messages.Watch, stream grpc.ServerStreamingServer[messages.Event]) error {
	ctx := stream.Context()
	q.Principal = g.o.Principal(ctx)
	if err := g.admit(ctx, q); err != nil {
		return err
	}
	if err := g.awaitLoaded(ctx); err != nil {
		return err
	}
	if err := g.enter(); err != nil {
		return err
	}
	defer g.leave()
	b := &backlog{wake: make(chan struct{}, 1), settled: !q.Present && q.After == 0, latest: map[string]*messages.Event{}}
	pid, done := g.open(b)
	unwatch := func() { g.system.Root.RequestWithCustomSender(g.mirror, &messages.Unwatch{}, pid) }
	b.overflowed = unwatch
	defer done()
	defer unwatch()
	g.system.Root.RequestWithCustomSender(g.mirror, q, pid)
	// The Mirror receives the watch before any later request of this client.
	if err := stream.SendHeader(metadata.MD{}); err != nil {
		return err
	}
	for {
		for e := b.next(); e != nil; e = b.next() {
			if err := stream.Send(e); err != nil {
				return err
			}
		}
		if err := b.ended(); err != nil {
			return err
		}
		select {
		case <-b.wake:
		case <-ctx.Done():
			return lapsed(ctx.Err())
		case <-g.closed:
			return api.StatusOf(closing())
		}
	}
}

// backlog holds the events that a watcher was sent and has not read.
type backlog struct {
	wake       chan struct{}
	overflowed func() // tells the Mirror at once, because the client may not read for long

	mu      sync.Mutex
	first   []*messages.Event // initial state, up to the event that marks its end
	changes []*messages.Event
	books   []string                   // nodes and jobs with changed values, in the order of the first change
	latest  map[string]*messages.Event // last values of each; older unread ones are dropped
	settled bool                       // the initial state is complete
	behind  bool
	nobody  bool
}

// take runs on the Mirror's goroutine and never waits.
func (b *backlog) take(message any) {
	over := b.put(message)
	select {
	case b.wake <- struct{}{}:
	default:
	}
	if over {
		b.overflowed()
	}
}

// put stores an event, and reports whether the backlog has overflowed.
func (b *backlog) put(message any) (over bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch m := message.(type) {
	case *actor.DeadLetterResponse:
		b.nobody = true
	case *messages.Event:
		id := subjectOf(m)
		switch {
		case b.behind:
		case b.settled && id != "" && m.Text == "":
			if b.latest[id] == nil {
				b.books = append(b.books, id)
			}
			b.latest[id] = m
		case !b.settled:
			b.first = append(b.first, m)
			b.settled = m.Synced
		case len(b.changes) >= maxBehind:
			b.behind, b.first, b.changes, b.books, b.latest = true, nil, nil, nil, nil
			return true
		default:
			b.changes = append(b.changes, m)
			if b.latest[id] != nil { // the change contains the resources too
				delete(b.latest, id)
				b.books = slices.DeleteFunc(b.books, func(other string) bool { return other == id })
			}
		}
	}
	return false
}

// subjectOf returns the ID of the node or job of an event, or "" if the event has neither.
func subjectOf(e *messages.Event) string {
	switch {
	case e.Node != nil:
		return "node " + e.Node.GetRecord().GetId()
	case e.Job != nil:
		return "job " + e.Job.GetRecord().GetId()
	}
	return ""
}

// next removes and returns the oldest event, or nil if there is none.
func (b *backlog) next() *messages.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	queue := &b.first
	if len(*queue) == 0 {
		queue = &b.changes
	}
	if len(*queue) == 0 {
		return b.nextBooks()
	}
	e := (*queue)[0]
	(*queue)[0] = nil
	*queue = (*queue)[1:]
	return e
}

// nextBooks removes and returns the resources of the node that changed first.
func (b *backlog) nextBooks() *messages.Event {
	if len(b.books) == 0 {
		return nil
	}
	e := b.latest[b.books[0]]
	delete(b.latest, b.books[0])
	b.books = b.books[1:]
	return e
}

// ended returns why no more events will arrive, or nil if more may arrive.
func (b *backlog) ended() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.nobody:
		return api.StatusOf(notReady())
	case b.behind:
		return api.StatusOf(&messages.Outcome{
			Code: messages.Code_CODE_EXHAUSTED, Text: "client read the watch too slowly",
			Hint: "watch again from the last event, or watch less",
		})
	}
	return nil
}
