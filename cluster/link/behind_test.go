package link

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/yi-json/synapse/server/connlimit"
)

// This file owns the test of a cluster whose nodes all return at once from one address. The simulated nodes are
// minimal: a real handshake with real certificates over a pipe, the HTTP/2 preface, and the link's stream. Their waits
// and retries are those of real nodes.

// comers is a scheduler with the nodes that connect to it.
type comers struct {
	*hall
	dials   credentials.TransportCredentials
	old     bool // the nodes are of a version that neither queues for a handshake nor backs off for long
	keeps   int  // number of links that stay open; 0: all
	pipes   chan net.Conn
	linked  atomic.Int64
	running sync.WaitGroup

	mu    sync.Mutex
	links []net.Conn
}

// newComers creates this many nodes that dial. No server accepts them yet.
func newComers(tb testing.TB, many int, old bool, keeps int) *comers {
	by, dials := secured(tb)
	c := &comers{
		hall:  &hall{tb: tb, system: newSystem(), ears: make(chan heard, 1<<16), address: "pipe"},
		dials: dials, old: old, keeps: keeps, pipes: make(chan net.Conn, 4096),
	}
	c.server = NewServer(c.system, Options{Credentials: by.Credentials(), Count: c.count})
	c.guards = by.ServerOptions()
	limits := connlimit.DefaultLimits()
	limits.Open = 65_536 // pipes need no descriptors, and a test may have few of them
	c.listener = connlimit.New(c.pipesOf(), connlimit.Options{
		Limits: limits, Vain: connlimit.DefaultVain(), Count: c.count,
		Gone: func(far net.Conn) bool { return far.(*farEnd).gone.Load() },
	})
	ctx, cancel := context.WithCancel(context.Background())
	tb.Cleanup(func() {
		cancel()
		c.running.Wait()
		for _, l := range c.links {
			l.Close()
		}
	})
	for i := range many {
		c.running.Go(func() { c.comes(ctx, fmt.Sprintf("n%05d", i)) })
	}
	return c
}

// farEnd is the scheduler's end of a pipe. It knows whether the node has closed its end, and it notifies the node when
// the scheduler reads more than the first byte.
type farEnd struct {
	net.Conn
	reads int
	begun chan struct{}
	gone  atomic.Bool
}

func (*farEnd) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1} }

func (f *farEnd) Read(b []byte) (int, error) {
	if f.reads++; f.reads == 2 { // the listener has read the first byte, and the handshake continues
		close(f.begun)
	}
	return f.Conn.Read(b)
}

// nearEnd is a node's end. Its data begins with a byte that it has already sent.
type nearEnd struct {
	net.Conn
	far  *farEnd
	said bool
}

func (n *nearEnd) Write(b []byte) (int, error) {
	if n.said {
		return n.Conn.Write(b)
	}
	n.said = true
	written, err := n.Conn.Write(b[1:])
	return written + 1, err
}

func (n *nearEnd) Close() error {
	n.far.gone.Store(true)
	return n.Conn.Close()
}

// waits sends the first byte of a handshake, and waits until the scheduler continues to read. A real node sends its
// entire first message at once. Here the message is created when it is read, so that the nodes' work for failed
// attempts does not count as the scheduler's cost.
func (n *nearEnd) waits(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok {
		_ = n.Conn.SetWriteDeadline(deadline)
	}
	if _, err := n.Conn.Write([]byte{0x16}); err != nil {
		return err
	}
	select {
	case <-n.far.begun:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pipesOf returns the listener.
func (c *comers) pipesOf() net.Listener { return &piped{c: c, closed: make(chan struct{})} }

type piped struct {
	c       *comers
	closed  chan struct{}
	closing sync.Once
}

func (p *piped) Accept() (net.Conn, error) {
	select {
	case far := <-p.c.pipes:
		return far, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *piped) Close() error {
	p.closing.Do(func() { close(p.closed) })
	return nil
}

func (*piped) Addr() net.Addr { return &net.TCPAddr{} }

// comes is one node: it retries until it is linked.
func (c *comers) comes(ctx context.Context, name string) {
	tries := newRetry()
	for ctx.Err() == nil {
		patience := answerTimeout
		if c.old {
			patience = connectTimeout
		}
		if err := c.try(ctx, name, patience); err == nil {
			return
		}
		pause := tries.failed(!c.old, 0, rand.Float64)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// try is one attempt.
func (c *comers) try(ctx context.Context, name string, patience time.Duration) error {
	near, far := net.Pipe()
	raw := &nearEnd{Conn: near, far: &farEnd{Conn: far, begun: make(chan struct{})}}
	select {
	case c.pipes <- raw.far:
	case <-ctx.Done():
		return ctx.Err()
	}
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var conn net.Conn
	err := raw.waits(within)
	if err == nil {
		conn, _, err = c.dials.ClientHandshake(within, "scheduler", raw)
	}
	if err == nil {
		err = introduces(conn, machineOptions(name, "m-"+name))
	}
	if err != nil {
		raw.Close()
		return err
	}
	c.linked.Add(1)
	c.mu.Lock()
	c.links = append(c.links, conn)
	var over net.Conn
	if c.keeps > 0 && len(c.links) > c.keeps {
		over, c.links = c.links[0], c.links[1:]
	}
	c.mu.Unlock()
	if over != nil {
		over.Close()
	}
	return nil
}

// introduces opens the link's stream, and waits until it is accepted.
func introduces(conn net.Conn, o Options) error {
	_ = conn.SetDeadline(time.Now().Add(greetTimeout))
	head := []byte{0x83, 0x87} // POST, https
	field := func(name, value string) {
		head = append(append(head, 0, byte(len(name))), name...)
		head = append(append(head, byte(len(value))), value...)
	}
	field(":path", "/remote.Remoting/Receive")
	field(":authority", "scheduler")
	field("content-type", "application/grpc")
	field("te", "trailers")
	for name, values := range o.introduction() { //order: headers have none
		field(name, values[0])
	}
	words := append([]byte(firstWords), http2Frame(4, 0, 0, nil)...)
	if _, err := conn.Write(append(words, http2Frame(1, 4, 1, head)...)); err != nil {
		return err
	}
	var header [9]byte
	for {
		if _, err := io.ReadFull(conn, header[:]); err != nil {
			return err
		}
		size := int64(header[0])<<16 | int64(header[1])<<8 | int64(header[2])
		if _, err := io.CopyN(io.Discard, conn, size); err != nil {
			return err
		}
		switch {
		case header[3] == 1 && header[4]&1 == 0: // a response that does not also end the stream
			return conn.SetDeadline(time.Time{})
		case header[3] == 1, header[3] == 3, header[3] == 7:
			return errors.New("it was refused")
		}
	}
}

// http2Frame returns an HTTP/2 frame.
func http2Frame(kind, flags byte, stream uint32, payload []byte) []byte {
	frame := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
	return append(binary.BigEndian.AppendUint32(frame, stream), payload...)
}

// TestManyBehindOneAddress checks 2,000 nodes behind one address that lose their scheduler at the same moment. All are
// linked again, with few failed handshakes and almost no refusals. BenchmarkComeBack measures the cost.
func TestManyBehindOneAddress(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it makes 2,000 handshakes")
	}
	const many = 2000
	for name, old := range map[string]bool{"today's machines": false, "machines of an earlier version": true} {
		t.Run(name, func(t *testing.T) {
			c := newComers(t, many, old, 0)
			serve(t, c.hall)
			for c.linked.Load() < many { // limited by the timeout of the test run
				time.Sleep(10 * time.Millisecond)
			}
			begun, refused := c.of("entrance.begun"), c.of("entrance.refused")+c.of("entrance.silent")
			t.Logf("%d handshakes for %d links; %d were refused", begun, many, refused)
			if begun > many*5/4 || refused > many/100 {
				t.Errorf("%d machines took %d handshakes, and %d were refused", many, begun, refused)
			}
		})
	}
}

// BenchmarkComeBack measures how many nodes are linked per second of CPU time, including their own end of the
// handshake. The result must not depend on the number of nodes.
func BenchmarkComeBack(b *testing.B) {
	for _, old := range []bool{false, true} {
		for _, many := range []int{500, 2000, 10_000, 50_000} {
			if testing.Short() && many > 500 {
				continue
			}
			b.Run(fmt.Sprintf("old=%t/machines=%d", old, many), func(b *testing.B) {
				for range b.N {
					began, before := time.Now(), processTime(b)
					c := newComers(b, many, old, 500)
					serve(b, c.hall)
					for c.linked.Load() < int64(many) {
						time.Sleep(10 * time.Millisecond)
					}
					cpu, took := processTime(b)-before, time.Since(began)
					b.ReportMetric(float64(many)/cpu.Seconds(), "linked/cpu-s")
					b.ReportMetric(float64(many)/took.Seconds(), "linked/s")
					b.ReportMetric(float64(c.of("entrance.begun"))/float64(many), "handshakes/link")
					b.ReportMetric(float64(c.of("entrance.refused")+c.of("entrance.silent"))/float64(many), "refused/link")
					b.ReportMetric(float64(c.of("entrance.gone"))/float64(many), "gone/link")
				}
			})
		}
	}
}
