package web

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file tests the remembered texts of a page, and a user without the right to watch.

// TestToldByTime checks that the latest texts are kept, also if the state at the beginning of a watch is in another
// order, and that a text has the name of its job.
func TestToldByTime(t *testing.T) {
	h := newHub()
	job := confidential()
	for i := range maxTold + 10 {
		at := int64(1_000 + i*7919%(maxTold+10)) // each once, in another order
		h.note(&messages.Event{Job: job, AtUnixMs: at, Text: "job j1 running"})
	}
	if len(h.told) != maxTold || h.told[0].at != 1_010 || h.told[maxTold-1].at != 1_000+maxTold+9 {
		t.Errorf("%d texts from %d to %d", len(h.told), h.told[0].at, h.told[len(h.told)-1].at)
	}
	n := 0
	for key, one := range h.things { //order: only counted
		if strings.HasPrefix(key, kindTold+"/") {
			if n++; one.value.(said).Name != "Train" {
				t.Fatalf("%+v", one.value)
			}
		}
	}
	if n != maxTold {
		t.Errorf("%d texts are kept", n)
	}
}

// barred refuses every watch after the first.
type barred struct {
	*scheduler
	refuses chan struct{}
}

func (b *barred) Watch(ctx context.Context, q *messages.Watch, opts ...grpc.CallOption) (
	grpc.ServerStreamingClient[messages.Event], error) {
	select {
	case <-b.refuses:
		return nil, api.StatusOf(&messages.Outcome{Code: messages.Code_CODE_NOT_ALLOWED, Text: "ann may not read jobs"})
	default:
		return b.scheduler.Watch(ctx, q, opts...)
	}
}

// TestBarred checks that a page forgets the state when the user loses the right to watch, and says so once.
func TestBarred(t *testing.T) {
	b := &barred{&scheduler{events: make(chan *messages.Event, 4)}, make(chan struct{})}
	d := serve(t, b.scheduler).enter()
	d.page.door.guest.API = b
	b.events <- &messages.Event{Job: confidential(), Text: "job j1 running"}
	b.events <- &messages.Event{Synced: true}
	stream := d.open("/stream")
	stream.until("j1")
	close(b.refuses)
	close(b.events)
	for {
		p := stream.piece()
		if p.Away == nil || !p.Barred {
			continue // the stream has ended, but the next watch is not refused yet
		}
		if *p.Away != "ann may not read jobs" || !p.Fresh || len(p.Changes) > 0 {
			t.Errorf("%+v %s", p, *p.Away)
		}
		return
	}
}
