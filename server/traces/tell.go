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

// This file exports spans from the leader's own watch and its attempts to the collector.

const (
	maxHeard   = 4096 // waiting phases and spans; more are dropped, which is logged
	maxBatch   = 512  // spans per request
	batchEvery = time.Second
	postWithin = 10 * time.Second
	tries      = 5
	firstPause = time.Second
	mostPause  = 30 * time.Second
	firstAgain = 50 * time.Millisecond
	mostAgain  = 2 * time.Second
)

// Options holds the settings of a Teller.
type Options struct {
	URL     string // of the collector; /v1/traces is appended
	Cluster string
	Version string
	API     api.SynapseClient
	WallMs  func() int64
	Log     func(format string, args ...any)
}

// passage is an actors.Passage with its end time in ms.
type passage struct {
	actors.Passage
	at int64
}

// Teller exports traces to a collector.
type Teller struct {
	o     Options
	w     *weaver
	heard chan passage
	spans chan *span
	lost  atomic.Int64 // since the last log line about it
}

// New creates a Teller for the time in which this process leads.
func New(o Options) *Teller {
	return &Teller{
		o: o, w: newWeaver(o.Cluster), heard: make(chan passage, maxHeard), spans: make(chan *span, maxHeard),
	}
}

// Passed records that an attempt has passed a phase. Actors call it, and it never waits.
func (t *Teller) Passed(p actors.Passage) {
	select {
	case t.heard <- passage{p, t.o.WallMs()}:
	default:
		t.lost.Add(1)
	}
}

// Run exports spans until the context ends.
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
			for more := true; more; { // the phases of an attempt must be processed before its end
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

// keep queues spans for sending.
func (t *Teller) keep(all []*span) {
	for _, s := range all {
		select {
		case t.spans <- s:
		default:
			t.lost.Add(1)
		}
	}
}

// watch passes on the events of watches, and restarts a failed watch.
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

// send sends spans in batches. If the collector is unreachable, spans are dropped and a line is logged.
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

// batch waits for a span, and then a moment for more.
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

// try sends one request, with retries.
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
