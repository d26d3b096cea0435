package authn

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	testpace "github.com/yi-json/synapse/test/able/pace"
)

// This file tests how requests are received.

// counting implements the credentials of a client whose sent bytes are counted. The client can stop after a number
// of bytes.
type counting struct {
	credentials.TransportCredentials
	sent  *atomic.Int64
	stops int64         // 0: it does not stop
	gone  chan struct{} // closed when it may continue
}

type countingConn struct {
	net.Conn
	of counting
}

func (c counting) ClientHandshake(
	ctx context.Context, to string, raw net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ClientHandshake(ctx, to, raw)
	return countingConn{conn, c}, info, err
}

func (c counting) Clone() credentials.TransportCredentials { return c }

func (c countingConn) Write(b []byte) (int, error) {
	if n := c.of.sent.Add(int64(len(b))); c.of.stops > 0 && n > c.of.stops {
		<-c.of.gone
		return 0, net.ErrClosed
	}
	return c.Conn.Write(b)
}

// counted returns a client whose bytes are counted.
func counted(t *testing.T, s *rig, name string, stops int64) (api.SynapseClient, *atomic.Int64) {
	creds := s.badge(s.by, identity.RoleSubmitter, name).Credentials(nil)
	c := counting{creds, &atomic.Int64{}, stops, make(chan struct{})}
	conn := must(grpc.NewClient("passthrough:///"+s.address, grpc.WithTransportCredentials(c), grpc.WithDisableRetry()))
	t.Cleanup(func() { close(c.gone); conn.Close() })
	return api.NewSynapseClient(conn), c.sent
}

func sized(n int) *messages.Submit {
	return &messages.Submit{RequestId: "r", Spec: &messages.JobSpec{Image: strings.Repeat("x", n)}}
}

// TestRequestsAreReadByAndBy checks that only a few large requests of one identity are received at once, over any
// number of connections. The client keeps the rest, except one window each. Of all identities, one large request is
// served at a time. Small requests are served meanwhile, and each large one gets its turn.
func TestRequestsAreReadByAndBy(t *testing.T) {
	const (
		many = 12
		size = 3 << 20
	)
	s, served := callsStage(t)
	s.gate.patience = time.Hour
	s.gate.purses.allowed.Calls.Burst = 1 << 20
	for range largeAtOnce { // as if others were served
		s.gate.large <- struct{}{}
	}
	var sent []*atomic.Int64
	ended := make(chan error, 2*many)
	for range 2 {
		ann, one := counted(t, s, "ann", 0)
		sent = append(sent, one)
		for range many {
			go func() {
				_, err := ann.Submit(context.Background(), sized(size))
				ended <- err
			}()
		}
	}
	total := func() int64 { return sent[0].Load() + sent[1].Load() }
	most := int64(s.gate.purses.allowed.Requests*size + 2*many*unreadBytes + 1<<20)
	least := int64(s.gate.purses.allowed.Requests * size)
	for limit := testpace.Until(time.Minute); total() < least; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("%d bytes were taken, and never %d", total(), least)
		}
	}
	for before := int64(-1); before != total(); time.Sleep(testpace.Of(200 * time.Millisecond)) {
		before = total()
	}
	if got := total(); got > most {
		t.Errorf("%d MiB of %d were taken, want at most %d", got>>20, 2*many*size>>20, most>>20)
	}
	bob := person(t, s, identity.RoleSubmitter, "bob")
	if _, err := bob.Submit(t.Context(), sized(littleBytes/2)); status.Code(err) != codes.Aborted {
		t.Errorf("what is small waits for what is large: %v", err)
	}
	if n := served.reached.Load(); n != 1 {
		t.Errorf("%d were served, want the small one", n)
	}
	for range largeAtOnce {
		<-s.gate.large
	}
	for range 2 * many {
		if err := <-ended; status.Code(err) != codes.Aborted {
			t.Errorf("one that had to wait: %v", err)
		}
	}
	if n := len(s.gate.large); n != 0 {
		t.Errorf("%d of none are served", n)
	}
}

// TestHalfSentRequests checks that clients that stop in the middle of a large request block nobody else, neither
// small nor large requests. The same client can still use its other places.
func TestHalfSentRequests(t *testing.T) {
	s, _ := callsStage(t)
	for i := range 4 * largeAtOnce {
		slow, sent := counted(t, s, fmt.Sprint("h", i), 48<<10)
		go func() { _, _ = slow.Submit(context.Background(), sized(3<<20)) }()
		for limit := testpace.Until(time.Minute); sent.Load() <= 48<<10; time.Sleep(time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatal("it has not begun")
			}
		}
	}
	for _, name := range []string{"ann", "h0"} {
		who := person(t, s, identity.RoleSubmitter, name)
		for _, n := range []int{1 << 10, 3 << 20} {
			if _, err := who.Submit(t.Context(), sized(n)); status.Code(err) != codes.Aborted {
				t.Errorf("%s, %d bytes: %v", name, n, err)
			}
		}
	}
}

// TestCallsWithoutRequests checks that calls whose requests never arrive are refused after a while with a reason.
// Other identities are served, and the same identity is served again after it cancels a call.
func TestCallsWithoutRequests(t *testing.T) {
	s, _ := callsStage(t)
	s.gate.patience = testpace.Of(100 * time.Millisecond)
	conn, _ := s.open(s.badge(s.by, identity.RoleViewer, "ann").Credentials(nil))
	who := identity.Identity{Cluster: "c-a", Role: identity.RoleViewer, Name: "ann"}.String()
	wait := func(n int) {
		t.Helper()
		comes := func() int {
			s.gate.purses.mu.Lock()
			defer s.gate.purses.mu.Unlock()
			return len(s.gate.purses.of(who, s.clock()).requests)
		}
		for limit := testpace.Until(time.Minute); comes() != n; time.Sleep(time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatalf("%d are on their way, and never %d", comes(), n)
			}
		}
	}
	var last func()
	for range s.gate.purses.allowed.Requests {
		ctx, cancel := context.WithCancel(t.Context())
		_ = must(conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, "/synapse.v1.Synapse/ListJobs"))
		last = cancel
	}
	wait(s.gate.purses.allowed.Requests)
	var trailer metadata.MD
	ann := api.NewSynapseClient(conn)
	_, err := ann.ListJobs(t.Context(), &messages.ListJobs{}, grpc.Trailer(&trailer))
	said := strings.Contains(err.Error(), "without sending their requests in time")
	if status.Code(err) != codes.ResourceExhausted || !said || len(trailer.Get(api.RetryAfterTrailer)) != 1 {
		t.Errorf("the next: %v, %v", err, trailer)
	}
	bob := person(t, s, identity.RoleViewer, "bob")
	if _, err := bob.ListJobs(t.Context(), &messages.ListJobs{}); status.Code(err) != codes.Aborted {
		t.Errorf("another one: %v", err)
	}
	last()
	wait(s.gate.purses.allowed.Requests - 1)
	if _, err := ann.ListJobs(t.Context(), &messages.ListJobs{}); status.Code(err) != codes.Aborted {
		t.Errorf("when one was given up: %v", err)
	}
}

// TestLargeRequestsCost checks that a large request costs one call per KiB. The identity is then refused, for calls
// and connections, until the debt is paid. A piece of a file costs nothing extra, and others are served.
func TestLargeRequestsCost(t *testing.T) {
	s, served := callsStage(t)
	piece := proto.Size(&api.ExecIn{Stdin: make([]byte, 64<<10)})
	if piece > littleBytes {
		t.Errorf("a piece of a file on its way into a task is %d bytes, and counts as large", piece)
	}
	ann, bob := person(t, s, identity.RoleSubmitter, "ann"), person(t, s, identity.RoleSubmitter, "bob")
	reached := func(who api.SynapseClient, q *messages.Submit) error {
		t.Helper()
		var trailer metadata.MD
		before := served.reached.Load()
		_, err := who.Submit(t.Context(), q, grpc.Trailer(&trailer))
		if exhausted := status.Code(err) == codes.ResourceExhausted; exhausted == (served.reached.Load() > before) ||
			exhausted != (len(trailer.Get(api.RetryAfterTrailer)) == 1) {
			t.Errorf("%v, and it says to come again after %q", err, trailer)
		}
		return err
	}
	allowed := s.gate.purses.allowed.Calls
	for range 20 { // more than the complete allowance, if they were large
		if err := reached(ann, sized(littleBytes-100)); status.Code(err) != codes.Aborted {
			t.Fatalf("a little one: %v", err)
		}
	}
	s.pass(time.Minute)
	large := sized(messages.MaxMessageBytes - 4096)
	if err := reached(ann, large); status.Code(err) != codes.Aborted {
		t.Fatalf("a large one: %v", err)
	}
	if err := reached(ann, sized(1)); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("behind it: %v", err)
	}
	if _, ask := s.open(s.badge(s.by, identity.RoleSubmitter, "ann").Credentials(nil)); ask() == nil {
		t.Error("a connection behind it is let in")
	}
	if err := reached(bob, large); status.Code(err) != codes.Aborted {
		t.Errorf("another one's: %v", err)
	}
	owed := proto.Size(large)>>10 + 4 - allowed.Burst // a change costs two
	s.pass(time.Duration(owed) * time.Second / time.Duration(allowed.PerSecond))
	if err := reached(ann, sized(1)); status.Code(err) != codes.Aborted {
		t.Errorf("when it has paid: %v", err)
	}
	if s.tells("Refused a connection of synapse://c-a/submitter/ann from 127.0.0.1: exceeds") != 1 {
		t.Error("nobody is told")
	}
}

// unread is the stream of a client that does not read its answer.
type unread struct {
	grpc.ServerStream
	sends func()
}

func (u unread) SendMsg(any) error {
	u.sends()
	return nil
}

// TestAnswerNobodyReads checks that an unread answer to a large request does not block other large requests.
func TestAnswerNobodyReads(t *testing.T) {
	s := newRig(t)
	s.gate.large <- struct{}{}
	c := &checkedCall{gate: s.gate, ctx: t.Context(), large: true}
	stream := &guarded{ServerStream: unread{sends: func() {
		if n := len(s.gate.large); n != 0 {
			t.Errorf("%d are served while the answer is sent", n)
		}
	}}, asked: c, once: true}
	if err := stream.SendMsg(&messages.JobStatus{}); err != nil {
		t.Fatal(err)
	}
	c.over() // must not release the place twice, or it would block here
}
