package entrance

import (
	"fmt"
	"net"
	"syscall"
	"time"
)

// This file owns what becomes of one connection on its way in, and how many there may be unless somebody says so.

// descriptors are left to all else that a scheduler opens.
const descriptors = 512

// DefaultLimits are those of a scheduler. One source may be a whole cluster behind one address, so it may have as many
// open connections as a big one has machines; but of those that are not proved it has what a moment needs.
func DefaultLimits() Limits {
	limits := Limits{
		Open: 65_536, OpenOfSource: 32_768,
		Silent: 1_024, SilentOfSource: 512,
		Speaking: 512, SpeakingOfSource: 256,
	}
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err == nil {
		limits.Open = int(min(uint64(limits.Open), max(files.Cur, 2*descriptors)-descriptors))
	}
	return limits
}

// refusal is why a connection ends that found no room for its handshake.
type refusal struct{ text string }

func (r refusal) Error() string { return r.text }

// Unwrap says that it is closed, of which nobody has to tell again.
func (refusal) Unwrap() error { return net.ErrClosed }

// Read tells the listener when something is said for the first time.
func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n == 0 || c.heard.Load() {
		return n, err
	}
	c.heard.Store(true)
	old, why := c.listener.speaks(c)
	if old != nil {
		old.Conn.Close()
	}
	if why != "" {
		c.Close()
		return 0, refusal{why}
	}
	if c.turn != nil {
		if gone := c.waits(); gone != nil {
			return 0, gone
		}
	}
	return n, err
}

// speaks gives a connection a place among those whose handshake is under way. Old is the one that has lost it; why says
// that there is none.
func (l *Listener) speaks(c *Conn) (old *Conn, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.in != &c.from.silent {
		return nil, "" // it is closed, or there was no need
	}
	l.rise(c)
	s, now := c.from, l.o.Now()
	if s.due.Before(now) {
		s.due = now
	}
	full := s.speaking.Len() >= l.o.Limits.SpeakingOfSource
	switch {
	case s.due.Sub(now) >= handshakeBurst:
		return nil, l.refuse(c, "Refused a connection from %s: it begins more than %d handshakes a second; it may come again",
			s, int(time.Second/handshakeCost))
	case full || l.speaking >= l.o.Limits.Speaking:
		if old = s.stalled(now); old == nil {
			return nil, l.refuse(c,
				"Refused a connection from %s: %d of its handshakes are under way, %d of all; it may come again",
				s, s.speaking.Len(), l.speaking)
		}
		l.leave(old)
		l.turnedAway(countRefused)
	}
	s.due = s.due.Add(handshakeCost)
	l.stand(c, &s.speaking)
	l.begins(c)
	return old, ""
}

// refuse says why a connection finds no room.
func (l *Listener) refuse(c *Conn, format string, args ...any) string {
	l.turnedAway(countRefused)
	l.say(c.from, format, args...)
	return fmt.Sprintf(format, args...)
}

// stalled is whoever has been in the middle of a handshake for longest, if that is too long; else nil.
func (s *source) stalled(now time.Time) *Conn {
	if s.speaking.Len() == 0 {
		return nil
	}
	c := s.speaking.Front().Value.(*Conn)
	if c.since.IsZero() || now.Sub(c.since) < stalled {
		return nil
	}
	return c
}

// Entered says that the connection is proved: it counts as an open one alone from here on.
func (c *Conn) Entered() {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.listener.rise(c)
}

// Served says that something has come of the connection, as a call that was let in: its handshake was not for nothing.
func (c *Conn) Served() {
	if c.served.Swap(true) {
		return
	}
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.listener.refund(c)
}

// Close gives its place back.
func (c *Conn) Close() error {
	c.listener.mu.Lock()
	c.listener.leave(c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite ends what is sent alone, where the connection can.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Conn.Close()
}
