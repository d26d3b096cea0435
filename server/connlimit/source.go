package connlimit

import (
	"container/list"
	"net"
	"net/netip"
)

// This file owns sources: where connections come from, and what is remembered of each.

// maxSources is how many sources without a connection are remembered, before those are forgotten that owe nothing.
const maxSources = 65_536

// source is an address. For IPv6 it is a network of 64 bits, because one machine has the whole of it.
type source struct {
	name  netip.Prefix
	open  int
	line  list.List // of *Conn that wait for a handshake, the first to come first
	begun int
	vain  Bucket        // of its handshakes that proved nothing
	place *list.Element // in the ring; nil: it is not there
}

// sourceOf returns the source that a connection comes from. Connections without an address are one source.
func sourceOf(raw net.Conn) netip.Prefix {
	tcp, ok := raw.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	address := tcp.AddrPort().Addr().Unmap().WithZone("")
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

// source finds a source, or makes it.
func (l *Listener) source(at netip.Prefix) *source {
	s := l.sources[at]
	if s == nil {
		if len(l.sources) > l.open+maxSources {
			for _, other := range l.sources { //order: each is looked at alone
				l.forget(other)
			}
		}
		s = &source{name: at}
		l.sources[at] = s
	}
	return s
}

// forget lets go of a source of which nothing is left to know.
func (l *Listener) forget(s *source) {
	if s.open == 0 && s.place == nil && s.vain.Owes(l.o.Now()) == 0 {
		delete(l.sources, s.name)
	}
}
