package connlimit

import (
	"container/list"
	"net"
	"net/netip"
)

// This file manages sources of connections, and what is remembered of each.

// maxSources is the number of sources above which sources without connections and debts are forgotten.
const maxSources = 65_536

// source is an address, or a /64 network of IPv6, because one host usually has a complete /64.
type source struct {
	name  netip.Prefix
	open  int
	line  list.List // of *Conn that wait for a handshake, oldest first
	begun int
	vain  Bucket        // of its failed handshakes
	place *list.Element // in the ring; nil: not in the ring
}

// sourceOf returns the source of a connection. All connections without an address are one source.
func sourceOf(raw net.Conn) netip.Prefix {
	tcp, ok := raw.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	address := tcp.AddrPort().Addr().Unmap().WithZone("")
	prefix, _ := address.Prefix(min(address.BitLen(), 64)) // the length is valid
	return prefix
}

// String returns the source for log lines.
func (s *source) String() string {
	if s.name.IsSingleIP() || !s.name.IsValid() {
		return s.name.Addr().String()
	}
	return s.name.String()
}

// source finds or creates a source.
func (l *Listener) source(at netip.Prefix) *source {
	s := l.sources[at]
	if s == nil {
		if len(l.sources) > l.open+maxSources {
			for _, other := range l.sources { //order: each is checked separately
				l.forget(other)
			}
		}
		s = &source{name: at}
		l.sources[at] = s
	}
	return s
}

// forget removes a source that no longer needs to be remembered.
func (l *Listener) forget(s *source) {
	if s.open == 0 && s.place == nil && s.vain.Owes(l.o.Now()) == 0 {
		delete(l.sources, s.name)
	}
}
