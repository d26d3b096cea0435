package httpmux

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/yi-json/synapse/server/connlimit"
	"github.com/yi-json/synapse/test/able/pace"
)

// rig has a port with both protocols, behind connlimit.
type rig struct {
	address string
	mux     *Mux
	refused atomic.Int64
	stop    func()
}

func newRig(t *testing.T, page http.HandlerFunc, limits connlimit.Limits) *rig {
	t.Helper()
	s := &rig{}
	s.mux = New(Options{Handler: page, Count: func(name string, n int64) {
		if name == countRefused {
			s.refused.Add(n)
		}
	}})
	creds := s.mux.Credentials(insecure.NewCredentials())
	server := grpc.NewServer(grpc.Creds(creds), grpc.ConnectionTimeout(2*time.Second))
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = at.Addr().String()
	s.stop = func() { s.mux.Close(); server.GracefulStop() }
	go server.Serve(connlimit.New(at, connlimit.Options{Limits: limits}))
	t.Cleanup(s.stop)
	return s
}

func (s *rig) dial(t *testing.T) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(pace.Until(20 * time.Second))
	return c
}

func (s *rig) get(t *testing.T) string {
	c := s.dial(t)
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	answer, _ := io.ReadAll(c)
	return string(answer)
}

func (s *rig) call(t *testing.T) error {
	conn, err := grpc.NewClient("passthrough:///"+s.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), pace.Of(20*time.Second))
	defer cancel()
	_, err = grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	return err
}

func hello(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }

// TestBothOnOnePort checks that HTTP/1.1 clients get a page, that gRPC works next to it, and that other protocols
// are refused.
func TestBothOnOnePort(t *testing.T) {
	s := newRig(t, hello, connlimit.Limits{})
	if got := s.get(t); !strings.HasPrefix(got, "HTTP/1.1 200 OK") || !strings.HasSuffix(got, "hello") {
		t.Errorf("a page: %q", got)
	}
	if err := s.call(t); err != nil {
		t.Errorf("a call: %v", err)
	}
	c := s.dial(t)
	fmt.Fprint(c, "SSH-2.0-OpenSSH_9\r\n\r\n0123456789")
	if answer, _ := io.ReadAll(c); strings.Contains(string(answer), "hello") {
		t.Errorf("a page for what is no HTTP: %q", answer)
	}
	slow := s.dial(t) // a request may arrive byte by byte
	for _, b := range []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n") {
		if _, err := slow.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	if line, err := bufio.NewReader(slow).ReadString('\n'); !strings.HasPrefix(line, "HTTP/1.1 200") {
		t.Errorf("byte by byte: %q, %v", line, err)
	}
}

// TestVisitorsAreBounded checks that long visits leave capacity for gRPC, that visitors beyond the limit get an
// answer, and that a free place can be used again.
func TestVisitorsAreBounded(t *testing.T) {
	s := newRig(t, hello, connlimit.Limits{})
	var first net.Conn
	for range maxVisitors {
		c := s.dial(t)
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n") // and stays connected
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 200") {
			t.Fatalf("%q, %v", line, err)
		}
		first = c
	}
	if got := s.get(t); !strings.HasPrefix(got, "HTTP/1.1 503") || !strings.Contains(got, "\r\nRetry-After: 5\r\n") {
		t.Errorf("one more visitor gets %q", got)
	}
	if err := s.call(t); err != nil {
		t.Errorf("a call beside many visitors: %v", err)
	}
	first.Close()
	for limit := pace.Until(20 * time.Second); !strings.Contains(s.get(t), "hello"); {
		if time.Now().After(limit) {
			t.Fatal("a place that was left is not free again")
		}
	}
	if s.refused.Load() == 0 {
		t.Error("nobody counted who was sent away")
	}
}

// TestEntranceHolds checks that connlimit counts an unauthenticated visitor as a handshake in progress. A visitor
// beyond that limit waits until an earlier one times out.
func TestEntranceHolds(t *testing.T) {
	limits := connlimit.DefaultLimits()
	limits.Begun, limits.BegunOfSource = 2, 2
	s := newRig(t, hello, limits)
	var all []net.Conn
	for range 2 {
		c := s.dial(t)
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		if _, err := bufio.NewReader(c).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	if got := s.get(t); !strings.HasSuffix(got, "hello") {
		t.Errorf("a third visitor gets %q", got)
	}
	if rest, err := io.ReadAll(all[0]); err != nil {
		t.Errorf("the one that was there for longest stays: %q, %v", rest, err)
	}
}

// TestCloseEndsVisits checks that a graceful stop of the server does not wait for visitors.
func TestCloseEndsVisits(t *testing.T) {
	s := newRig(t, hello, connlimit.Limits{})
	c := s.dial(t)
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if _, err := bufio.NewReader(c).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() { s.stop(); close(over) }()
	select {
	case <-over:
	case <-time.After(pace.Of(20 * time.Second)):
		t.Fatal("a visitor keeps the server from ending")
	}
}
