// Package connlimit limits connections before a scheduler's handshakes. It bounds what a peer can cost before the peer
// has proved its identity, in total and per source, and lets everybody else wait. It reads one byte of what a peer
// sends, and knows no certificate.
package connlimit

import (
	"container/list"
	"errors"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// This file owns the listener: how connections come in, and how many there may be of each kind.
//
// A connection is silent until its first byte, then it waits in its source's line, then its handshake is under way, and
// then it has entered. A connection that waits costs a socket and less than a kilobyte: it has no goroutine, and the
// server behind the listener does not know of it yet. So a crowd, such as a whole cluster that lost its scheduler,
// waits before the expensive part. To refuse the surplus instead was turned down: each of those who are refused comes
// again, and on a slow machine the new attempts took all of the processor and nobody got in.
//
// If there are too many silent connections, the oldest is closed. A client speaks as soon as it is connected, so an
// honest one is silent for a moment only. To refuse the newest instead would let the first thousand silent ones shut
// everybody out.

// Limits bound the connections of each kind, in total and from one source.
type Limits struct {
	Open, OpenOfSource   int // of all kinds
	Silent               int
	Begun, BegunOfSource int // handshakes under way
}

// descriptors are left to everything else that a scheduler opens.
const descriptors = 512

// DefaultLimits returns the limits of a scheduler. One source may be a whole cluster behind one address, so it may have
// as many open connections as a large cluster has nodes. Handshakes under way are bounded by the processors: more of
// them would only take longer each.
func DefaultLimits() Limits {
	begun := max(256, 64*runtime.GOMAXPROCS(0))
	limits := Limits{Open: 65_536, OpenOfSource: 50_000, Silent: 1_024, Begun: begun, BegunOfSource: begun / 2}
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err == nil {
		limits.Open = int(min(uint64(limits.Open), max(files.Cur, 2*descriptors)-descriptors))
	}
	return limits
}

// DefaultVain bounds the handshakes of one source that prove nothing, to half a hundredth of each processor. A client
// that connects and leaves has cost half a millisecond of arithmetic and a tenth of a megabyte of garbage.
func DefaultVain() Rate {
	processors := runtime.GOMAXPROCS(0)
	return Rate{PerSecond: 5 * processors, Burst: 128 * processors}
}

const (
	// silentFor is how long a connection may say nothing, and begunFor how long its handshake may take.
	silentFor = 5 * time.Second
	begunFor  = 5 * time.Second
	// longWait is when a line is longer than clients are patient.
	longWait = time.Second

	// acceptPause is how long the listener rests after an error of the listener inside.
	acceptPause = 100 * time.Millisecond
)

// The counters.
const (
	countSilent  = "entrance.silent"  // connections closed because they said nothing
	countRefused = "entrance.refused" // connections closed because there was no room for them
	countGone    = "entrance.gone"    // connections whose client hung up while they waited
	countBegun   = "entrance.begun"   // handshakes begun
)

// Options configure a listener. All but Limits may be left out.
type Options struct {
	Limits Limits
	Vain   Rate // of one source's handshakes that prove nothing
	Log    func(format string, args ...any)
	Count  func(name string, n int64)
	Now    func() time.Time
	// Gone reports whether the client of a connection has hung up. The default asks the kernel.
	Gone func(net.Conn) bool
}

// Listener hands on what another listener accepts, as fast as handshakes can be made.
type Listener struct {
	net.Listener
	o     Options
	start sync.Once

	mu      sync.Mutex
	arrived sync.Cond // next, failed or closed has changed
	sources map[netip.Prefix]*source
	open    int
	silent  list.List // of *Conn, the oldest first
	begun   int
	ring    list.List // of *source in which somebody waits; the next one's turn is first
	looking bool      // a timer is set to look for sources that may go on
	next    []*Conn   // may begin, and Accept has not returned them yet
	failed  error     // of the listener inside, which Accept has not returned yet
	closed  bool
	said    Repeats
}

// New makes a listener.
func New(at net.Listener, o Options) *Listener {
	if o.Limits == (Limits{}) {
		o.Limits = DefaultLimits()
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	if o.Count == nil {
		o.Count = func(string, int64) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Gone == nil {
		o.Gone = hungUp
	}
	l := &Listener{Listener: at, o: o, sources: map[netip.Prefix]*source{}}
	l.arrived.L = &l.mu
	return l
}

// Accept returns the next connection whose handshake may begin.
func (l *Listener) Accept() (net.Conn, error) {
	l.start.Do(func() { go l.accepting() })
	l.mu.Lock()
	defer l.mu.Unlock()
	for ; ; l.arrived.Wait() {
		for len(l.next) > 0 {
			c := l.next[0]
			if l.next = l.next[1:]; c.state == begun {
				return c, nil
			}
		}
		if l.closed {
			return nil, net.ErrClosed
		}
		if err := l.failed; err != nil {
			l.failed = nil
			return nil, err
		}
	}
}

// accepting takes in all that comes, until the listener is closed.
func (l *Listener) accepting() {
	for {
		raw, err := l.Listener.Accept()
		if err == nil {
			l.comes(raw)
			continue
		}
		l.mu.Lock()
		l.failed = err
		over := l.closed || errors.Is(err, net.ErrClosed)
		l.arrived.Signal()
		l.mu.Unlock()
		if over {
			return
		}
		time.Sleep(acceptPause)
	}
}

// comes takes in one connection.
func (l *Listener) comes(raw net.Conn) {
	c := l.admit(raw)
	if c == nil {
		raw.Close()
		return
	}
	go c.listens()
	l.mu.Lock()
	full := l.silent.Len() > l.o.Limits.Silent/2
	l.mu.Unlock()
	if full { // those before it may have spoken, and nobody has had time to hear them
		runtime.Gosched()
	}
}

// Close closes the listener and every connection that waits.
func (l *Listener) Close() error {
	err := l.Listener.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	of := []*list.List{&l.silent}
	for _, s := range l.sources { //order: all of them are closed
		of = append(of, &s.line)
	}
	for _, in := range of {
		for in.Len() > 0 {
			_ = l.leave(in.Front().Value.(*Conn))
		}
	}
	for _, c := range l.next {
		_ = l.leave(c)
	}
	l.next = nil
	l.arrived.Broadcast()
	return err
}

// admit takes a connection in as a silent one; nil: there are too many.
func (l *Listener) admit(raw net.Conn) *Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.source(sourceOf(raw))
	defer l.forget(s)
	if l.closed {
		return nil
	}
	if l.open >= l.o.Limits.Open || s.open >= l.o.Limits.OpenOfSource {
		l.o.Count(countRefused, 1)
		l.say(s, "Refused a connection from %s: it has %d of the %d open connections", s, s.open, l.open)
		return nil
	}
	if l.silent.Len() >= l.o.Limits.Silent {
		first := l.silent.Front().Value.(*Conn)
		l.o.Count(countSilent, 1)
		l.say(first.from, "Closed silent connections from %s: it had %d open, and %d connections in total "+
			"were silent",
			first.from, first.from.open, l.silent.Len())
		_ = l.leave(first)
	}
	c := &Conn{Conn: raw, listener: l, from: s}
	l.open, s.open = l.open+1, s.open+1
	c.stands(&l.silent)
	return c
}

// say logs what a peer can cause, so no line of the same kind is logged again at once for its source.
func (l *Listener) say(of *source, format string, args ...any) {
	if l.said.First(format+of.String(), l.o.Now()) {
		l.o.Log(format, args...)
	}
}
