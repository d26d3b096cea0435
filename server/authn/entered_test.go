package authn

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
)

// This file tests how the Authenticator reports an authenticated client to its connection.

// waitsToHear is a connection that records this report.
type waitsToHear struct {
	*net.TCPConn
	entered atomic.Int64
}

func (c *waitsToHear) Entered() { c.entered.Add(1) }

// TestEntersByACertificate checks that a connection that gets a certificate counts as authenticated. Otherwise its
// source would be limited like an unknown one. A connection with a spent token is not authenticated. A connection
// for calls is reported later.
func TestEntersByACertificate(t *testing.T) {
	s := newRigNow(t)
	token := s.invite(credential.Invitation{}, 1)
	join := func(ctx context.Context, address string) error {
		_, err := credential.Join(ctx, token, []string{address}, credential.Joiner{Otherwise: "m1"})
		return err
	}
	for _, of := range []struct {
		what string
		come func(ctx context.Context, address string) error
		good bool
		want int64
	}{
		{"a token", join, true, 1},
		{"the same token again", join, false, 0},
		{"a renewal", func(ctx context.Context, address string) error {
			return s.badgeNow(identity.RoleNode, "n1").Renew(ctx, []string{address})
		}, true, 1},
		{"a viewer", func(ctx context.Context, address string) error {
			raw := must(net.Dial("tcp", address))
			_, _, err := s.badgeNow(identity.RoleViewer, "ann").Credentials(nil).ClientHandshake(ctx, address, raw)
			return err
		}, true, 0},
	} {
		listener := must(net.Listen("tcp", "127.0.0.1:0"))
		came := make(chan error, 1)
		go func() { came <- of.come(t.Context(), listener.Addr().String()) }()
		raw := &waitsToHear{TCPConn: must(listener.Accept()).(*net.TCPConn)}
		_, _, _ = s.gate.handshake(raw) // errServed ends connections that gRPC does not get
		if err := <-came; (err == nil) != of.good || raw.entered.Load() != of.want {
			t.Errorf("%s: %v, and the connection hears %d times that it is proved", of.what, err, raw.entered.Load())
		}
		_, _ = raw.Close(), listener.Close()
	}
}
