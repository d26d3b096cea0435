package connlimit

import (
	"container/list"
	"net"
	"net/netip"
	"time"
)

// This file owns sources: where connections come from, and what is remembered of each.

// class says what is known of who is behind a source.
type class int

const (
	// known sources have proved themselves lately: a call or a link of theirs was accepted, or a node that is a member
	// announced the address.
	known class = iota
	strange
)

const (
	// knownFor is how long a source is known after something came of one of its connections.
	knownFor = 24 * time.Hour
	// maxSources is how many sources without a connection are remembered. Beyond that the strange ones are forgotten as
	// soon as nothing is left to know of them, and at twice as many the known ones too.
	maxSources = 65_536
)

// source is an address. For IPv6 it is a network of 64 bits, because one machine has the whole of it.
type source struct {
	name     netip.Prefix
	open     int
	silent   list.List // of *Conn, the oldest first
	line     []*Conn   // wait for a handshake, the first to come first; nil: its turn came out of order
	waiting  int       // of line, without the nil ones
	begun    int
	due      time.Time     // when all its handshakes would have begun at the rate allowed
	vain     time.Time     // the same for handshakes that nothing has come of
	servedAt time.Time     // when something last came of one; zero: never
	ring     *list.List    // the ring of its class; nil: nobody waits, or it must wait itself
	place    *list.Element // in ring
	resting  bool          // a timer will put it into its ring again
}

// sourceOf returns the source that a connection comes from. Connections without an address are one source.
func sourceOf(raw net.Conn) netip.Prefix {
	if tcp, ok := raw.RemoteAddr().(*net.TCPAddr); ok {
		return prefixOf(tcp.AddrPort().Addr())
	}
	return netip.Prefix{}
}

func prefixOf(address netip.Addr) netip.Prefix {
	address = address.Unmap().WithZone("")
	prefix, _ := address.Prefix(min(address.BitLen(), 64)) // the length fits
	return prefix
}

// String is the source as the log has it.
func (s *source) String() string {
	if s.name.IsSingleIP() || !s.name.IsValid() {
		return s.name.Addr().String()
	}
	return s.name.String()
}

// class is the one whose turn the source waits for.
func (s *source) class(now time.Time) class {
	if !s.servedAt.IsZero() && now.Sub(s.servedAt) < knownFor {
		return known
	}
	return strange
}

// knows makes a source a known one. If somebody waits there, it goes into the other ring. The lock is held.
func (l *Listener) knows(s *source) {
	now := l.o.Now()
	was := s.class(now)
	if s.servedAt = now; was != known && s.ring != nil {
		s.leavesRing()
		l.returns(s)
	}
}

// source finds a source, or makes it.
func (l *Listener) source(at netip.Prefix) *source {
	s := l.sources[at]
	if s == nil {
		if len(l.sources) > l.open+maxSources {
			l.forgetAll()
		}
		s = &source{name: at}
		l.sources[at] = s
	}
	return s
}

// forget lets go of a source of which nothing is left to know.
func (l *Listener) forget(s *source) {
	now := l.o.Now()
	keep := s.class(now) == known && len(l.sources) <= l.open+2*maxSources
	if s.open == 0 && !s.due.After(now) && !s.vain.After(now) && !keep {
		delete(l.sources, s.name)
	}
}

// forgetAll lets go of all sources that were kept for their rate alone, and need it no more.
func (l *Listener) forgetAll() {
	for _, s := range l.sources { //order: each is looked at alone
		l.forget(s)
	}
}
