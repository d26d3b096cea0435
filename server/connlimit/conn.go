package connlimit

import (
	"container/list"
	"net"
	"sync/atomic"
	"time"

	"github.com/yi-json/synapse/cluster/credential"
)

// This file owns one connection on its way in.

// state says how far a connection has come.
type state int

const (
	silent state = iota
	waiting
	begun
	entered
	left
)

// Conn is a connection. The server calls Entered when it is proved.
type Conn struct {
	net.Conn
	listener *Listener
	from     *source
	first    [1]byte // what was read to know that the client speaks; Read gives it again
	unread   atomic.Bool

	// The listener guards the rest.
	state    state
	in       *list.List // of the silent ones, or its source's line; nil: in neither
	place    *list.Element
	heard    time.Time   // when it began to wait
	deadline *time.Timer // of its handshake
}

var _ credential.Entrant = (*Conn)(nil)

// listens waits for the first byte of a connection.
func (c *Conn) listens() {
	_ = c.Conn.SetReadDeadline(time.Now().Add(silentFor)) // if it fails, Read does
	n, err := c.Conn.Read(c.first[:])
	if n == 0 || err != nil || c.Conn.SetReadDeadline(time.Time{}) != nil {
		c.Close()
		return
	}
	c.unread.Store(true)
	c.listener.speaks(c)
}

// Read reads, the byte that was read already first.
func (c *Conn) Read(b []byte) (int, error) {
	if len(b) > 0 && c.unread.Swap(false) {
		b[0] = c.first[0]
		return 1, nil
	}
	return c.Conn.Read(b)
}

// Entered says that the connection is proved: from here on it counts as an open one alone.
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

// Close gives its place back.
func (c *Conn) Close() error {
	l := c.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.leave(c)
	l.moves()
	return err
}

// CloseWrite ends what is sent alone, if the connection can.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(credential.HalfCloser); ok {
		return half.CloseWrite()
	}
	return c.Conn.Close()
}

// stands puts a connection behind all others of a list.
func (c *Conn) stands(in *list.List) { c.in, c.place = in, in.PushBack(c) }

// goes takes a connection out of its list, if it is in one.
func (c *Conn) goes() {
	if c.in != nil {
		c.in.Remove(c.place)
		c.in, c.place = nil, nil
	}
}

// leave closes a connection and takes it out of everything. The lock is held.
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

// ends takes a connection out of those whose handshake is under way. The lock is held.
func (l *Listener) ends(c *Conn) {
	c.deadline.Stop()
	l.begun, c.from.begun = l.begun-1, c.from.begun-1
}

// speaks has a connection that has said something wait for its handshake.
func (l *Listener) speaks(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.state != silent {
		return // it is closed
	}
	c.goes()
	c.state, c.heard = waiting, l.o.Now()
	c.stands(&c.from.line)
	if c.from.place == nil {
		c.from.place = l.ring.PushBack(c.from)
	}
	l.moves()
}

// moves begins handshakes for as long as there is room for one more. Sources take turns, so that a crowd at one address
// does not hold up the others. One that has proved nothing too often waits; what is
// under way counts as such. The lock is held.
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

// looks has the lines move again after a while. The lock is held.
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

// begins hands the next of a source's line to the server. Its handshake has a deadline: a client that is slow holds up
// those behind it for that long. The lock is held.
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

// next returns whose turn it is of those that wait in a source's line. The first to come is the first to go. If it has
// waited for long, the line is longer than clients are patient, and the last to come goes: the first is about to give
// up, and a scheduler that takes it each time does all of its work for clients that have gone by the end of it.
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
