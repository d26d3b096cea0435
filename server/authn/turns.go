package authn

import (
	"crypto/tls"
	"net"
	"runtime"
	"sync/atomic"
	"time"
)

// This file owns that handshakes take turns. Each is half a millisecond of arithmetic, and whoever connects again and
// again has many of them ready to go on at the same moment. An honest call crosses several goroutines on its way to the
// disk and back, and would wait behind all of these at each. So only some are worked on at a time, and the rest of the
// processors stays free. While a handshake waits for its client it has no turn: who is slow, or says nothing, has none.
//
// In a crowd they give way to calls besides: none goes on while a call is served, for a while. To make them nicer to
// the kernel was turned down: the runtime cannot take a processor back from a thread that the kernel does not let run,
// and would stand still for it at each collection.

const (
	// crowd is how many handshakes may be under way before each gives way: the few of people who log in and call are
	// fewer.
	crowd = 8
	// givesWay is for how long each does, from the first time on. Then it goes on beside calls, for there may always be
	// one.
	givesWay = 50 * time.Millisecond
)

// turns are of all handshakes.
type turns struct {
	places chan struct{}          // taken by those that are worked on
	quiet  func() <-chan struct{} // is closed as soon as no call is served; answers nil if none is now
	under  atomic.Int32           // handshakes that are under way
}

// newTurns leaves half of the processors to everything else.
func newTurns(quiet func() <-chan struct{}) *turns {
	if quiet == nil {
		quiet = func() <-chan struct{} { return nil }
	}
	return &turns{places: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)), quiet: quiet}
}

// handshake makes one, in its turns.
func (t *turns) handshake(raw net.Conn, config *tls.Config) (*tls.Conn, error) {
	of := &takesTurns{Conn: raw, turns: t}
	of.take()
	defer of.end()
	conn := tls.Server(of, config)
	return conn, conn.Handshake()
}

// takesTurns is a connection whose handshake is under way. Behind it, it is as it was.
type takesTurns struct {
	net.Conn
	turns *turns
	spoke bool // it has been heard, and counts among those under way: before that it may stand in line
	over  bool

	patience <-chan time.Time // says when it has given way for long enough; nil: it has not yet
	hurries  bool             // it has
}

// take waits for a turn in which it need not give way.
func (c *takesTurns) take() {
	for {
		c.turns.places <- struct{}{}
		quiet := c.turns.quiet()
		if quiet == nil || c.hurries || c.turns.under.Load() <= crowd {
			return
		}
		c.give()
		if c.patience == nil {
			c.patience = time.After(givesWay)
		}
		select {
		case <-quiet:
		case <-c.patience:
			c.hurries = true
		}
	}
}

func (c *takesTurns) give() { <-c.turns.places }

// end gives the last turn back: what is read and written from here on needs none.
func (c *takesTurns) end() {
	c.over = true
	if c.spoke {
		c.turns.under.Add(-1)
	}
	c.give()
}

func (c *takesTurns) Read(b []byte) (int, error) { return c.aside(c.hear, b) }

// hear counts the handshake as one that is under way, once its client has said something.
func (c *takesTurns) hear(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.over && !c.spoke {
		c.spoke = true
		c.turns.under.Add(1)
	}
	return n, err
}

// Served says that something came of the handshake, to whoever wants to know.
func (c *takesTurns) Served() { served(c.Conn) }

func (c *takesTurns) Write(b []byte) (int, error) { return c.aside(c.Conn.Write, b) }

// aside does what may wait for the client, without a turn.
func (c *takesTurns) aside(do func([]byte) (int, error), b []byte) (int, error) {
	if !c.over {
		c.give()
		defer c.take()
	}
	return do(b)
}
