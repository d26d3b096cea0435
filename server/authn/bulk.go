package authn

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file owns how much of requests may be on its way at the same time: from when a client says how long one is until
// it is answered. gRPC reads a request whole before anybody can say that it is too many, each may have 4 MiB, and each
// is several times that while it is decoded. So a connection is read no further while there is no room for what it has
// announced. That is its own loss: what is small has room of its identity's own, and waits for nobody.

const (
	// ownBytes is what each identity may have on its way in any case.
	ownBytes = 256 << 10
	// bulkBytes is what all may have beyond that.
	bulkBytes = 5 << 20
	// bulkFor is how long somebody may have a part of that before all is sent, while others wait for it.
	bulkFor = 3 * time.Second
	// bulkLook is how often whoever waits looks for such a one.
	bulkLook = 500 * time.Millisecond
	// littleBytes is how large a request may be that costs its identity nothing of its pace: larger ones come at bulkPace
	// bytes a second, and bulkBurst at once. To decode one takes several times its size of memory that is collected next.
	// A piece of 64 KiB of what a process reads is little, with what stands around it: `cp` and `port-forward` send those.
	littleBytes = 64<<10 + 256
	bulkPace    = 128 << 10
	bulkBurst   = 4 << 20
	// BulkPause is how long a connection is left unread for that; whoever would have to wait longer loses it. Unread for
	// longer than cluster/link.SilentFor it would end anyway: what comes behind the request is unread with it, and with
	// that each sign of life.
	BulkPause = 8 * time.Second
	// maxRequestBytes is the longest that gRPC reads; it refuses a longer one by its announcement alone.
	maxRequestBytes = messages.MaxFrameBytes
)

const countStalled = "gate.stalled" // connections closed because they took too long to send, while others waited

var errBulk = errors.New("the connection has more requests on their way at once than there is room for")

// bulk counts what all connections have on their way.
type bulk struct {
	mu      sync.Mutex
	of      map[string]*load // by identity
	beyond  int              // what they have beyond their own, in all
	waiting []*waiter        // the first to come first
	ahead   *connection      // one that may go beyond the bound, so that it comes to an end
}

// load counts what one identity has on its way.
type load struct {
	bytes int
	on    map[*connection]*connBulk
}

// connBulk counts what one connection has of that.
type connBulk struct {
	bytes int
	since time.Time // it took more
}

// waiter is a connection that is not read before there is room.
type waiter struct {
	c     *connection
	bytes int
	ready chan error
}

// excess returns what an identity takes of the common room when it has so many bytes on their way.
func excess(bytes int) int { return max(0, bytes-ownBytes) }

// take waits until there is room for so many bytes more of a connection.
func (b *bulk) take(c *connection, bytes int) error {
	b.mu.Lock()
	if c.dropped || bytes > bulkBytes {
		b.mu.Unlock()
		return errBulk
	}
	w := &waiter{c: c, bytes: bytes}
	if b.grows(w) == 0 || len(b.waiting) == 0 && b.fits(w) {
		b.add(c, bytes, c.gate.o.Now())
		b.mu.Unlock()
		return nil
	}
	w.ready = make(chan error, 1)
	b.waiting = append(b.waiting, w)
	b.admit(c.gate.o.Now())
	b.mu.Unlock()
	for {
		select {
		case err := <-w.ready:
			return err
		case <-time.After(bulkLook):
			for _, other := range b.stalled(c.gate.o.Now()) {
				if other.traffic.unfinished() > 0 {
					c.gate.closeStalled(other)
				}
			}
		}
	}
}

// admit lets go on who can. The lock is held.
func (b *bulk) admit(now time.Time) {
	for {
		at, err := b.next()
		if at < 0 {
			return
		}
		w := b.waiting[at]
		b.waiting = slices.Delete(b.waiting, at, at+1)
		if err == nil {
			b.add(w.c, w.bytes, now)
		}
		w.ready <- err
	}
}

// next is the place of the one whose turn it is; less than 0: nobody's. Whoever has least beyond its own comes first,
// so nobody is held up by how often somebody else asks. A connection that is in the middle of another request cannot
// end that before it goes on: if there is no room, one of those goes ahead of all.
func (b *bulk) next() (at int, err error) {
	at = -1
	least := 0
	for i, w := range b.waiting {
		if b.grows(w) == 0 {
			return i, nil
		}
		if has := excess(b.load(w.c).bytes); at < 0 || has < least {
			at, least = i, has
		}
	}
	if at >= 0 && b.fits(b.waiting[at]) {
		return at, nil
	}
	for i, w := range b.waiting {
		switch has := w.c.traffic.unfinished(); {
		case has <= w.bytes: // that is what it waits with
		case b.fits(w):
			return i, nil
		case b.ahead != nil && b.ahead != w.c:
		case has > 2*bulkBytes:
			return i, errBulk
		default:
			b.ahead = w.c
			return i, nil
		}
	}
	return -1, nil
}

// fits reports whether there is room for what a connection waits for.
func (b *bulk) fits(w *waiter) bool { return b.beyond+b.grows(w) <= bulkBytes }

// grows returns how much of the common room it would take.
func (b *bulk) grows(w *waiter) int {
	has := b.load(w.c).bytes
	return excess(has+w.bytes) - excess(has)
}

// load returns what a connection's identity has on its way.
func (b *bulk) load(c *connection) load {
	if l := b.of[c.who]; l != nil {
		return *l
	}
	return load{}
}

// add counts bytes that are on their way.
func (b *bulk) add(c *connection, bytes int, now time.Time) {
	l := b.of[c.who]
	if l == nil {
		if b.of == nil {
			b.of = map[string]*load{}
		}
		l = &load{on: map[*connection]*connBulk{}}
		b.of[c.who] = l
	}
	if l.on[c] == nil {
		l.on[c] = &connBulk{}
	}
	l.on[c].bytes, l.on[c].since = l.on[c].bytes+bytes, now
	b.beyond += excess(l.bytes+bytes) - excess(l.bytes)
	l.bytes += bytes
}

// give takes bytes back that are no longer on their way.
func (b *bulk) give(c *connection, bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.less(c, bytes)
	b.admit(c.gate.o.Now())
}

// drop takes back all that a connection has which is closed, and what it waits for.
func (b *bulk) drop(c *connection) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !c.dropped {
		c.dropped = true
		close(c.gone)
	}
	b.waiting = slices.DeleteFunc(b.waiting, func(w *waiter) bool {
		if w.c == c {
			w.ready <- errBulk
		}
		return w.c == c
	})
	if p := b.load(c).on[c]; p != nil {
		b.less(c, p.bytes)
	}
	b.admit(c.gate.o.Now())
}

// less counts bytes no longer. The lock is held.
func (b *bulk) less(c *connection, bytes int) {
	l := b.of[c.who]
	if l == nil || l.on[c] == nil {
		return // it was dropped meanwhile
	}
	p := l.on[c]
	b.beyond += excess(l.bytes-bytes) - excess(l.bytes)
	l.bytes, p.bytes = l.bytes-bytes, p.bytes-bytes
	if p.bytes == 0 {
		delete(l.on, c)
	}
	if b.ahead == c && (p.bytes == 0 || b.beyond <= bulkBytes) {
		b.ahead = nil
	}
	if len(l.on) == 0 {
		delete(b.of, c.who)
	}
}

// stalled are the connections that have had a part of the common room for too long, and are not among those that wait.
func (b *bulk) stalled(now time.Time) (out []*connection) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.of { //order: each is looked at alone
		if excess(l.bytes) == 0 {
			continue
		}
		for c, p := range l.on { //order: each is looked at alone
			waits := slices.ContainsFunc(b.waiting, func(w *waiter) bool { return w.c == c })
			if !waits && now.Sub(p.since) >= bulkFor {
				out = append(out, c)
			}
		}
	}
	return out
}

// Read reads what a client sends, and waits with it where there is no room.
func (c *connection) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.traffic == nil || n == 0 {
		return n, err
	}
	more, full := c.traffic.came(b[:n])
	switch {
	case full != nil:
	case more > 0:
		if full = c.pause(more); full == nil {
			full = c.gate.bulk.take(c, more)
		}
	case more < 0:
		c.gate.bulk.give(c, -more)
	}
	if full != nil {
		return 0, full
	}
	return n, err
}

// pause waits for as long as the identity has sent more of what is large than comes at its pace.
func (c *connection) pause(bytes int) error {
	if bytes <= littleBytes {
		return nil
	}
	wait := c.gate.purses.carries(c.who, bytes, c.gate.o.Now())
	if wait > BulkPause {
		c.gate.o.Count(countOverdrawn, 1)
		c.gate.say("Closed the connection of %s from %s: it sends more than %d KiB a second of large requests",
			c.peer, hostOf(c), bulkPace>>10)
		return errBulk
	}
	if wait > 0 {
		select {
		case <-time.After(wait):
		case <-c.gone:
			return errBulk
		}
	}
	return nil
}

// Write sends what a client is answered, which ends what was on its way.
func (c *connection) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if c.traffic != nil {
		if less := c.traffic.went(b[:n]); less > 0 {
			c.gate.bulk.give(c, less)
		}
	}
	return n, err
}

// closeStalled closes a connection that takes too long to send what others wait for.
func (g *Authenticator) closeStalled(c *connection) {
	g.o.Count(countStalled, 1)
	g.say("Closed the connection of %s from %s: it was slow to send a large request, and others wait for the room",
		c.peer, hostOf(c))
	c.Close()
}
