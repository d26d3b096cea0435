// Package connlimit limits connections before the scheduler's handshakes. It limits the cost of unauthenticated
// peers, in total and per source. Other connections wait. The package reads only the first byte of a connection and
// knows no certificates.
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

// This file implements the listener: how it accepts connections, and how many of each kind it permits.
//
// A connection is silent until its first byte. Then it waits in the list of its source, then its handshake runs,
// and then it has entered. A waiting connection costs a socket and less than 1 kB: it has no goroutine, and the
// server does not know it yet. Large numbers of connections, such as of a complete cluster after a restart,
// therefore wait before the expensive part. A rejected alternative is to refuse the surplus. Each refused client
// connects again, and on a slow host the new attempts used all of the CPU, so that no client succeeded.
//
// If there are too many silent connections, the oldest is closed. A correct client sends data immediately after it
// connects. If the newest were refused instead, a thousand silent connections could block all others.

// Limits limits the connections of each kind, in total and per source.
type Limits struct {
	Open, OpenOfSource   int // of all kinds
	Silent               int
	Begun, BegunOfSource int // handshakes in progress
}

// descriptors is the number of file descriptors that remain for other files of the scheduler.
const descriptors = 512

// DefaultLimits returns the limits of a scheduler. A complete cluster may use one address. A source may therefore
// have as many open connections as a large cluster has nodes. The limit of handshakes in progress depends on the
// CPUs: more handshakes would only take longer.
func DefaultLimits() Limits {
	begun := max(256, 64*runtime.GOMAXPROCS(0))
	limits := Limits{Open: 65_536, OpenOfSource: 50_000, Silent: 1_024, Begun: begun, BegunOfSource: begun / 2}
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err == nil {
		limits.Open = int(min(uint64(limits.Open), max(files.Cur, 2*descriptors)-descriptors))
	}
	return limits
}

// DefaultVain returns the limit of failed handshakes per source: about 0.5 % of each CPU. A client that connects
// and disconnects costs about 0.5 ms of CPU time and 0.1 MB of garbage.
func DefaultVain() Rate {
	processors := runtime.GOMAXPROCS(0)
	return Rate{PerSecond: 5 * processors, Burst: 128 * processors}
}

const (
	// silentFor limits the time to the first byte, and begunFor the time of the handshake.
	silentFor = 5 * time.Second
	begunFor  = 5 * time.Second
	// longWait is the waiting time after which the newest connection of a source is served first.
	longWait = time.Second

	// acceptPause is the pause after an error of the underlying listener.
	acceptPause = 100 * time.Millisecond
)

// These are the names of the counters.
const (
	countSilent  = "entrance.silent"  // closed without a first byte
	countRefused = "entrance.refused" // closed because a limit was reached
	countGone    = "entrance.gone"    // closed by the client while waiting
	countBegun   = "entrance.begun"   // handshakes started
)

// Options holds the settings of a listener. Only Limits is required.
type Options struct {
	Limits Limits
	Vain   Rate // limit of failed handshakes per source
	Log    func(format string, args ...any)
	Count  func(name string, n int64)
	Now    func() time.Time
	// Gone reports whether the client has closed a connection. The default asks the kernel.
	Gone func(net.Conn) bool
}

// Listener passes on the connections of another listener at the speed of the handshakes.
type Listener struct {
	net.Listener
	o     Options
	start sync.Once

	mu      sync.Mutex
	arrived sync.Cond // next, failed or closed has changed
	sources map[netip.Prefix]*source
	open    int
	silent  list.List // of *Conn, oldest first
	begun   int
	ring    list.List // of *source with waiting connections, in the order of their turns
	looking bool      // a timer will call moves
	next    []*Conn   // ready for Accept
	failed  error     // error of the underlying listener for Accept
	closed  bool
	said    Repeats
}

// New creates a listener.
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

// Accept returns the next connection whose handshake may start.
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

// accepting accepts connections until the listener is closed.
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

// comes accepts one connection.
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
	if full { // lets the goroutines of earlier connections read their first bytes
		runtime.Gosched()
	}
}

// Close closes the listener and all waiting connections.
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

// admit adds a new connection as a silent one, or returns nil if a limit is reached.
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
		l.say(s, "Refused a connection from %s, which has %d of the %d open connections", s, s.open, l.open)
		return nil
	}
	if l.silent.Len() >= l.o.Limits.Silent {
		first := l.silent.Front().Value.(*Conn)
		l.o.Count(countSilent, 1)
		l.say(first.from, "Closed silent connections from %s, which had %d open; %d connections in total "+
			"were silent",
			first.from, first.from.open, l.silent.Len())
		_ = l.leave(first)
	}
	c := &Conn{Conn: raw, listener: l, from: s}
	l.open, s.open = l.open+1, s.open+1
	c.stands(&l.silent)
	return c
}

// say logs a line that a peer can cause. It suppresses lines of the same kind and source for a while.
func (l *Listener) say(of *source, format string, args ...any) {
	if l.said.First(format+of.String(), l.o.Now()) {
		l.o.Log(format, args...)
	}
}
