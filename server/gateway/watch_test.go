package gateway

// This file tests watches through the gateway.

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/yi-json/synapse/messages"
)

// watches starts a watch and returns after the Mirror knows it.
func (d *servedGateway) watches(ctx context.Context, q *messages.Watch) grpc.ServerStreamingClient[messages.Event] {
	d.tb.Helper()
	w, err := d.SynapseClient.Watch(ctx, q)
	if err != nil {
		d.tb.Fatal(err)
	}
	if _, err := w.Header(); err != nil {
		d.tb.Fatal(err)
	}
	return w
}

func (d *servedGateway) event(w grpc.ServerStreamingClient[messages.Event]) *messages.Event {
	d.tb.Helper()
	e, err := w.Recv()
	if err != nil {
		d.tb.Fatal(err)
	}
	return e
}

func TestWatch(t *testing.T) {
	r := newRoom(t)
	s, _ := r.lead()
	d := r.door(s, Options{})
	ctx, cancel := context.WithCancel(timely(t))
	w := d.watches(ctx, &messages.Watch{Jobs: true, Nodes: true})
	l := r.join("n1", s)
	for e := d.event(w); e.Text != "node n1 up, with 64 CPUs and 8 GPUs"; e = d.event(w) {
		if e.Node.GetRecord().GetId() != "n1" {
			t.Fatalf("told %v", e)
		}
	}
	one := d.submit(gpuJob("one", 1, 8))
	last := uint64(0)
	for e := d.event(w); e.Text != "job "+one+" running on n1"; e = d.event(w) {
		if last != 0 && e.Seq != last+1 {
			t.Errorf("event %d came after %d", e.Seq, last)
		}
		last = e.Seq
	}
	if p := d.phase(one); p != "running" {
		t.Errorf("told that it runs, and it is %q", p)
	}
	again := d.watches(ctx, &messages.Watch{Jobs: true, Nodes: true, Present: true})
	for i, want := range []string{"node n1 up, with 64 CPUs and 8 GPUs", "job " + one + " running on n1",
		"all that there was has been told"} {
		if e := d.event(again); e.Text != want || e.Synced != (i == 2) {
			t.Errorf("present: %v, and not %q", e, want)
		}
	}
	after := d.watches(ctx, &messages.Watch{Jobs: true, After: last, Ids: []string{one}})
	if e := d.event(after); e.Text != "job "+one+" running on n1" || e.Seq != last+1 {
		t.Errorf("after %d: %v", last, e)
	}
	if e := d.event(after); !e.Synced {
		t.Errorf("after that: %v", e)
	}
	l.exits(3, false)
	for e := d.event(after); e.Text != "job "+one+" failed: rank 0 on n1 exited with code 3"; e = d.event(after) {
	}
	cancel()
	for _, w := range []grpc.ServerStreamingClient[messages.Event]{w, again, after} {
		for err := error(nil); err != io.EOF && status.Code(err) != codes.Canceled; _, err = w.Recv() {
		}
	}
	eventually(t, "no stream is counted as open", func() bool { return d.streams.Load() == 0 })
	_, err := d.SynapseClient.Watch(timely(t), &messages.Watch{})
	if err == nil {
		w, _ := d.SynapseClient.Watch(timely(t), &messages.Watch{})
		_, err = w.Recv()
	}
	refused(t, err, messages.Code_CODE_INVALID, codes.InvalidArgument, "must be set, since nodes is not set")
}

// told is a fake Mirror whose events the test sends.
type told struct {
	mu      sync.Mutex
	watcher *actor.PID
	ended   int
	begin   func(ctx actor.Context) // called when a watch starts
}

func (m *told) receive(ctx actor.Context) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch ctx.Message().(type) {
	case *messages.Watch:
		m.watcher = ctx.Sender()
		if m.begin != nil {
			m.begin(ctx)
		}
	case *messages.Unwatch:
		m.ended++
	}
}

func (m *told) unwatched() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ended
}

// anyScheduler answers the gateway's check whether the store was read.
func anyScheduler(ctx actor.Context) {
	if _, is := ctx.Message().(*messages.Hold); is {
		ctx.Respond(&messages.HoldReply{Outcome: &messages.Outcome{Code: messages.Code_CODE_NOT_FOUND, Text: "no"}})
	}
}

func eventOf(seq uint64) *messages.Event {
	return &messages.Event{Seq: seq, Text: fmt.Sprint("event ", seq), Job: &messages.JobStatus{
		Phase: "queued", Record: &messages.JobRecord{Id: "j", Spec: &messages.JobSpec{Image: string(make([]byte, 1024))}},
	}}
}

// TestWatcherThatFallsBehind checks that the Mirror drops a client that does not read, at once, and that the client
// gets the reason when it reads on. The initial state does not count.
func TestWatcherThatFallsBehind(t *testing.T) {
	m := &told{}
	m.begin = func(ctx actor.Context) {
		for i := range uint64(3 * maxBehind) {
			ctx.Send(m.watcher, eventOf(i+1))
		}
		ctx.Send(m.watcher, &messages.Event{Seq: 3 * maxBehind, Synced: true})
	}
	r := newRoom(t)
	s := r.script(anyScheduler, m.receive)
	d := r.door(s, Options{})
	w := d.watches(timely(t), &messages.Watch{Jobs: true, Present: true})
	for i := range uint64(3 * maxBehind) {
		if e := d.event(w); e.Seq != i+1 {
			t.Fatalf("event %d, not %d", e.Seq, i+1)
		}
	}
	if e := d.event(w); !e.Synced {
		t.Fatalf("%v is not the end of what there was", e)
	}
	sent := uint64(3 * maxBehind)
	for m.unwatched() == 0 { // the client reads nothing: first the connection's window fills, then the backlog
		sent++
		s.Root.Send(m.watcher, eventOf(sent))
		if sent > 1_000_000 {
			t.Fatal("a client that reads nothing is never let go")
		}
	}
	next := uint64(3*maxBehind) + 1
	for {
		e, err := w.Recv()
		if err != nil {
			refused(t, err, messages.Code_CODE_EXHAUSTED, codes.ResourceExhausted,
				"watch again from the last event")
			break
		}
		if e.Seq != next {
			t.Fatalf("event %d, not %d: a gap that nobody told of", e.Seq, next)
		}
		next++
	}
	if next > sent {
		t.Error("nothing was let go")
	}
	eventually(t, "the gateway has forgotten the watch", func() bool {
		return d.streams.Load() == 0 && m.unwatched() == 2
	})
}

func TestWatchesAreBounded(t *testing.T) {
	m := &told{}
	r := newRoom(t)
	d := r.door(r.script(anyScheduler, m.receive), Options{})
	d.streams.Store(maxStreams)
	w, err := d.SynapseClient.Watch(timely(t), &messages.Watch{Jobs: true})
	if err == nil {
		_, err = w.Recv()
	}
	refused(t, err, messages.Code_CODE_EXHAUSTED, codes.ResourceExhausted, "too many watches")
	d.streams.Store(0)
	w = d.watches(timely(t), &messages.Watch{Jobs: true})
	d.Close() // the process ends
	_, err = w.Recv()
	refused(t, err, messages.Code_CODE_UNAVAILABLE, codes.Unavailable, "shutting down")
	if n := m.unwatched(); n != 1 {
		eventually(t, "the watch was taken back", func() bool { return m.unwatched() == 1 })
	}
}

// TestBacklogKeepsTheLastBooks checks that of a node's unread resource changes only the last is kept. A change of
// the node contains them too. No number of resource changes ends a watch.
func TestBacklogKeepsTheLastBooks(t *testing.T) {
	b := &backlog{settled: true, latest: map[string]*messages.Event{}}
	books := func(id string, version uint64, text string) *messages.Event {
		return &messages.Event{Text: text, Node: &messages.NodeStatus{Record: &messages.NodeRecord{Id: id},
			Ledger: &messages.LedgerReport{Version: version}}}
	}
	for version := range uint64(2 * maxBehind) {
		if b.put(books("n1", version, "")) || b.put(books("n2", version, "")) {
			t.Fatal("the watch has fallen behind")
		}
	}
	b.put(books("n2", 5, "node n2 dead"))
	var got []string
	for e := b.next(); e != nil; e = b.next() {
		got = append(got, fmt.Sprint(e.Node.Record.Id, " ", e.Node.Ledger.Version))
	}
	if want := []string{"n2 5", fmt.Sprint("n1 ", 2*maxBehind-1)}; !slices.Equal(got, want) {
		t.Errorf("it was sent %q, not %q", got, want)
	}
}
