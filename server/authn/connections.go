package authn

import (
	"errors"
	"fmt"
	"net"

	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/server/audit"
)

// This file manages the open connections and their share of each identity's allowance.

// enters adds an authenticated connection to the open ones, unless its identity has reached its limit. calls marks
// a connection for calls of users.
func (g *Authenticator) enters(raw net.Conn, conn net.Conn, p identity.Peer, calls bool) (*connection, error) {
	c := &connection{Conn: conn, gate: g, peer: p, who: p.Identity.String(), calls: calls, asked: g.o.Now()}
	has, ok := g.purses.takes(c.who, connections, g.o.Now())
	if !ok {
		return nil, g.crowded(raw, c.who, fmt.Sprintf("has reached the limit of %d open connections", has))
	}
	if calls {
		over := ""
		if has, ok = g.purses.takes(c.who, callers, g.o.Now()); !ok {
			over = fmt.Sprintf("has reached the limit of %d open connections for calls", has)
		} else if over, _ = g.purses.spends(c.who, 1, g.o.Now()); over != "" {
			g.purses.gives(c.who, callers)
		}
		if over != "" {
			g.purses.gives(c.who, connections)
			return nil, g.crowded(raw, c.who, over)
		}
	}
	g.mu.Lock()
	g.open[c] = struct{}{}
	g.mu.Unlock()
	return c, nil
}

// visits marks a connection that makes no gRPC calls.
func (c *connection) visits() {
	if c.calls {
		c.gate.purses.gives(c.who, callers)
		c.calls = false
	}
}

// crowded refuses a connection beyond the allowance of its identity.
func (g *Authenticator) crowded(raw net.Conn, who, why string) error {
	g.o.Count(countOverdrawn, 1)
	g.say("Refused a connection of %s from %s: %s", who, hostOf(raw), why)
	g.noteRefusal(audit.Line{Who: who, From: hostOf(raw), Call: "connect", Outcome: audit.Refused + ": " + why})
	return errors.New(why)
}

// Close closes the connection and returns its places.
func (c *connection) Close() error {
	c.gate.mu.Lock()
	_, was := c.gate.open[c]
	delete(c.gate.open, c)
	c.gate.mu.Unlock()
	if was {
		c.gate.purses.gives(c.who, connections)
		c.visits()
	}
	return c.Conn.Close()
}
