package authn

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
	testpace "github.com/yi-json/synapse/test/able/pace"
)

// This file checks that a handshake leaves no deadline on its connection. A deadline would end the first long call.

// timed records the deadlines of a connection.
type timed struct {
	net.Conn
	mu          sync.Mutex
	read, write time.Time
	set         int
}

func (c *timed) note(read, write bool, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.set++; read {
		c.read = at
	}
	if write {
		c.write = at
	}
}

func (c *timed) SetDeadline(at time.Time) error {
	c.note(true, true, at)
	return c.Conn.SetDeadline(at)
}

func (c *timed) SetReadDeadline(at time.Time) error {
	c.note(true, false, at)
	return c.Conn.SetReadDeadline(at)
}

func (c *timed) SetWriteDeadline(at time.Time) error {
	c.note(false, true, at)
	return c.Conn.SetWriteDeadline(at)
}

// left returns the deadlines that are still set.
func (c *timed) left() (deadlines []time.Time, set int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range []time.Time{c.read, c.write} {
		if !at.IsZero() {
			deadlines = append(deadlines, at)
		}
	}
	return deadlines, c.set
}

// TestHandshakesLeaveNoDeadline checks that an admitted connection has no deadline at either end, for every kind of
// proof.
func TestHandshakesLeaveNoDeadline(t *testing.T) {
	s := newRig(t)
	s.keepPasses()
	s.believeAnIssuer()
	gate := func(raw net.Conn) error {
		_, _, err := s.gate.handshake(raw)
		return err
	}
	socket := func(raw net.Conn) error { return credential.WriteFrame(raw, []byte{credential.AnswerGood}) }
	for name, way := range map[string]struct {
		creds credentials.TransportCredentials
		serve func(net.Conn) error
	}{
		"a certificate":     {s.badge(s.by, identity.RoleAdmin, "zoe").Credentials(nil), gate},
		"a token":           {s.bearer(identity.RoleSubmitter, "ann", time.Hour).Credentials(nil), gate},
		"an issuer's token": {s.shows("submitter.cy.x").Credentials(nil), gate},
		"the local socket":  {credential.Beside(nil), socket},
	} {
		listener := must(net.Listen("tcp", "127.0.0.1:0"))
		client := &timed{Conn: must(net.Dial("tcp", listener.Addr().String()))}
		server := &timed{Conn: must(listener.Accept())}
		served := make(chan error, 1)
		go func() { served <- way.serve(server) }()
		ctx, cancel := context.WithTimeout(t.Context(), testpace.Of(10*time.Second))
		_, _, err := way.creds.ClientHandshake(ctx, "", client)
		cancel()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			_ = client.Close()
		}
		if err := <-served; err != nil {
			t.Errorf("%s, at the gate: %v", name, err)
		}
		for end, c := range map[string]*timed{"client": client, "gate": server} {
			if left, set := c.left(); len(left) > 0 {
				t.Errorf("%s: %d deadlines were set at the %s, and it keeps %v", name, set, end, left)
			}
		}
		_, _, _ = client.Close(), server.Close(), listener.Close()
	}
}
