// Package entrance is what stands before a scheduler's handshakes: it bounds what a peer can cost that has not proved
// its identity, in all and from each source. It reads nothing of what peers say, and knows no certificate.
package entrance

import (
	"container/list"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// This file owns who is let wait for a handshake, and who goes when there is no room.
//
// A connection is silent until its first byte, speaks until it is proved, and has entered then. Where there is no room
// for another, the one goes that has been silent for longest: a client speaks as soon as it is connected, so that an
// honest one is silent for a moment, whatever comes behind it. To refuse the newest instead would let the first
// thousand silent ones shut everybody out for as long as they like to come again.

// Limits are how many connections there may be of each kind, in all and from one source.
type Limits struct {
	Open, OpenOfSource         int // of all kinds
	Silent, SilentOfSource     int
	Speaking, SpeakingOfSource int // each of them costs a handshake
}

const (
	// stalled is after which time whoever speaks and is not proved may have to go for the next.
	stalled = 3 * time.Second
	// handshakeCost and handshakeBurst bound how often one source begins a handshake: at most 500 a second for longer
	// than the burst, which lets as many machines come back at once behind one address.
	handshakeCost  = 2 * time.Millisecond
	handshakeBurst = 4096 * handshakeCost

	// crowded is how many must be turned away for a crowd, and calmAfter how long none is, until it has gone.
	crowded   = 1000
	calmAfter = 10 * time.Second

	// quietFor is how long the same line is not said again of a source, and maxTold for how many that is remembered.
	quietFor = 10 * time.Second
	maxTold  = 1024
)

// The counters.
const (
	countSilent  = "entrance.silent"  // connections closed because they said nothing
	countRefused = "entrance.refused" // and those that found no room
)

// Options are what a listener is given. Log is told a line for people.
type Options struct {
	Limits Limits
	Vain   Rate // of one source's handshakes that nothing comes of; none: DefaultVain
	Log    func(format string, args ...any)
	Count  func(name string, n int64)
	Now    func() time.Time
	// Calm is called when a crowd has come and gone, to give back what it took; nil: nothing is.
	Calm func()
}

// Listener lets in what another one accepts.
type Listener struct {
	net.Listener
	o Options

	mu               sync.Mutex
	sources          map[netip.Prefix]*source
	open             int
	silent, speaking int
	told             map[string]time.Time
	crowd            int  // who was closed or refused since it was calm
	watched          bool // somebody waits until it is
}

// source is where connections come from: an address, or for IPv6 a network of 64 bits, which one machine has whole.
type source struct {
	name             netip.Prefix
	open             int
	silent, speaking list.List // of *Conn, the oldest first
	due              time.Time // when all handshakes of it would have begun at the rate allowed
	vain             time.Time // and when those that nothing has come of
	line             []*Conn   // wait until they may begin one, the first to come first
	moving           bool      // somebody looks after the line
}

// Conn is a connection. Whoever proves it calls Entered, and Served once something comes of it.
type Conn struct {
	net.Conn
	listener *Listener
	from     *source
	heard    atomic.Bool // it has said something
	served   atomic.Bool

	in    *list.List // of from, guarded by the listener; nil: it has entered, or is closed
	place *list.Element
	turn  chan struct{} // closed when its handshake may begin, or when it is gone
	since time.Time     // it may; zero: it stands in line
	paid  bool          // its handshake counts among those that nothing has come of
	gone  bool
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
	return &Listener{Listener: at, o: o, sources: map[netip.Prefix]*source{}, told: map[string]time.Time{}}
}

// Accept waits for a connection for which there is room.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c, old := l.admit(raw)
		if old != nil {
			old.Conn.Close()
		}
		if c != nil {
			return c, nil
		}
		raw.Close()
	}
}

// admit gives a connection its place; nil where there is none. Old is who has lost it.
func (l *Listener) admit(raw net.Conn) (c, old *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.source(raw)
	defer l.forget(s)
	if l.open >= l.o.Limits.Open || s.open >= l.o.Limits.OpenOfSource {
		l.turnedAway(countRefused)
		l.say(s, "Refused a connection from %s, which has %d of %d that are open", s, s.open, l.open)
		return nil, nil
	}
	c = &Conn{Conn: raw, listener: l, from: s}
	l.open, s.open = l.open+1, s.open+1
	switch {
	case s.silent.Len() >= l.o.Limits.SilentOfSource:
		old = s.oldest()
	case l.silent >= l.o.Limits.Silent:
		old = l.crowded().oldest()
	}
	if old != nil {
		l.turnedAway(countSilent)
		l.say(old.from, "Closed connections from %s that said nothing: it had %d of them",
			old.from, old.from.silent.Len())
		l.leave(old)
	}
	l.stand(c, &s.silent)
	return c, old
}

// source is the one that a connection comes from.
func (l *Listener) source(raw net.Conn) *source {
	var at netip.Prefix // of no address: all such are one
	if tcp, ok := raw.RemoteAddr().(*net.TCPAddr); ok {
		address := tcp.AddrPort().Addr().Unmap().WithZone("")
		at, _ = address.Prefix(min(address.BitLen(), 64)) // the length fits
	}
	s := l.sources[at]
	if s == nil {
		if len(l.sources) > l.open+maxTold {
			l.forgetAll()
		}
		s = &source{name: at}
		l.sources[at] = s
	}
	return s
}

// forget lets go of a source of which nothing is left to know.
func (l *Listener) forget(s *source) {
	if now := l.o.Now(); s.open == 0 && !s.due.After(now) && !s.vain.After(now) {
		delete(l.sources, s.name)
	}
}

// forgetAll lets go of all sources that were kept for their pace alone, and need it no more.
func (l *Listener) forgetAll() {
	for _, s := range l.sources { //order: each is looked at alone
		l.forget(s)
	}
}

// String is the source, for people.
func (s *source) String() string {
	if s.name.IsSingleIP() || !s.name.IsValid() {
		return s.name.Addr().String()
	}
	return s.name.String()
}

// oldest is whoever has been silent for longest.
func (s *source) oldest() *Conn { return s.silent.Front().Value.(*Conn) }

// crowded is the source with most silent connections; of several, any will do.
func (l *Listener) crowded() (most *source) {
	for _, s := range l.sources { //order: of those with as many, any will do
		if most == nil || s.silent.Len() > most.silent.Len() {
			most = s
		}
	}
	return most
}

// stand puts a connection into a list of its source.
func (l *Listener) stand(c *Conn, in *list.List) {
	c.in, c.place = in, in.PushBack(c)
	*l.sum(c)++
}

// sum is how many stand in such a list in all.
func (l *Listener) sum(c *Conn) *int {
	if c.in == &c.from.silent {
		return &l.silent
	}
	return &l.speaking
}

// rise takes a connection out of its list.
func (l *Listener) rise(c *Conn) {
	if c.in != nil {
		*l.sum(c)--
		c.in.Remove(c.place)
		c.in, c.place = nil, nil
	}
}

// leave takes a connection out of everything.
func (l *Listener) leave(c *Conn) {
	l.rise(c)
	if !c.gone {
		c.gone = true
		l.open, c.from.open = l.open-1, c.from.open-1
		c.from.leavesLine(c)
		l.forget(c.from)
	}
}

// turnedAway counts a connection that found no room, or lost it. Where they are a crowd, a goroutine waits for its end:
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

// calm reports whether nobody was turned away since it was last asked, and hardly anybody waits.
func (l *Listener) calm() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	over := l.crowd == 0 && l.silent+l.speaking < crowded/10
	l.crowd, l.watched = 0, !over
	return over
}

// say logs what a peer can cause, so the same is not said of its source again at once.
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
