package connlimit

import (
	"container/list"
	"net"
	"net/netip"
	"time"
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
	vain  time.Time     // when all its handshakes that proved nothing would have come at their rate
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

// over returns how long the source has to wait, for so many of its handshakes proved nothing. One that is under way
// counts as one of those.
func (s *source) over(rate Rate, now time.Time) time.Duration {
	return max(0, s.owed(now).Sub(now)+rate.cost()*time.Duration(1+s.begun-rate.AtOnce))
}

// owes counts one more handshake that proved nothing.
func (s *source) owes(rate Rate, now time.Time) { s.vain = s.owed(now).Add(rate.cost()) }

func (s *source) owed(now time.Time) time.Time {
	if s.vain.Before(now) {
		return now
	}
	return s.vain
}

// cost is the time in which there is one.
func (r Rate) cost() time.Duration {
	if r.PerSecond == 0 {
		return 0
	}
	return time.Second / time.Duration(r.PerSecond)
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
	if s.open == 0 && s.place == nil && !s.vain.After(l.o.Now()) {
		delete(l.sources, s.name)
	}
}

// forgetAll lets go of all sources that were kept for what they owed, and owe it no more.
func (l *Listener) forgetAll() {
	for _, s := range l.sources { //order: each is looked at alone
		l.forget(s)
	}
}
