package gateway

// This file owns the tests of many watches beside each other.

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
)

// TestWatchesRest: a watch of everything rests where there is a crowd of them, and nowhere else; whoever goes, or a
// gateway that is closed, is not waited for.
func TestWatchesRest(t *testing.T) {
	for name, of := range map[string]struct {
		open         int64
		gone, closed bool
		call         time.Duration // for how long one is served
		want         time.Duration
	}{
		"few":              {wideAtOnce, false, false, 2 * wideRest, 0},
		"a crowd":          {wideAtOnce + 1, false, false, 0, wideRest},
		"and a call":       {wideAtOnce + 1, false, false, 3 * wideRest / 2, 3 * wideRest / 2},
		"one that is long": {wideAtOnce + 1, false, false, 3 * wideRest, 2 * wideRest},
		"who is gone":      {wideAtOnce + 1, true, false, 0, 0},
		"closed":           {wideAtOnce + 1, false, true, 0, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := &Gateway{closed: make(chan struct{})}
			ctx, leave := context.WithCancel(context.Background())
			defer leave()
			if of.gone {
				leave()
			}
			if of.closed {
				close(g.closed)
			}
			g.wide.Store(of.open)
			if of.call > 0 {
				g.calls.begin()
				time.AfterFunc(of.call, g.calls.end)
			}
			began := time.Now()
			if g.rest(ctx); time.Since(began) != of.want {
				t.Errorf("%s: it rests for %s, want %s", name, time.Since(began), of.want)
			}
			time.Sleep(of.call)
		})
	}
}

// TestQuiet: a moment is quiet once the last call is over, and each that waits is told.
func TestQuiet(t *testing.T) {
	g := &Gateway{o: Options{Count: func(string, int64) {}, Log: actors.NoLog{}}}
	if g.Quiet() != nil {
		t.Fatal("a call is served, and there is none")
	}
	call := func(until chan struct{}) {
		_, _ = g.GuardCall(t.Context(), nil, &grpc.UnaryServerInfo{}, func(context.Context, any) (any, error) {
			<-until
			panic("such a one is over too")
		})
	}
	first, second := make(chan struct{}), make(chan struct{})
	go call(first)
	go call(second)
	served := func(want int) func() bool {
		return func() bool {
			g.calls.mu.Lock()
			defer g.calls.mu.Unlock()
			return g.calls.many == want
		}
	}
	eventually(t, "both are served", served(2))
	one, two := g.Quiet(), g.Quiet()
	close(first)
	eventually(t, "one is over", served(1))
	select {
	case <-one:
		t.Fatal("it is quiet while a call is served")
	default:
	}
	close(second)
	<-one
	<-two
	if g.Quiet() != nil {
		t.Error("it is not quiet again")
	}
}

// TestCrowdedWatchesMissNothing: each of a crowd of watches is sent every change, in order, and leaves no place behind.
func TestCrowdedWatchesMissNothing(t *testing.T) {
	r := newRoom(t)
	s, _ := r.lead()
	d := r.door(s, Options{})
	ctx, cancel := context.WithCancel(timely(t))
	var all []grpc.ServerStreamingClient[messages.Event]
	for range wideAtOnce + 4 {
		all = append(all, d.watches(ctx, &messages.Watch{Jobs: true, Nodes: true}))
	}
	r.join("n1", s)
	for d.event(all[0]).Text != "machine n1 up, with 64 CPUs and 8 GPUs" {
	}
	last := ""
	for i := range 8 {
		last = d.submit(gpuJob(fmt.Sprint("j", i), 1, 8))
	}
	for i, w := range all {
		seq := uint64(0)
		for e := d.event(w); ; e = d.event(w) {
			if seq != 0 && e.Seq != seq+1 {
				t.Fatalf("watch %d: event %d came after %d", i, e.Seq, seq)
			}
			if seq = e.Seq; e.GetJob().GetRecord().GetId() == last {
				break
			}
		}
	}
	if n := d.wide.Load(); n != int64(len(all)) {
		t.Errorf("%d watches of everything are counted, want %d", n, len(all))
	}
	cancel()
	eventually(t, "no watch is counted as open", func() bool { return d.wide.Load() == 0 })
}
