package gate

import (
	"crypto/tls"
	"net"
	"runtime"
)

// This file owns that handshakes take turns. Each is half a millisecond of arithmetic, and whoever connects again and
// again has many of them ready to go on at the same moment. An honest call crosses several goroutines on its way to the
// disk and back, and would wait behind all of these at each. So only some are worked on at a time, and the rest of the
// processors stays free. While a handshake waits for its client it has no turn: who is slow, or says nothing, has none.

// turns are the places of those that are worked on.
type turns chan struct{}

// newTurns leaves half of the processors to everything else.
func newTurns() turns { return make(turns, max(1, runtime.GOMAXPROCS(0)/2)) }

// handshake makes one, in its turns.
func (t turns) handshake(raw net.Conn, config *tls.Config) (*tls.Conn, error) {
	of := &takesTurns{Conn: raw, turns: t}
	of.take()
	defer of.end()
	conn := tls.Server(of, config)
	return conn, conn.Handshake()
}

// takesTurns is a connection whose handshake is under way. Behind it, it is as it was.
type takesTurns struct {
	net.Conn
	turns turns
	over  bool
}

func (c *takesTurns) take() { c.turns <- struct{}{} }

func (c *takesTurns) give() { <-c.turns }

// end gives the last turn back: what is read and written from here on needs none.
func (c *takesTurns) end() {
	c.over = true
	c.give()
}

func (c *takesTurns) Read(b []byte) (int, error) { return c.aside(c.Conn.Read, b) }

func (c *takesTurns) Write(b []byte) (int, error) { return c.aside(c.Conn.Write, b) }

// aside does what may wait for the client, without a turn.
func (c *takesTurns) aside(do func([]byte) (int, error), b []byte) (int, error) {
	if !c.over {
		c.give()
		defer c.take()
	}
	return do(b)
}
