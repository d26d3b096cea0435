package connlimit

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"time"
)

// This file owns the lines before the handshakes: whose turn is next, and which source must rest.
//
// Every source has a line of its own, and sources take turns, so that a crowd at one address does not hold up the
// others. Sources that are known have three turns of four while strange ones wait beside them. Within a line the first
// to come is the first to go. If it has waited for long, the line is longer than clients are patient: then the next one
// is drawn by lot. The oldest is about to give up, and a scheduler that takes the oldest each time does all of its work
// for clients that have gone by the end of it.
//
// A client that connects, proves itself and leaves has cost half a millisecond of arithmetic and a tenth of a megabyte
// of garbage. So handshakes that nothing comes of have a rate per source. A connection of which something comes (a call
// or a link that is accepted, a certificate that is signed, a page that is shown) gets its share back, and a cluster
// behind one address comes back as fast as it is served.

const (
	// handshakeBurst is how many handshakes one source may begin at once, and handshakeRate how many a second on each
	// processor after that, whatever comes of them.
	handshakeBurst = 4096
	handshakeRate  = 500
	// longWait is when a line is longer than clients are patient.
	longWait = time.Second
	// knownTurns of as many and one are for known sources.
	knownTurns = 3
	// draws is how often somebody who is still there is drawn, before it is the oldest's turn.
	draws = 32
)

// Rate says how many may begin a second, and how many at once.
type Rate struct{ PerSecond, AtOnce int }

// DefaultVain bounds what handshakes for nothing may take of the machine: half a hundredth of each processor.
func DefaultVain() Rate {
	processors := runtime.GOMAXPROCS(0)
	return Rate{PerSecond: 5 * processors, AtOnce: 128 * processors}
}

// Free is the rate of handshakes that cost nothing, as on a port where nobody proves anything.
func Free() Rate { return Rate{PerSecond: 1 << 20, AtOnce: 1 << 20} }

// cost is the time in which there is one.
func (r Rate) cost() time.Duration { return time.Second / time.Duration(max(1, r.PerSecond)) }

// over returns how long it takes until another one fits the rate, if due is when all would have been at the rate.
func (r Rate) over(due, now time.Time) time.Duration {
	return max(0, due.Sub(now)) + r.cost() - r.cost()*time.Duration(r.AtOnce)
}

// defaultAll is the rate of one source's handshakes, whatever comes of them.
func defaultAll() Rate {
	return Rate{PerSecond: handshakeRate * runtime.GOMAXPROCS(0), AtOnce: handshakeBurst}
}

// speaks has a connection that has said something wait for its handshake.
func (l *Listener) speaks(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.state != silent {
		return // it is closed
	}
	l.rises(c)
	s := c.from
	from := s
	if l.waiting >= l.o.Limits.Waiting && s.waiting < l.o.Limits.WaitingOfSource {
		from = l.mostWaiting()
	}
	if l.waiting >= l.o.Limits.Waiting || s.waiting >= l.o.Limits.WaitingOfSource {
		l.turnedAway(countRefused)
		l.say(from, "Closed a connection from %s that waited for its handshake: %d of them wait, %d in total",
			from, from.waiting, l.waiting)
		l.leave(from.oldest())
	}
	c.state, c.heard = waiting, l.o.Now()
	s.line = append(s.line, c)
	l.waiting, s.waiting = l.waiting+1, s.waiting+1
	l.returns(s)
	l.moves()
}

// mostWaiting is the source in which most wait. If several have as many, it is any of them.
func (l *Listener) mostWaiting() (most *source) {
	for _, s := range l.sources { //order: of those with as many, any will do
		if most == nil || s.waiting > most.waiting {
			most = s
		}
	}
	return most
}

// oldest returns the connection that has waited for longest; nil: nobody waits. It lets go of those before it that have
// left.
func (s *source) oldest() *Conn {
	for len(s.line) > 0 {
		if c := s.line[0]; c != nil && c.state == waiting {
			return c
		}
		s.line = s.line[1:]
	}
	return nil
}

// moves begins handshakes for as long as there is room for one more. The lock is held.
func (l *Listener) moves() {
	for !l.closed && l.rings[known].Len()+l.rings[strange].Len() > 0 {
		now := l.o.Now()
		if l.begun.Len() >= l.o.Limits.Begun {
			if wait := l.displaces(nil, now); wait > 0 {
				l.looks(wait)
				return
			}
		}
		s := l.turn()
		wait := max(l.o.Vain.over(s.vain, now), l.all.over(s.due, now))
		if wait <= 0 && s.begun >= l.o.Limits.BegunOfSource {
			wait = l.displaces(s, now)
		}
		if wait > 0 {
			l.rests(s, wait)
			continue
		}
		l.begins(s, now)
	}
}

// turn is the source whose turn is next. Some ring has one, and the lock is held.
func (l *Listener) turn() *source {
	of := known
	if l.rings[known].Len() == 0 {
		of = strange
	} else if l.rings[strange].Len() > 0 {
		if l.turns++; l.turns%(knownTurns+1) == 0 {
			of = strange
		}
	}
	front := l.rings[of].Front()
	l.rings[of].MoveToBack(front)
	return front.Value.(*source)
}

// displaces makes room for a handshake: it closes the oldest one of a source (nil: of all) if that has stalled. Else it
// returns how long to wait until it will have. The lock is held.
func (l *Listener) displaces(of *source, now time.Time) time.Duration {
	for at := l.begun.Front(); at != nil; at = at.Next() {
		c := at.Value.(*Conn)
		if of != nil && c.from != of {
			continue
		}
		if wait := stalledAfter - now.Sub(c.since); wait > 0 {
			return wait
		}
		l.turnedAway(countRefused)
		l.say(c.from, "Closed a connection from %s: its handshake took longer than %s, and others wait",
			c.from, stalledAfter)
		l.leave(c)
		return 0
	}
	return stalledAfter
}

// begins hands the next of a source's line to the server. The lock is held.
func (l *Listener) begins(s *source, now time.Time) {
	c := l.pick(s, now)
	if s.waiting == 0 {
		s.leavesRing()
		s.line = nil
	}
	if c == nil {
		return
	}
	if s.vain.Before(now) {
		s.vain = now
	}
	if s.due.Before(now) {
		s.due = now
	}
	s.vain, s.due = s.vain.Add(l.o.Vain.cost()), s.due.Add(l.all.cost())
	c.state, c.since, c.paid = begun, now, true
	c.place = l.begun.PushBack(c)
	s.begun++
	l.o.Count(countBegun, 1)
	l.next = append(l.next, c)
	l.wakes()
}

// pick takes out of a source's line who goes next; nil: nobody is left there. Those whose client has hung up are let
// go. The lock is held.
func (l *Listener) pick(s *source, now time.Time) *Conn {
	for tries := 0; ; {
		c := s.oldest()
		if c == nil {
			return nil
		}
		at := 0
		if now.Sub(c.heard) >= longWait && tries < draws && !l.o.Gone(c.Conn) {
			tries++
			at = rand.IntN(len(s.line))
			c = s.line[at]
		}
		if c == nil || c.state != waiting {
			continue
		}
		s.line[at] = nil
		if l.o.Gone(c.Conn) {
			l.o.Count(countGone, 1)
			l.leave(c)
			continue
		}
		l.waiting, s.waiting = l.waiting-1, s.waiting-1
		if len(s.line) > 2*s.waiting+64 {
			s.line = slices.DeleteFunc(s.line, func(c *Conn) bool { return c == nil || c.state != waiting })
		}
		return c
	}
}

// returns puts a source into its ring, if somebody waits there and it need not rest. The lock is held.
func (l *Listener) returns(s *source) {
	if s.ring == nil && s.waiting > 0 {
		s.ring = &l.rings[s.class(l.o.Now())]
		s.place = s.ring.PushBack(s)
	}
}

// leavesRing takes a source out of its ring.
func (s *source) leavesRing() {
	if s.ring != nil {
		s.ring.Remove(s.place)
		s.ring, s.place = nil, nil
	}
}

// rests takes a source out of its ring for a while. The lock is held.
func (l *Listener) rests(s *source, wait time.Duration) {
	s.leavesRing()
	if s.resting {
		return
	}
	s.resting = true
	time.AfterFunc(wait, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		s.resting = false
		l.returns(s)
		l.moves()
	})
}

// looks has the lines move again after a while, when the oldest handshake will have stalled. The lock is held.
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

// refund gives back what the handshake of a connection took that is good for something. The lock is held.
func (l *Listener) refund(c *Conn) {
	if c.paid {
		c.paid = false
		c.from.vain = c.from.vain.Add(-l.o.Vain.cost())
		l.returns(c.from)
		l.moves()
	}
}
