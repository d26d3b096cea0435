package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests how calls and streams find the leading scheduler.

// peer is a fake scheduler, one of several.
type peer struct {
	api.UnimplementedSynapseServer
	address string
	server  *grpc.Server

	mu       sync.Mutex
	leads    bool
	names    string // the leader that it names
	frozen   chan struct{}
	asked    int
	submits  []string // request IDs
	breakOff int      // submits that it records but does not answer
	events   [][]*messages.Event
	watched  []*messages.Watch
	parts    [][]*api.LogPart
	read     []*api.ReadLogs
}

func newPeer(t *testing.T) *peer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, listener, false)
}

func serve(t *testing.T, listener net.Listener, leads bool) *peer {
	s := &peer{address: listener.Addr().String(), server: grpc.NewServer(), leads: leads}
	api.RegisterSynapseServer(s.server, s)
	go func() { _ = s.server.Serve(listener) }()
	t.Cleanup(s.server.Stop)
	return s
}

// nobody returns a peer at an address without a listener. The loopback address is unique, so no other test
// can get its port meanwhile.
func nobody(t *testing.T) *peer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.83.11.7:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	return &peer{address: listener.Addr().String()}
}

// set makes the peer the leader, or a standby that names the leader.
func (s *peer) set(leads bool, names string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leads, s.names = leads, names
}

func (s *peer) admit(ctx context.Context) error {
	s.mu.Lock()
	frozen := s.frozen
	s.asked++
	s.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leads {
		return nil
	}
	if s.names != "" {
		_ = grpc.SetTrailer(ctx, metadata.Pairs(api.LeaderTrailer, s.names))
	}
	return away()
}

func away() error {
	return api.StatusOf(&messages.Outcome{Code: messages.Code_CODE_UNAVAILABLE, Text: "this scheduler is not the leader"})
}

func (s *peer) Submit(ctx context.Context, q *messages.Submit) (*messages.SubmitReply, error) {
	if err := s.admit(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.submits = append(s.submits, q.GetRequestId())
	if s.breakOff > 0 {
		s.breakOff--
		s.leads = false
		return nil, away()
	}
	return &messages.SubmitReply{Outcome: &messages.Outcome{Code: messages.Code_CODE_OK}, Job: "j-" + q.GetRequestId()},
		nil
}

func (s *peer) Watch(q *messages.Watch, out grpc.ServerStreamingServer[messages.Event]) error {
	if err := s.admit(out.Context()); err != nil {
		return err
	}
	s.mu.Lock()
	s.watched = append(s.watched, q)
	var told []*messages.Event
	if len(s.events) > 0 {
		told, s.events = s.events[0], s.events[1:]
	}
	s.mu.Unlock()
	for _, e := range told {
		if err := out.Send(e); err != nil {
			return err
		}
	}
	return away()
}

func (s *peer) ReadLogs(q *api.ReadLogs, out grpc.ServerStreamingServer[api.LogPart]) error {
	if err := s.admit(out.Context()); err != nil {
		return err
	}
	s.mu.Lock()
	s.read = append(s.read, q)
	var told []*api.LogPart
	last := len(s.parts) <= 1
	if len(s.parts) > 0 {
		told, s.parts = s.parts[0], s.parts[1:]
	}
	s.mu.Unlock()
	for _, p := range told {
		if err := out.Send(p); err != nil {
			return err
		}
	}
	if last {
		return nil
	}
	return away()
}

// dialed returns a client with these peers, in this order.
func dialed(t *testing.T, retry time.Duration, peers ...*peer) *Client {
	t.Helper()
	var all []string
	for _, s := range peers {
		all = append(all, s.address)
	}
	c, err := Dial(Config{Server: strings.Join(all, ", "), Retry: retry})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func submit(c *Client, id string) error {
	reply, err := c.Submit(context.Background(), &messages.Submit{RequestId: id})
	if err == nil && reply.GetJob() != "j-"+id {
		return fmt.Errorf("the answer is of %s", reply.GetJob())
	}
	return err
}

// TestStandbyIsFollowed checks that a client follows a standby to the leader, even if the leader is not in
// the list. The next call goes to this leader directly.
func TestStandbyIsFollowed(t *testing.T) {
	standby, other, leader := newPeer(t), newPeer(t), newPeer(t)
	leader.set(true, "")
	standby.set(false, leader.address)
	c := dialed(t, 0, standby, other)
	for _, id := range []string{"a", "b"} {
		if err := submit(c, id); err != nil {
			t.Fatal(err)
		}
	}
	if standby.asked != 1 || other.asked != 0 || leader.asked != 2 || c.Server() != leader.address {
		t.Errorf("asked %d, %d and %d times", standby.asked, other.asked, leader.asked)
	}
}

// TestCallsOutliveALeader checks that a client skips an unreachable scheduler, repeats a request with the
// same request ID, and retries until a scheduler leads.
func TestCallsOutliveALeader(t *testing.T) {
	first, second := newPeer(t), newPeer(t)
	first.set(true, "")
	first.breakOff = 1
	c := dialed(t, 20*time.Second, first, second)
	waited := make(chan error, 1)
	c.config.Waiting = func(err error) { waited <- err }
	done := make(chan error, 1)
	go func() { done <- submit(c, "a") }()
	if err := <-waited; err.Error() != "this scheduler is not the leader" {
		t.Errorf("waited because of %v", err)
	}
	second.set(true, "")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if len(first.submits) != 1 || !slices.Equal(second.submits, []string{"a"}) {
		t.Errorf("submitted %v and %v", first.submits, second.submits)
	}
	second.server.Stop()
	first.set(true, "")
	if err := submit(c, "b"); err != nil || first.submits[len(first.submits)-1] != "b" {
		t.Errorf("%v; submitted %v", err, first.submits)
	}
}

// TestAFrozenSchedulerIsPassedOver checks that a client asks another scheduler if one keeps its connection
// but does not answer.
func TestAFrozenSchedulerIsPassedOver(t *testing.T) {
	frozen, leader := newPeer(t), newPeer(t)
	frozen.frozen = make(chan struct{})
	defer close(frozen.frozen)
	leader.set(true, "")
	c := dialed(t, 0, frozen, leader)
	began := time.Now()
	if err := submit(c, "a"); err != nil || time.Since(began) > 2*tryTimeout {
		t.Errorf("%v after %s", err, time.Since(began))
	}
}

// TestNobodyLeads checks that a client does not loop between two schedulers that name each other. A call that
// finds no leader returns the last error.
func TestNobodyLeads(t *testing.T) {
	a, b := newPeer(t), newPeer(t)
	a.set(false, b.address)
	b.set(false, a.address)
	c := dialed(t, 300*time.Millisecond, a, b)
	err := submit(c, "a")
	if !Lost(err) || err.Error() != "this scheduler is not the leader" {
		t.Error(err)
	}
	if n := a.asked + b.asked; n > 40 {
		t.Errorf("they were asked %d times in 300ms", n)
	}
	ctx, cancel := context.WithTimeout(context.Background(), pace.Of(5*time.Second)) // one scheduler answers
	defer cancel()
	c.config.Retry = time.Hour
	if _, err := c.Submit(ctx, &messages.Submit{}); !Lost(err) {
		t.Errorf("whoever has little time is told %v", err)
	}
}

// TestNobodyIsThere checks that a client retries for the time of --retry if all schedulers refuse
// connections, because they may be restarting. Waiting is called soon. With --retry 0 there is no retry.
func TestNobodyIsThere(t *testing.T) {
	a, b := nobody(t), nobody(t)
	for _, retry := range []time.Duration{0, 1200 * time.Millisecond} {
		c := dialed(t, retry, a, b)
		began, told := time.Now(), 0
		c.config.Waiting = func(error) { told++ }
		err := submit(c, "a")
		var e *Error
		took := time.Since(began)
		if !errors.As(err, &e) || !Lost(err) || !strings.Contains(e.Text, "connection refused") || took < retry ||
			took > retry+20*time.Second {
			t.Errorf("--retry %s: %v after %s", retry, err, took)
		}
		if want := min(1, int(retry)); told != want {
			t.Errorf("--retry %s: it was told %d times", retry, told)
		}
	}
}

// TestASingleSchedulerRestarts checks that a call reaches a restarted scheduler, and that Waiting is called
// within a second.
func TestASingleSchedulerRestarts(t *testing.T) {
	gone := nobody(t)
	c := dialed(t, 60*time.Second, gone)
	waited, done := make(chan time.Duration, 1), make(chan error, 1)
	began := time.Now()
	c.config.Waiting = func(error) { waited <- time.Since(began) }
	go func() { done <- submit(c, "a") }()
	if soon := <-waited; soon > pace.Of(10*time.Second) {
		t.Errorf("it was told after %s", soon)
	}
	listener, err := net.Listen("tcp", gone.address)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, listener, true)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func event(seq uint64, id, text string) *messages.Event {
	return &messages.Event{Seq: seq, Text: text,
		Job: &messages.JobStatus{Record: &messages.JobRecord{Id: id}, Phase: text}}
}

// TestWatchGoesOnAtTheNextLeader checks that a watch continues at the next leader. It shows missed changes
// and no duplicates, and it does not report the search for the leader.
func TestWatchGoesOnAtTheNextLeader(t *testing.T) {
	standby, first, second := newPeer(t), newPeer(t), newPeer(t)
	standby.set(false, first.address)
	first.set(true, "")
	second.set(true, "")
	first.events = [][]*messages.Event{{event(1<<32+1, "a", "queued"), event(1<<32+2, "b", "queued"),
		{Seq: 1<<32 + 2, Synced: true}, event(1<<32+3, "a", "running")}}
	second.events = [][]*messages.Event{{event(2<<32+1, "a", "running"), event(2<<32+2, "b", "running"),
		{Seq: 2<<32 + 2, Synced: true}, event(2<<32+3, "a", "done")}}
	c := dialed(t, 0, standby, second)
	var seen []string
	lost := 0
	err := c.Follow(context.Background(), &messages.Watch{Jobs: true, Present: true}, func(error) {
		lost++
		first.set(false, second.address)
	}, func(e *messages.Event) (bool, error) {
		if e.GetJob() != nil {
			seen = append(seen, e.GetJob().GetRecord().GetId()+" "+e.GetText())
		}
		return e.GetText() == "done", nil
	})
	if want := "[a queued b queued a running b running a done]"; err != nil || fmt.Sprint(seen) != want || lost != 1 {
		t.Errorf("saw %v, lost %d times: %v", seen, lost, err)
	}
	if q := second.watched[0]; q.GetAfter() != 1<<32+3 || !q.GetPresent() {
		t.Errorf("the second was asked for %v", q)
	}
}

// TestLogsGoOnAtTheNextLeader checks that each output stream of a task continues at its last position.
func TestLogsGoOnAtTheNextLeader(t *testing.T) {
	first, second := newPeer(t), newPeer(t)
	first.set(true, "")
	second.set(true, "")
	token := &messages.Token{Epoch: 1, Counter: 7}
	part := func(rank int32, stderr bool, text string, end int64) *api.LogPart {
		return &api.LogPart{Rank: rank, Attempt: token, Stderr: stderr, Data: []byte(text), Offset: end}
	}
	first.parts = [][]*api.LogPart{{part(0, false, "one\n", 4), part(1, true, "err\n", 4), part(0, false, "two\n", 8)},
		nil, nil}
	second.parts = [][]*api.LogPart{{part(0, false, "three\n", 14)}}
	c := dialed(t, 0, first, second)
	var out strings.Builder
	err := c.Logs(context.Background(), &api.ReadLogs{Job: "j", Follow: true}, func(error) { first.set(false, "") },
		func(p *api.LogPart) error {
			out.Write(p.GetData())
			return nil
		})
	if err != nil || out.String() != "one\nerr\ntwo\nthree\n" {
		t.Errorf("read %q: %v", out.String(), err)
	}
	q := second.read[len(second.read)-1]
	if len(q.GetFrom()) != 2 || q.GetFrom()[0].GetOffset() != 8 || !q.GetFrom()[1].GetStderr() ||
		q.GetAttempt().GetCounter() != 7 || !q.GetFollow() {
		t.Errorf("the second was asked for %v", q)
	}
}

// TestWaits checks that a client with too many requests waits as long as the scheduler requires, if the
// deadline allows it.
func TestWaits(t *testing.T) {
	soon := &tries{until: pace.Until(time.Minute)}
	for told, want := range map[string]bool{"": false, "soon": false, "-1": false, "100000": false, "0": true, "1": true} {
		began := time.Now()
		if got := waits(t.Context(), soon, metadata.Pairs(api.RetryAfterTrailer, told)); got != want {
			t.Errorf("told %q it waits: %v", told, got)
		}
		if told == "1" && time.Since(began) < time.Second {
			t.Error("it does not wait a second")
		}
	}
	if waits(t.Context(), soon, nil) {
		t.Error("it waits for something that nobody said")
	}
}
