package connlimit

import (
	"container/list"
	"net"
	"sync/atomic"
	"time"

	"github.com/yi-json/synapse/cluster/credential"
)

// This file implements one connection before authentication.

// state is the state of a connection.
type state int

const (
	silent state = iota
	waiting
	begun
	entered
	left
)

// Conn is an accepted connection. The server calls Entered after authentication.
type Conn struct {
	net.Conn
	listener *Listener
	from     *source
	first    [1]byte // first byte, read to detect that the client sends data
	unread   atomic.Bool

	// The listener's lock guards the fields below.
	state    state
	in       *list.List // list of silent connections or of its source; nil: in no list
	place    *list.Element
	heard    time.Time   // when it started to wait
	deadline *time.Timer // for its handshake
}

var _ credential.Entrant = (*Conn)(nil)

// listens waits for the first byte of a connection.
func (c *Conn) listens() {
	_ = c.Conn.SetReadDeadline(time.Now().Add(silentFor)) // if this fails, Read fails too
	n, err := c.Conn.Read(c.first[:])
	if n == 0 || err != nil || c.Conn.SetReadDeadline(time.Time{}) != nil {
		c.Close()
		return
	}
	c.unread.Store(true)
	c.listener.speaks(c)
}

// Read reads from the connection, starting with the byte that listens has read.
func (c *Conn) Read(b []byte) (int, error) {
	if len(b) > 0 && c.unread.Swap(false) {
		b[0] = c.first[0]
		return 1, nil
	}
	return c.Conn.Read(b)
}

// Entered reports that the connection is authenticated. It then counts only as an open connection.
func (c *Conn) Entered() {
	l := c.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.state == begun {
		l.ends(c)
		c.state = entered
		l.moves()
	}
}

// Close closes the connection and frees its place.
func (c *Conn) Close() error {
	l := c.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.leave(c)
	l.moves()
	return err
}

// CloseWrite closes the sending direction, if the connection supports this.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(credential.HalfCloser); ok {
		return half.CloseWrite()
	}
	return c.Conn.Close()
}

// stands appends the connection to a list.
func (c *Conn) stands(in *list.List) { c.in, c.place = in, in.PushBack(c) }

// goes removes the connection from its list, if any.
func (c *Conn) goes() {
	if c.in != nil {
		c.in.Remove(c.place)
		c.in, c.place = nil, nil
	}
}

// leave closes a connection and removes it from all counts. The caller holds the lock.
func (l *Listener) leave(c *Conn) error {
	if c.state == left {
		return nil
	}
	c.goes()
	if c.state == begun {
		l.ends(c)
		c.from.vain.Owe(1, l.o.Vain.Cost(), l.o.Now())
	}
	c.state = left
	l.open, c.from.open = l.open-1, c.from.open-1
	l.forget(c.from)
	return c.Conn.Close()
}

// ends removes a connection from the handshakes in progress. The caller holds the lock.
func (l *Listener) ends(c *Conn) {
	c.deadline.Stop()
	l.begun, c.from.begun = l.begun-1, c.from.begun-1
}

// speaks adds a connection that has sent data to the ones that wait for a handshake.
func (l *Listener) speaks(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.state != silent {
		return // already closed
	}
	c.goes()
	c.state, c.heard = waiting, l.o.Now()
	c.stands(&c.from.line)
	if c.from.place == nil {
		c.from.place = l.ring.PushBack(c.from)
	}
	l.moves()
}

// moves starts handshakes up to the limit. It serves sources in turn, so that many connections from one address do
// not delay the others. A source with too many failed handshakes waits; handshakes in progress count as failed. The
// caller holds the lock.
func (l *Listener) moves() {
	now := l.o.Now()
	for tries := l.ring.Len(); tries > 0 && l.begun < l.o.Limits.Begun && !l.closed; tries-- {
		s := l.ring.Front().Value.(*source)
		l.ring.MoveToBack(s.place)
		wait := s.vain.Wait(l.o.Vain.Cost(), l.o.Vain.Burst-s.begun, now)
		switch {
		case s.line.Len() == 0:
			l.ring.Remove(s.place)
			s.place = nil
			l.forget(s)
		case wait > 0:
			l.looks(wait)
		case s.begun < l.o.Limits.BegunOfSource:
			l.begins(s, now)
			tries = l.ring.Len() + 1
		}
	}
}

// looks calls moves again after a while. The caller holds the lock.
func (l *Listener) looks(wait time.Duration) {
	if l.looking {
		return
	}
	l.looking = true
	time.AfterFunc(wait, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.looking = false
		l.moves()
	})
}

// begins passes the next connection of a source to the server. The handshake has a deadline, which limits how long
// a slow client delays the next ones. The caller holds the lock.
func (l *Listener) begins(s *source, now time.Time) {
	c := s.next(now)
	c.goes()
	if l.o.Gone(c.Conn) {
		l.o.Count(countGone, 1)
		_ = l.leave(c)
		return
	}
	c.state = begun
	l.begun, s.begun = l.begun+1, s.begun+1
	c.deadline = time.AfterFunc(begunFor, c.stalls)
	l.o.Count(countBegun, 1)
	l.next = append(l.next, c)
	l.arrived.Signal()
}

// next returns the next connection of a source: usually the oldest. If the oldest has waited for long, it returns
// the newest. Clients give up after a while, so under overload the oldest client is about to give up, and its
// handshake would be wasted.
func (s *source) next(now time.Time) *Conn {
	c := s.line.Front().Value.(*Conn)
	if now.Sub(c.heard) >= longWait {
		c = s.line.Back().Value.(*Conn)
	}
	return c
}

// stalls closes a connection whose handshake has taken too long.
func (c *Conn) stalls() {
	l := c.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.state != begun {
		return
	}
	l.o.Count(countRefused, 1)
	l.say(c.from, "Closed a connection from %s: its handshake took longer than %s", c.from, begunFor)
	_ = l.leave(c)
	l.moves()
}
