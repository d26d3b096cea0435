package entrance

import (
	"net"
	"runtime"
	"slices"
	"time"
)

// This file owns the line in which a source waits that has made many handshakes for nothing. Whoever connects, lets
// itself be proved and goes has cost half a millisecond of arithmetic and a tenth of a megabyte that is collected next;
// a few such clients made honest ones wait five times as long. One of which something comes, as a call or a link
// that is let in, a certificate that is signed or a page that is shown, gets back what its handshake took: so a whole
// cluster behind one address comes back as fast as it is served.

// Rate is so many a second, and so many at once.
type Rate struct{ PerSecond, AtOnce int }

// DefaultVain is what handshakes for nothing may take of the machine: half a hundredth of each processor.
func DefaultVain() Rate {
	processors := runtime.GOMAXPROCS(0)
	return Rate{PerSecond: 5 * processors, AtOnce: 128 * processors}
}

// Free is the rate of handshakes that cost nothing, as where nobody proves anything.
func Free() Rate { return Rate{PerSecond: 1 << 20, AtOnce: 1 << 20} }

// cost is the time in which there is one.
func (r Rate) cost() time.Duration { return time.Second / time.Duration(max(1, r.PerSecond)) }

// begins has a handshake begin, or stand in line until its source may make another for nothing. The lock is held.
func (l *Listener) begins(c *Conn) {
	c.turn = make(chan struct{})
	c.from.line = append(c.from.line, c)
	l.moves(c.from)
}

// moves lets go on whose turn it is, and looks again when it is the next one's. The lock is held.
func (l *Listener) moves(s *source) {
	cost, now := l.o.Vain.cost(), l.o.Now()
	if s.vain.Before(now) {
		s.vain = now
	}
	for len(s.line) > 0 {
		if wait := s.vain.Add(cost).Sub(now) - cost*time.Duration(l.o.Vain.AtOnce); wait > 0 {
			l.movesAfter(s, wait)
			return
		}
		c := s.line[0]
		s.line = s.line[1:]
		s.vain = s.vain.Add(cost)
		c.since, c.paid = now, true
		close(c.turn)
	}
}

// movesAfter looks again after a while, unless somebody does.
func (l *Listener) movesAfter(s *source, wait time.Duration) {
	if s.moving {
		return
	}
	s.moving = true
	time.AfterFunc(wait, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		s.moving = false
		l.moves(s)
	})
}

// refund gives back what the handshake of a connection took that is good for something. The lock is held.
func (l *Listener) refund(c *Conn) {
	if c.paid {
		c.paid = false
		c.from.vain = c.from.vain.Add(-l.o.Vain.cost())
		l.moves(c.from)
	}
}

// leavesLine takes a connection that is closed out of the line. The lock is held.
func (s *source) leavesLine(c *Conn) {
	if at := slices.Index(s.line, c); at >= 0 {
		s.line = slices.Delete(s.line, at, at+1)
		close(c.turn)
	}
}

// waits has a connection wait for its turn.
func (c *Conn) waits() error {
	<-c.turn
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	if c.gone {
		return net.ErrClosed
	}
	return nil
}
