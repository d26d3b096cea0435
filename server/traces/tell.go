package traces

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/clock/backoff"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file owns how spans get from the leader's own watch, and from its attempts, to the collector.

const (
	maxHeard   = 4096 // phases, and spans, that wait; what comes beyond is lost, and said to be
	maxBatch   = 512  // spans of one request
	batchEvery = time.Second
	postWithin = 10 * time.Second
	tries      = 5
	firstPause = time.Second
	mostPause  = 30 * time.Second
	firstAgain = 50 * time.Millisecond
	mostAgain  = 2 * time.Second
)

// Options configure a teller.
type Options struct {
	URL     string // of the collector, to which /v1/traces is added
	Cluster string
	Version string
	API     api.SynapseClient
	WallMs  func() int64
	Log     func(format string, args ...any)
}

// passage is one with the time at which it was over (ms).
type passage struct {
	actors.Passage
	at int64
}

// Teller tells a collector.
type Teller struct {
	o     Options
	w     *weaver
	heard chan passage
	spans chan *span
	lost  atomic.Int64 // since it was last said
}

// New makes one, for as long as this process leads.
func New(o Options) *Teller {
	return &Teller{
		o: o, w: newWeaver(o.Cluster), heard: make(chan passage, maxHeard), spans: make(chan *span, maxHeard),
	}
}

// Passed is told of a phase of an attempt by an actor, and waits for nothing.
func (t *Teller) Passed(p actors.Passage) {
	select {
	case t.heard <- passage{p, t.o.WallMs()}:
	default:
		t.lost.Add(1)
	}
}

// Run tells until the context ends.
func (t *Teller) Run(ctx context.Context) {
	go t.send(ctx)
	events := make(chan *messages.Event)
	go t.watch(ctx, events)
	for {
		select {
		case <-ctx.Done():
			return
		case p := <-t.heard:
			t.keep(t.w.passed(p.Passage, p.at))
		case e := <-events:
			for more := true; more; { // what an attempt got through was heard before its end is
				select {
				case p := <-t.heard:
					t.keep(t.w.passed(p.Passage, p.at))
				default:
					more = false
				}
			}
			t.keep(t.w.take(e))
		}
	}
}

// keep has spans sent.
func (t *Teller) keep(all []*span) {
	for _, s := range all {
		select {
		case t.spans <- s:
		default:
			t.lost.Add(1)
		}
	}
}

// watch hands on what changes, again and again.
func (t *Teller) watch(ctx context.Context, to chan<- *messages.Event) {
	for again := time.Duration(0); ctx.Err() == nil; {
		if api.Follow(ctx, t.o.API, &messages.Watch{Jobs: true, Present: true}, func(e *messages.Event) {
			select {
			case to <- e:
			case <-ctx.Done():
			}
		}) {
			again = 0
		}
		again = backoff.Next(again, firstAgain, mostAgain)
		pause(ctx, again)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// send sends spans in batches. A collector that is away costs spans, and a line in the log.
func (t *Teller) send(ctx context.Context) {
	for ctx.Err() == nil {
		batch := t.batch(ctx)
		if len(batch) == 0 {
			continue
		}
		if err := t.try(ctx, asked(t.o.Cluster, t.o.Version, batch)); err != nil && ctx.Err() == nil {
			t.o.Log("--otlp: %d spans are lost: %v", int64(len(batch))+t.lost.Swap(0), err)
		}
		if n := t.lost.Swap(0); n > 0 {
			t.o.Log("--otlp: the collector is too slow: %d spans are lost", n)
		}
	}
}

// batch waits for spans, and a moment for more.
func (t *Teller) batch(ctx context.Context) (all []*span) {
	var over <-chan time.Time
	for len(all) < maxBatch {
		select {
		case <-ctx.Done():
			return nil
		case <-over:
			return all
		case s := <-t.spans:
			all = append(all, s)
			if over == nil {
				over = time.After(batchEvery)
			}
		}
	}
	return all
}

// try sends one request, several times if need be.
func (t *Teller) try(ctx context.Context, r *request) (err error) {
	for k := range tries {
		if k > 0 {
			pause(ctx, backoff.After(k, firstPause, mostPause))
		}
		if err = post(ctx, t.o.URL, r, postWithin); err == nil || errors.As(err, new(refused)) {
			return err
		}
	}
	return err
}
