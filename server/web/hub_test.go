package web

import (
	"context"
	"fmt"
	"net"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests the stream of changes to pages.

func nodeEvent(seq uint64, id, text string) *messages.Event {
	return &messages.Event{Seq: seq, Text: text,
		Node: &messages.NodeStatus{Phase: messages.NodeUp, Record: &messages.NodeRecord{Id: id}}}
}

// TestStream checks that a page gets the complete state and then the changes in order. If the scheduler is
// unreachable, the page is told, and later gets the complete state again.
func TestStream(t *testing.T) {
	s := &scheduler{events: make(chan *messages.Event, 8)}
	d := serve(t, s).enter()
	s.events <- &messages.Event{Seq: 7, Job: confidential(), Text: "job j1 running"}
	s.events <- nodeEvent(8, "n1", "node n1 up")
	s.events <- &messages.Event{Synced: true}
	stream := d.open("/stream")
	fresh, all := false, ""
	for synced := false; !synced; {
		p := stream.piece()
		fresh, synced = fresh || p.Fresh, p.Synced
		for _, c := range p.Changes {
			all += string(c) + "\n"
		}
	}
	for _, want := range []string{`["job",{"id":"j1"`, `["box",{"id":"n1","state":"up"`, `"job j1 running"`, `"node n1 up"`} {
		if !strings.Contains(all, want) || !fresh {
			t.Errorf("it began, fresh %v, with %s", fresh, all)
		}
	}
	s.events <- &messages.Event{Seq: 9, Group: 4, Reason: "no room", GroupJobs: 2}
	s.events <- &messages.Event{Seq: 10, Hidden: true, Node: &messages.NodeStatus{Record: &messages.NodeRecord{Id: "n1"}}}
	if all := stream.until(`["gone","n1"]`); !strings.Contains(all, `["group",{"group":4,"why":"no room"}]`) {
		t.Errorf("then came %s", all)
	}
	close(s.events)
	for deadline := pace.Until(20 * time.Second); ; {
		if p := stream.piece(); p.Away != nil && *p.Away == "it is gone" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("nobody says that the scheduler is away")
		}
	}
}

// TestPagesShareOneWatch checks that all pages of a user share one watch, which ends after the last page.
func TestPagesShareOneWatch(t *testing.T) {
	s := &scheduler{events: make(chan *messages.Event, 8)}
	d := serve(t, s).enter()
	s.events <- nodeEvent(1, "n1", "")
	s.events <- &messages.Event{Synced: true}
	for range 3 {
		if all := d.open("/stream").until("n1"); strings.Count(all, `["box"`) != 1 {
			t.Errorf("a page is sent %s", all)
		}
	}
	d.page.mu.Lock()
	defer d.page.mu.Unlock()
	if h := d.page.hubs[""]; len(d.page.hubs) != 1 || h.readers != 3 || d.page.streams != 3 {
		t.Errorf("%d watches, of %d readers", len(d.page.hubs), h.readers)
	}
}

// TestNobodyLooks checks that the watch continues for a page that is reloaded, and ends after the last page. Then
// nothing is kept.
func TestNobodyLooks(t *testing.T) {
	s := &scheduler{events: make(chan *messages.Event, 8)}
	d := serve(t, s).enter()
	d.page.linger = 50 * time.Millisecond
	for range 2 {
		s.events <- nodeEvent(1, "n1", "")
		ctx, leave := context.WithCancel(t.Context())
		d.openFor(ctx, "/stream", "").until("n1")
		if n := s.watches.Load(); n != 1 {
			t.Errorf("%d watches are open", n)
		}
		leave()
		for deadline := pace.Until(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			d.page.mu.Lock()
			hubs, streams := len(d.page.hubs), d.page.streams
			d.page.mu.Unlock()
			if hubs+streams == 0 && s.watches.Load() == 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d watches and %d streams are open, of %d people", s.watches.Load(), streams, hubs)
			}
		}
	}
}

// read returns all pieces for a reader at a position, and its new position.
func (h *hub) read(since uint64) (all []string, fresh bool, at uint64) {
	for {
		p, next, _ := h.next(since, "", 0)
		fresh = fresh || p.Fresh
		for _, c := range p.Changes {
			all = append(all, string(c))
		}
		if since = next; len(p.Changes) < maxPiece {
			return all, fresh, since
		}
	}
}

// TestLastCounts checks that a slow reader gets each thing once, in its current state and in the order of the last
// changes, and that nothing is kept for it.
func TestLastCounts(t *testing.T) {
	h := newHub()
	_, _, since := h.read(0)
	for i := range 20 * maxPiece {
		h.change(func() { h.note(nodeEvent(uint64(i), fmt.Sprintf("n%d", i%3), "")) })
	}
	if len(h.order) > 2*3+maxPiece {
		t.Errorf("%d places are kept for 3 machines", len(h.order))
	}
	all, fresh, at := h.read(since)
	if len(all) != 3 || fresh || !strings.Contains(all[2], `"n1"`) || !strings.Contains(all[0], `"n2"`) {
		t.Errorf("it is sent %q, fresh %v", all, fresh)
	}
	if all, _, _ := h.read(at); len(all) != 0 {
		t.Errorf("and again %q", all)
	}
	h.change(h.forget)
	h.change(func() { h.note(nodeEvent(1, "n9", "")) })
	if all, fresh, _ := h.read(at); !fresh || len(all) != 1 {
		t.Errorf("after all was forgotten: %q, fresh %v", all, fresh)
	}
}

// TestHubIsBounded checks the limits for finished jobs, texts and reasons, and that a new reader gets a large state
// in pieces.
func TestHubIsBounded(t *testing.T) {
	h := newHub()
	for i := range 3 * maxOver {
		h.change(func() {
			h.note(&messages.Event{Seq: uint64(i), Text: "over", Job: &messages.JobStatus{Record: &messages.JobRecord{
				Id: fmt.Sprintf("j%d", i), State: messages.JobState_JOB_STATE_SUCCEEDED}}})
			h.note(&messages.Event{Seq: uint64(i), Group: uint64(i) + 1, Reason: "x"})
		})
	}
	if n := len(h.things); n != maxOver+maxTold+maxGroups {
		t.Errorf("%d things are kept", n)
	}
	p, _, wake := h.next(0, "", 0)
	if len(p.Changes) != maxPiece || p.Synced {
		t.Errorf("the first piece has %d changes", len(p.Changes))
	}
	select {
	case <-wake:
	default:
		t.Error("the next piece has to wait")
	}
	if all, _, _ := h.read(0); len(all) != maxOver+maxTold+maxGroups {
		t.Errorf("all are %d", len(all))
	}
}

// TestManyWhoReadNothing checks that a thousand pages that do not read use little memory. Other pages get all
// changes meanwhile, and the first are disconnected after a while.
func TestManyWhoReadNothing(t *testing.T) {
	many, most := 1_000, uint64(50<<20)
	s := &scheduler{events: make(chan *messages.Event)}
	d := serve(t, s).enter()
	d.page.patience = 8 * time.Second // long enough for all to connect first on a busy host
	go func() {
		for i := 0; t.Context().Err() == nil; i++ {
			if i > 10_000 {
				time.Sleep(10 * time.Millisecond)
			}
			select {
			case s.events <- nodeEvent(uint64(i), fmt.Sprintf("machine-%d", i%10_000), ""):
			case <-t.Context().Done():
			}
		}
	}()
	d.open("/stream").until("machine-9999") // the hub has all nodes
	before := held()
	for range many {
		d.knocks(t)
	}
	for deadline := pace.Until(60 * time.Second); d.page.readers() < many; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d streams are open", d.page.readers())
		}
	}
	time.Sleep(time.Second) // the socket buffers are full now
	after := held()
	d.open("/stream").until("machine-9999") // the page of another user
	if more := after - min(before, after); more > most {
		t.Errorf("%d pages that read nothing hold %d MB", many, more>>20)
	} else {
		t.Logf("%d pages that read nothing hold %d MB", many, more>>20)
	}
	for deadline := pace.Until(90 * time.Second); d.page.readers() > 10; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d streams are open still", d.page.readers())
		}
	}
}

func (p *Page) readers() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.streams
}

// held returns the memory in use, including stacks.
func held() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// knocks requests the stream, and never reads from it.
func (d *visitor) knocks(t *testing.T) {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(d.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.(*net.TCPConn).SetReadBuffer(4096)
	fmt.Fprintf(c, "GET /stream HTTP/1.1\r\nHost: %s\r\nCookie: %s=%s\r\n\r\n", strings.TrimPrefix(d.url, "http://"),
		d.cookies[0].Name, d.cookies[0].Value)
}

// TestNodesComeFirst checks that a new page gets the nodes before thousands of jobs, each node once unless it changes
// meanwhile, and the same state as before in the end.
func TestNodesComeFirst(t *testing.T) {
	h := newHub()
	h.change(h.forget)
	for i := range 3 * maxPiece {
		h.change(func() {
			h.note(&messages.Event{Job: &messages.JobStatus{Record: &messages.JobRecord{Id: fmt.Sprint("j", i)}}})
		})
	}
	for i := range maxPiece + 5 {
		h.change(func() { h.note(nodeEvent(uint64(i), fmt.Sprint("n", i), "")) })
	}
	out := httptest.NewRecorder()
	since, known, ok := (&Page{patience: time.Minute}).sendBoxes(out, h)
	if text := out.Body.String(); !ok || strings.Count(text, `["box"`) != maxPiece+5 || strings.Contains(text, `["job"`) ||
		strings.Count(text, `"fresh":true`) != 1 {
		t.Fatalf("ok %v, and sent:\n%s", ok, text)
	}
	h.change(func() { h.note(nodeEvent(999, "n3", "")) })
	jobs, boxes := 0, 0
	for done := false; !done; {
		p, at, _ := h.next(since, "", known)
		if p.Fresh {
			t.Fatal("the page must forget the nodes")
		}
		for _, c := range p.Changes {
			jobs, boxes = jobs+strings.Count(string(c), `["job"`), boxes+strings.Count(string(c), `["box"`)
		}
		since, done = at, len(p.Changes) < maxPiece
	}
	if jobs != 3*maxPiece || boxes != 1 {
		t.Errorf("then %d jobs and %d nodes follow", jobs, boxes)
	}
}

// TestNoNodesFirst checks that a page of a hub without nodes begins as usual.
func TestNoNodesFirst(t *testing.T) {
	h := newHub()
	h.change(func() {
		h.note(&messages.Event{Job: &messages.JobStatus{Record: &messages.JobRecord{Id: "j"}}})
	})
	out := httptest.NewRecorder()
	since, known, ok := (&Page{patience: time.Minute}).sendBoxes(out, h)
	if since != 0 || known != 0 || !ok || out.Body.Len() != 0 {
		t.Errorf("position %d, %d, ok %v, sent %q", since, known, ok, out.Body.String())
	}
}
