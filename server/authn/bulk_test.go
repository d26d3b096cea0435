package authn

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	testpace "github.com/yi-json/synapse/test/able/pace"
)

// frame is one of HTTP/2.
func frame(kind, flags byte, stream uint32, payload ...byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	return append(binary.BigEndian.AppendUint32(append(b, flags), stream), payload...)
}

// message is one of gRPC.
func message(n int) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(n)), make([]byte, n)...)
}

// TestTraffic: what is on its way is what was announced and has not been answered, however the bytes are cut.
func TestTraffic(t *testing.T) {
	opens := func(stream uint32) []byte { return frame(frameHeaders, 4, stream, 0) }
	padded := append(append([]byte{7}, message(100)...), message(9000)[:7]...) // the padding looks like a message
	for what, c := range map[string]struct {
		in, out [][]byte
		want    int
	}{
		"a request":       {in: [][]byte{opens(1), frame(frameData, 0, 1, message(100)...)}, want: 100},
		"announced alone": {in: [][]byte{opens(1), frame(frameData, 0, 1, message(9000)[:6]...)}, want: 9000},
		"in two frames": {in: [][]byte{
			opens(1), frame(frameData, 0, 1, message(100)[:3]...), frame(frameData, flagEnds, 1, message(100)[3:]...),
		}, want: 100},
		"two calls": {in: [][]byte{
			opens(1), opens(3), frame(frameData, 0, 1, message(100)[:50]...), frame(frameData, 0, 3, message(10)...),
			frame(frameData, 0, 1, message(100)[50:]...),
		}, want: 110},
		"padded":      {in: [][]byte{opens(1), frame(frameData, flagPadded, 1, padded...)}, want: 100},
		"given up":    {in: [][]byte{opens(1), frame(frameData, 0, 1, message(100)...), frame(frameReset, 0, 1, 0, 0, 0, 8)}},
		"too long":    {in: [][]byte{opens(1), frame(frameData, 0, 1, message(maxRequestBytes + 1)[:9]...)}},
		"of no call":  {in: [][]byte{frame(frameData, 0, 1, message(100)...)}},
		"other kinds": {in: [][]byte{opens(1), frame(6, 1, 0, message(100)...), frame(8, 1, 1, message(100)...)}},
		"answered": {
			in:  [][]byte{opens(1), frame(frameData, flagEnds, 1, message(100)...)},
			out: [][]byte{frame(frameData, 0, 1, message(5)...), frame(frameHeaders, 4|flagEnds, 1, 0)},
		},
		"the answer has begun": {
			in:  [][]byte{opens(1), frame(frameData, flagEnds, 1, message(100)...)},
			out: [][]byte{frame(frameHeaders, 4, 1, 0), frame(frameData, 0, 1, message(5)...)}, want: 100,
		},
		"piece by piece, the last one unread": {in: [][]byte{
			opens(1), frame(frameData, 0, 1, message(100)...), frame(frameData, 0, 1, message(60)...),
			frame(frameData, 0, 1, message(70)[:9]...),
		}, want: 70},
		"piece by piece": {in: [][]byte{
			opens(1), frame(frameData, 0, 1, message(100)...), frame(frameData, 0, 1, message(60)...),
		}},
	} {
		in := make([]byte, prefaceBytes)
		for _, f := range c.in {
			in = append(in, f...)
		}
		for seed := range uint64(20) {
			draw := rand.New(rand.NewPCG(seed, 1))
			flow, has := newTraffic(), 0
			for rest := in; len(rest) > 0; {
				n := min(len(rest), 1+draw.IntN(40))
				more, err := flow.came(rest[:n])
				if has, rest = has+more, rest[n:]; err != nil {
					t.Fatal(err)
				}
			}
			for _, f := range c.out {
				has -= flow.went(f)
			}
			if has != c.want {
				t.Errorf("%s: %d on their way, want %d (seed %d)", what, has, c.want, seed)
			}
		}
	}
}

// TestTooManyBegun: a connection on which more is begun than gRPC would take is not followed for ever.
func TestTooManyBegun(t *testing.T) {
	flow := newTraffic()
	_, err := flow.came(make([]byte, prefaceBytes))
	for i := 0; err == nil && i < 2*maxFollowed; i++ {
		_, err = flow.came(frame(frameHeaders, 4, uint32(2*i+1)))
	}
	if !errors.Is(err, errTooMany) {
		t.Error(err)
	}
}

// scale is a gate's bulk with connections that take of it.
type scale struct {
	*rig
	n int
}

func (s *scale) of(who string) *connection {
	s.n++
	near, far := net.Pipe()
	s.t.Cleanup(func() { near.Close(); far.Close() })
	return &connection{Conn: near, gate: s.gate, who: who, traffic: newTraffic(), gone: make(chan struct{})}
}

// asks waits for bytes beside the test.
func (s *scale) asks(c *connection, bytes int) chan error {
	done := make(chan error, 1)
	s.gate.bulk.mu.Lock()
	before := len(s.gate.bulk.waiting)
	s.gate.bulk.mu.Unlock()
	go func() { done <- s.gate.bulk.take(c, bytes) }()
	for limit := testpace.Until(time.Minute); time.Now().Before(limit); time.Sleep(time.Millisecond) {
		s.gate.bulk.mu.Lock()
		now := len(s.gate.bulk.waiting)
		s.gate.bulk.mu.Unlock()
		if now > before || len(done) > 0 {
			return done
		}
	}
	s.t.Fatal("it neither waits nor goes on")
	return nil
}

func (s *scale) goes(what string, done chan error) {
	s.t.Helper()
	select {
	case err := <-done:
		if err != nil {
			s.t.Errorf("%s: %v", what, err)
		}
	case <-time.After(testpace.Of(time.Minute)):
		s.t.Fatalf("%s waits", what)
	}
}

func (s *scale) waits(what string, done chan error) {
	s.t.Helper()
	if len(done) > 0 {
		s.t.Errorf("%s does not wait: %v", what, <-done)
	}
}

// TestBulk: where the room is taken what is small goes on, what is large waits, and whoever has least is next; a
// connection that waits with something on its way is let finish; what is closed gives all of it back.
func TestBulk(t *testing.T) {
	s := &scale{rig: newRig(t)}
	ann, bob, carl := s.of("ann"), s.of("bob"), s.of("carl")
	s.goes("the first", s.asks(ann, bulkBytes))
	s.goes("what is small", s.asks(bob, ownBytes))
	bob.traffic.open[1] = &request{held: ownBytes}
	bob.traffic.open[3] = &request{held: 1 << 20}
	s.goes("it is in the middle of another one, so it", s.asks(bob, 1<<20))
	large, larger := s.asks(s.of("ann"), 1<<20), s.asks(carl, 3<<20)
	s.waits("whoever has much", large)
	s.waits("whoever has nothing", larger)
	bob.traffic.open[5] = &request{held: 2 * bulkBytes}
	if s.gate.bulk.take(bob, bulkBytes) == nil || s.gate.bulk.take(s.of("eve"), bulkBytes+1) == nil {
		t.Error("a connection takes all that it likes")
	}
	s.gate.bulk.give(bob, ownBytes+1<<20)
	s.waits("nothing is free yet: it", larger)
	s.gate.bulk.give(ann, bulkBytes-1<<20)
	s.goes("whoever has nothing, and came later,", larger)
	s.goes("then whoever has much", large)
	gone := s.of("dora")
	ended := s.asks(gone, bulkBytes)
	s.waits("the next", ended)
	s.gate.bulk.drop(gone)
	if err := <-ended; !errors.Is(err, errBulk) || s.gate.bulk.take(gone, 1) == nil {
		t.Errorf("whoever is closed is told %v, and takes more", err)
	}
	for c := range s.gate.bulk.of["ann"].on { //order: each goes
		s.gate.bulk.drop(c)
	}
	s.gate.bulk.drop(carl)
	if b := &s.gate.bulk; len(b.of) != 0 || b.beyond != 0 || b.ahead != nil || len(b.waiting) != 0 {
		t.Errorf("%d are remembered, %d bytes, %v ahead, %d wait", len(b.of), b.beyond, b.ahead, len(b.waiting))
	}
}

// halts is a connection that sends only so much.
type halts struct {
	net.Conn
	left atomic.Int64
	gone chan struct{}
}

func (h *halts) Write(b []byte) (int, error) {
	if h.left.Add(-int64(len(b))) < 0 {
		<-h.gone
		return 0, net.ErrClosed
	}
	return h.Conn.Write(b)
}

// halting are credentials of somebody who stops in the middle of what he sends.
type halting struct {
	credentials.TransportCredentials
	t *testing.T
}

func (h halting) ClientHandshake(ctx context.Context, to string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := h.TransportCredentials.ClientHandshake(ctx, to, raw)
	halted := &halts{Conn: conn, gone: make(chan struct{})}
	halted.left.Store(48 << 10)
	h.t.Cleanup(func() { close(halted.gone) })
	return halted, info, err
}

func (h halting) Clone() credentials.TransportCredentials { return h }

// TestLargeRequestsWait: many stop in the middle of a large request. What is small is served beside them, and what is
// large as well, once one of them has had its time.
func TestLargeRequestsWait(t *testing.T) {
	s, served := callsStage(t)
	large := func(n int) *messages.Submit {
		return &messages.Submit{RequestId: "r", Spec: &messages.JobSpec{Image: strings.Repeat("x", n)}}
	}
	for i := range 4 {
		creds := halting{s.badge(s.by, identity.RoleSubmitter, fmt.Sprint("h", i)).Credentials(nil), t}
		conn := must(grpc.NewClient("passthrough:///"+s.address, grpc.WithTransportCredentials(creds),
			grpc.WithDisableRetry()))
		t.Cleanup(func() { conn.Close() })
		go func() { _, _ = api.NewSynapseClient(conn).Submit(context.Background(), large(3<<20)) }()
	}
	b := &s.gate.bulk
	until := func(what string, is func() bool) {
		t.Helper()
		for limit := testpace.Until(time.Minute); !is(); time.Sleep(time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatal("in vain: ", what)
			}
		}
	}
	waiting := func() int { b.mu.Lock(); defer b.mu.Unlock(); return len(b.waiting) }
	until("three wait, one has the room", func() bool { return waiting() == 3 })
	ann := person(t, s, identity.RoleSubmitter, "ann")
	if _, err := ann.Submit(t.Context(), large(1<<10)); status.Code(err) != codes.Aborted || served.reached.Load() != 1 {
		t.Fatalf("a small one: %v", err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := ann.Submit(context.Background(), large(3<<20))
		done <- err
	}()
	until("a large one waits", func() bool { return waiting() == 4 })
	for len(done) == 0 { // she came last, so nobody waits once she has the room
		before := waiting()
		s.pass(bulkFor)
		until("one has had its time", func() bool { return waiting() < before || len(done) > 0 })
	}
	if err := <-done; status.Code(err) != codes.Aborted {
		t.Errorf("a large one: %v", err)
	}
	if s.tells("slow to send a large request") == 0 {
		t.Error("nobody is told of those that were closed")
	}
}

// TestCallsWithoutRequests: one identity has so many calls of which no request comes, which are told so before anything
// is kept for them; another has its own, and what is given up is there again.
func TestCallsWithoutRequests(t *testing.T) {
	s, _ := callsStage(t)
	s.gate.purses.allowed.Coming = 3
	conn, _ := s.open(s.badge(s.by, identity.RoleViewer, "ann").Credentials(nil))
	begins := func() (grpc.ClientStream, func()) {
		ctx, cancel := context.WithCancel(t.Context())
		return must(conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, "/synapse.v1.Synapse/ListJobs")), cancel
	}
	wait := func(n int) {
		t.Helper()
		who := identity.Identity{Cluster: "c-a", Role: identity.RoleViewer, Name: "ann"}.String()
		comes := func() int {
			s.gate.purses.mu.Lock()
			defer s.gate.purses.mu.Unlock()
			return s.gate.purses.of(who, s.clock()).coming
		}
		for limit := testpace.Until(time.Minute); comes() != n; time.Sleep(time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatalf("%d are on their way, and never %d", comes(), n)
			}
		}
	}
	var last func()
	for range 3 {
		_, last = begins()
	}
	wait(3)
	refused, _ := begins()
	err := refused.RecvMsg(&messages.Event{})
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "sent no request for them") {
		t.Errorf("the fourth: %v", err)
	}
	bob := person(t, s, identity.RoleViewer, "bob")
	if _, err := bob.ListJobs(t.Context(), &messages.ListJobs{}); status.Code(err) != codes.Aborted {
		t.Errorf("another one: %v", err)
	}
	last()
	wait(2)
	if _, err := api.NewSynapseClient(conn).ListJobs(t.Context(), &messages.ListJobs{}); status.Code(
		err) != codes.Aborted {
		t.Errorf("when one was given up: %v", err)
	}
	wait(2)
}

// TestRequestsThatWaitToBeServed: who sends many calls at once is not refused because those before are served only now.
func TestRequestsThatWaitToBeServed(t *testing.T) {
	s, _ := callsStage(t)
	const who = "somebody"
	for range s.gate.purses.allowed.Coming {
		s.gate.purses.comes(who, s.clock())
	}
	time.AfterFunc(comingPatience/5, func() { s.gate.purses.came(who) })
	if !s.gate.comes(who) {
		t.Error("a call is refused whose predecessor's request is served a moment later")
	}
	if s.gate.comes(who) {
		t.Error("one is taken for which there is no place")
	}
}

// TestLargeOnesHaveAPace: one identity sends large requests at a pace, beyond which it waits unread, and then loses its
// connection; small ones, and those of others, come at once.
func TestLargeOnesHaveAPace(t *testing.T) {
	s := purses{allowed: DefaultAllowance()}
	const large, less = 4 << 20, 1 << 20 // of which the second large one loses its connection, and costs nothing
	for i, of := range []struct {
		bytes int
		want  time.Duration
	}{{large, 0}, {less, BulkPause}, {large, 40 * time.Second}, {less, 2 * BulkPause}} {
		if wait := s.carries("ann", of.bytes, today); wait != of.want {
			t.Errorf("the %dth waits %s, want %s", i+1, wait, of.want)
		}
	}
	if wait := s.carries("bob", large, today) + s.carries("ann", large, today.Add(64*time.Second)); wait != 0 {
		t.Errorf("another one, or the same one later, waits %s", wait)
	}
	rig := &scale{rig: newRig(t)}
	ann, bob := rig.of("ann"), rig.of("bob")
	for _, bytes := range []int{bulkBurst, less} { // no more comes without a longer pause than there is
		rig.gate.purses.carries("ann", bytes, rig.clock())
	}
	if ann.pause(large) == nil || ann.pause(littleBytes) != nil || bob.pause(large) != nil {
		t.Error("whoever has overdrawn goes on, or what is small does not, or another one")
	}
	if piece := proto.Size(&api.ExecIn{Stdin: make([]byte, 64<<10)}); ann.pause(piece) != nil {
		t.Error("a piece of a file on its way into a task has the pace of large requests")
	}
	waits := rig.of("carl")
	rig.gate.purses.carries("carl", bulkBurst, rig.clock())
	done := make(chan error, 1)
	go func() { done <- waits.pause(less) }()
	rig.gate.bulk.drop(waits)
	if err := <-done; !errors.Is(err, errBulk) {
		t.Errorf("one that is closed meanwhile goes on: %v", err)
	}
}
