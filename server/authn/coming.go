package authn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/tap"

	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/server/audit"
)

// This file owns connections that come in, and the calls on them that have begun and of which the request has yet to
// come: no guard is asked about a call before its request is there, so without a bound one client would have as many
// of them as its connections carry.

// coming is one such call.
type coming struct {
	over func() // gives back what it has, once
	stop func() bool
}

type comingKey struct{}

const (
	// comingPatience is how long a call is looked at again that would be one too many. The requests of those before it may
	// be here, and who serves them has not come to a processor: a client that sends many at once, to a scheduler that is
	// busy, would be refused for that.
	comingPatience = 250 * time.Millisecond
	comingLook     = 5 * time.Millisecond
)

// comes takes a place among those of whose calls the requests have yet to come, and waits for it a moment.
func (g *Authenticator) comes(who string) bool {
	for left := comingPatience; ; left -= comingLook {
		if g.purses.comes(who, g.o.Now()) {
			return true
		}
		if left <= 0 {
			return false
		}
		time.Sleep(comingLook)
	}
}

// tap takes a call before anything is made for it. The connection's reader calls it, so it must not wait for long: what
// this one sends is not read meanwhile, and nobody else is held up.
func (g *Authenticator) tap(ctx context.Context, call *tap.Info) (context.Context, error) {
	p, ok := PeerOf(ctx)
	if !ok {
		return ctx, nil // it is refused next
	}
	came, err := g.begins(ctx, p, call.FullMethodName)
	if err != nil {
		return ctx, err
	}
	c := &coming{over: came}
	c.stop = context.AfterFunc(ctx, c.over) // gRPC cancels it with the call
	return context.WithValue(ctx, comingKey{}, c), nil
}

// begins takes a call of somebody of which the request has yet to come; came gives it back.
func (g *Authenticator) begins(ctx context.Context, p identity.Peer, call string) (came func(), err error) {
	who := p.Identity.String()
	if !g.comes(who) {
		g.o.Count(countOverdrawn, 1)
		c := &checkedCall{gate: g, ctx: ctx, peer: p, call: call}
		over := fmt.Sprintf("has begun %d calls and sent no request for them", g.purses.allowed.Coming)
		g.say("Refused %s to %s: it %s", c.call, c.peer, over)
		g.noteRefusal(c.about("", audit.Refused+": it "+over))
		return nil, api.StatusOf(&messages.Outcome{
			Code: messages.Code_CODE_EXHAUSTED, Text: fmt.Sprintf("%s (%s) %s", p.Name, p.Role, over),
			Hint: "try again in a moment; others are served meanwhile",
		})
	}
	return sync.OnceFunc(func() { g.purses.came(who) }), nil
}

// here says that the request has come.
func here(ctx context.Context) {
	if c, ok := ctx.Value(comingKey{}).(*coming); ok {
		c.stop()
		c.over()
	}
}

// enters takes a proved connection among those that are open; nil: its identity has as many as it may. Calls says that
// people call over it.
func (g *Authenticator) enters(conn net.Conn, p identity.Peer, calls bool) *connection {
	c := &connection{Conn: conn, gate: g, peer: p, who: p.Identity.String(), asked: g.o.Now()}
	if !g.purses.connects(c.who, g.o.Now()) {
		return nil
	}
	if calls {
		if !g.purses.calls(c.who, g.o.Now()) {
			g.purses.leaves(c.who)
			return nil
		}
		c.traffic, c.gone = newTraffic(), make(chan struct{})
	}
	g.mu.Lock()
	g.open[c] = struct{}{}
	g.mu.Unlock()
	return c
}

// visits says that nobody calls by gRPC over a connection of which nothing has been read.
func (g *Authenticator) visits(c *connection) {
	g.purses.hangsUp(c.who)
	c.traffic = nil
}

// leaves gives back what a connection has taken.
func (g *Authenticator) leaves(c *connection) {
	g.purses.leaves(c.who)
	if c.traffic != nil {
		g.purses.hangsUp(c.who)
		g.bulk.drop(c)
	}
}

// crowded refuses a connection of somebody who has as many as one may have.
func (g *Authenticator) crowded(raw net.Conn, who string) error {
	why := fmt.Sprintf("it has %d that are open, and may have no more now", g.purses.connected(who))
	g.o.Count(countOverdrawn, 1)
	g.say("Refused a connection of %s from %s: %s", who, hostOf(raw), why)
	g.noteRefusal(audit.Line{Who: who, From: hostOf(raw), Call: "connect", Outcome: audit.Refused + ": " + why})
	return errors.New(why)
}
