package connlimit

import (
	"container/list"
	"net"
	"sync/atomic"
	"time"
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

// Conn is a connection. The server calls Entered when it is proved, and Served once something comes of it.
type Conn struct {
	net.Conn
	listener *Listener
	from     *source
	first    [1]byte // what was read to know that the client speaks; Read gives it again
	unread   atomic.Bool
	served   atomic.Bool

	// The listener guards the rest.
	state state
	place *list.Element // among the silent ones, or those whose handshake is under way
	heard time.Time     // when it began to wait
	since time.Time     // when its handshake began
	paid  bool          // its handshake counts among those that nothing has come of
}

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

// Served says that something has come of the connection, such as a call that was let in: its handshake was not for
// nothing, and its source is known from now on.
func (c *Conn) Served() {
	if c.served.Swap(true) {
		return
	}
	l := c.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	l.knows(c.from)
	l.refund(c)
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
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Conn.Close()
}

// leave closes a connection and takes it out of everything but its source's line, where a closed one is passed over.
// The lock is held.
func (l *Listener) leave(c *Conn) error {
	if c == nil || c.state == left {
		return nil
	}
	switch c.state {
	case silent:
		l.rises(c)
	case waiting:
		l.waiting, c.from.waiting = l.waiting-1, c.from.waiting-1
	case begun:
		l.ends(c)
	}
	c.state = left
	l.open, c.from.open = l.open-1, c.from.open-1
	l.forget(c.from)
	return c.Conn.Close()
}

// rises takes a connection out of the silent ones. The lock is held.
func (l *Listener) rises(c *Conn) {
	c.from.silent.Remove(c.place)
	c.place = nil
	l.silent--
}

// ends takes a connection out of those whose handshake is under way. The lock is held.
func (l *Listener) ends(c *Conn) {
	l.begun.Remove(c.place)
	c.place = nil
	c.from.begun--
	l.returns(c.from)
}
