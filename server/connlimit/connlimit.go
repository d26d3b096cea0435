// Package connlimit limits connections before a scheduler's handshakes. It bounds what a peer can cost before the peer
// has proved its identity, in total and per source, and lets everybody else wait. It reads one byte of what a peer
// sends, and knows no certificate.
package connlimit

import (
	"container/list"
	"errors"
	"fmt"
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
	Open, OpenOfSource       int // of all kinds
	Silent, SilentOfSource   int
	Waiting, WaitingOfSource int // in line for a handshake
	Begun, BegunOfSource     int // handshakes under way
}

// descriptors are left to everything else that a scheduler opens.
const descriptors = 512

// DefaultLimits returns the limits of a scheduler. One source may be a whole cluster behind one address, so it may have
// as many open and waiting connections as a large cluster has nodes. Handshakes under way are bounded by the
// processors: more of them would only take longer each.
func DefaultLimits() Limits {
	begun := max(256, 64*runtime.GOMAXPROCS(0))
	limits := Limits{
		Open: 65_536, OpenOfSource: 50_000,
		Silent: 1_024, SilentOfSource: 512,
		Waiting: 65_536, WaitingOfSource: 50_000,
		Begun: begun, BegunOfSource: begun / 2,
	}
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err == nil {
		limits.Open = int(min(uint64(limits.Open), max(files.Cur, 2*descriptors)-descriptors))
	}
	return limits
}

const (
	// silentFor is how long a connection may say nothing.
	silentFor = 5 * time.Second
	// stalledAfter is when a handshake under way may have to make room for the next.
	stalledAfter = 3 * time.Second

	// crowded is how many connections must be turned away for a crowd. The crowd has gone when none was for calmAfter.
	crowded   = 1000
	calmAfter = 10 * time.Second

	// quietFor is how long the same line is not logged again for a source. It is remembered for maxTold lines.
	quietFor = 10 * time.Second
	maxTold  = 1024

	// acceptPause bounds how long the listener rests after an error of the listener inside.
	minAcceptPause = 5 * time.Millisecond
	maxAcceptPause = time.Second
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
	Vain   Rate // of one source's handshakes that nothing comes of; zero: DefaultVain
	Log    func(format string, args ...any)
	Count  func(name string, n int64)
	Now    func() time.Time
	// Calm is called when a crowd has come and gone, to give back what it took.
	Calm func()
	// Gone reports whether the client of a connection has hung up. The default asks the kernel.
	Gone func(net.Conn) bool
}

// Listener hands on what another listener accepts, as fast as handshakes can be made.
type Listener struct {
	net.Listener
	o       Options
	all     Rate // of one source's handshakes
	start   sync.Once
	arrived chan struct{} // has a value when next or failed may have changed

	mu      sync.Mutex
	sources map[netip.Prefix]*source
	open    int
	silent  int
	waiting int
	begun   list.List    // of *Conn whose handshake is under way, the oldest first
	rings   [2]list.List // of *source in which somebody waits, by class; the next one's turn is first
	turns   int          // turns given so far while both classes waited
	looking bool         // a timer is set to look for stalled handshakes
	next    []*Conn      // may begin, and Accept has not returned them yet
	failed  error        // of the listener inside, which Accept has not returned yet
	closed  bool
	told    map[string]time.Time
	crowd   int  // connections that were turned away since it was calm
	watched bool // a goroutine waits until it is calm
}

// New makes a listener.
func New(at net.Listener, o Options) *Listener {
	if o.Limits == (Limits{}) {
		o.Limits = DefaultLimits()
	}
	if o.Vain == (Rate{}) {
		o.Vain = DefaultVain()
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
	return &Listener{
		Listener: at, o: o, all: defaultAll(), arrived: make(chan struct{}, 1), sources: map[netip.Prefix]*source{},
		told: map[string]time.Time{},
	}
}

// Know says that nodes of the cluster have these addresses.
func (l *Listener) Know(addresses ...netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, address := range addresses {
		l.knows(l.source(prefixOf(address)))
	}
}

// Accept returns the next connection whose handshake may begin.
func (l *Listener) Accept() (net.Conn, error) {
	l.start.Do(func() { go l.accepting() })
	for {
		c, err := l.takes()
		if err != nil {
			return nil, err
		}
		if c != nil {
			return c, nil
		}
		<-l.arrived
	}
}

// takes returns what Accept returns now; nil and nil: there is nothing yet.
func (l *Listener) takes() (*Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.next) > 0 {
		c := l.next[0]
		if l.next = l.next[1:]; c.state == begun {
			return c, nil
		}
	}
	if l.closed {
		return nil, net.ErrClosed
	}
	err := l.failed
	l.failed = nil
	return nil, err
}

// wakes has Accept look again.
func (l *Listener) wakes() {
	select {
	case l.arrived <- struct{}{}:
	default:
	}
}

// accepting takes in all that comes, until the listener is closed.
func (l *Listener) accepting() {
	pause := time.Duration(0)
	for {
		raw, err := l.Listener.Accept()
		if err == nil {
			pause = 0
			l.comes(raw)
			continue
		}
		l.mu.Lock()
		closed := l.closed
		l.failed = err
		l.mu.Unlock()
		l.wakes()
		if closed || errors.Is(err, net.ErrClosed) {
			return
		}
		pause = min(max(2*pause, minAcceptPause), maxAcceptPause)
		time.Sleep(pause)
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
	full := c.from.silent.Len() > l.o.Limits.SilentOfSource/2
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
	for _, s := range l.sources { //order: all of them are closed
		for s.silent.Len() > 0 {
			l.leave(s.silent.Front().Value.(*Conn))
		}
		for _, c := range s.line {
			l.leave(c)
		}
	}
	for _, c := range l.next {
		l.leave(c)
	}
	l.next = nil
	l.wakes()
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
		l.turnedAway(countRefused)
		l.say(s, "Refused a connection from %s: it has %d of the %d open connections", s, s.open, l.open)
		return nil
	}
	c := &Conn{Conn: raw, listener: l, from: s}
	l.open, s.open = l.open+1, s.open+1
	from := s
	if l.silent >= l.o.Limits.Silent && s.silent.Len() < l.o.Limits.SilentOfSource {
		from = l.mostSilent()
	}
	if l.silent >= l.o.Limits.Silent || s.silent.Len() >= l.o.Limits.SilentOfSource {
		l.turnedAway(countSilent)
		l.say(from, "Closed connections from %s that said nothing: it had %d of them", from, from.silent.Len())
		l.leave(from.silent.Front().Value.(*Conn))
	}
	c.place = s.silent.PushBack(c)
	l.silent++
	return c
}

// mostSilent is the source with most silent connections. If several have as many, it is any of them.
func (l *Listener) mostSilent() (most *source) {
	for _, s := range l.sources { //order: of those with as many, any will do
		if most == nil || s.silent.Len() > most.silent.Len() {
			most = s
		}
	}
	return most
}

// turnedAway counts a connection that found no room, or lost it. If they are a crowd, a goroutine waits for its end:
// what it took is garbage then, and a scheduler that has little to do would collect it minutes later.
func (l *Listener) turnedAway(count string) {
	l.o.Count(count, 1)
	if l.crowd++; l.crowd < crowded || l.watched || l.o.Calm == nil {
		return
	}
	l.watched = true
	go func() {
		for !l.calm() {
			time.Sleep(calmAfter)
		}
		l.o.Calm()
	}()
}

// calm reports whether nobody was turned away since it was last asked, and barely anybody waits.
func (l *Listener) calm() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	over := l.crowd == 0 && l.silent+l.waiting+l.begun.Len() < crowded/10
	l.crowd, l.watched = 0, !over
	return over
}

// say logs what a peer can cause, so the same line is not logged again at once for its source.
func (l *Listener) say(of *source, format string, args ...any) {
	key, now := format+of.String(), l.o.Now()
	if at, ok := l.told[key]; ok && now.Sub(at) < quietFor && now.Sub(at) >= 0 {
		return
	}
	if len(l.told) >= maxTold {
		clear(l.told)
	}
	l.told[key] = now
	l.o.Log("%s", fmt.Sprintf(format, args...))
}
