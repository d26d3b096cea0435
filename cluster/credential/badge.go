// Package credential has what a machine or a person needs that connects to a scheduler: certificates with their keys,
// tokens, and what is said before the first call. The scheduler proves itself before anything is said to it. How a
// scheduler judges what it is shown, server/authn decides.
package credential

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"crypto/tls"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/yi-json/synapse/cluster/identity"
)

// This file owns the dialling end: what a machine or a person shows, and that the scheduler proves itself first.

// Badge holds the credentials of a client that dials: a key, a certificate that may be renewed, and the trusted
// authorities.
type Badge struct {
	Folder   *identity.Folder   // nil: it is an outside issuer's
	external *identity.External // in the folder's place
	own      identity.Identity
	trust    *identity.Trust
	now      func() time.Time
	pair     atomic.Pointer[identity.Pair]
}

// OpenBadge reads a folder, or the file of an outside issuer's certificates. Roles are those that it may be of.
func OpenBadge(path string, roles ...identity.Role) (b *Badge, err error) {
	if identity.IsExternal(path) {
		b, err = OpenExternal(path, time.Now)
	} else {
		b, err = openFolder(path)
	}
	if err == nil && !slices.Contains(roles, b.own.Role) {
		return nil, fmt.Errorf("%s is of %s, and this needs one of role %s", path, b.own, identity.Listed(roles))
	}
	return b, err
}

func openFolder(dir string) (*Badge, error) {
	folder, err := identity.OpenFolder(dir)
	if err != nil {
		return nil, err
	}
	return New(folder, time.Now)
}

// New makes the badge of a folder, by a clock.
func New(folder *identity.Folder, now func() time.Time) (*Badge, error) {
	b := &Badge{Folder: folder, now: now}
	var err error
	if b.own, err = folder.Identity(); err == nil {
		b.trust, err = folder.Trust()
	}
	if err != nil {
		return nil, err
	}
	b.trust.Now = now
	b.pair.Store(folder.Pair)
	return b, nil
}

// Identity returns the badge's owner.
func (b *Badge) Identity() identity.Identity { return b.own }

// late says that the badge is over, in words that name both clocks: the other end could only say "bad certificate".
func (b *Badge) late() error {
	if err := b.Shows().Late(b.now()); err != nil {
		return &Refused{fmt.Errorf("our own certificate: %w", err)}
	}
	return nil
}

// Credentials are for gRPC's connections. Told, if any, learns of each connection whether it was refused.
func (b *Badge) Credentials(told func(*Refused)) credentials.TransportCredentials {
	dial := func(ctx context.Context, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
		conn, _, err := b.dial(ctx, raw, ProtocolHTTP2)
		return conn, proof{private}, err
	}
	return client{TransportCredentials: insecure.NewCredentials(), dial: dial, told: told}
}

// Plain is for connections without TLS. A scheduler that speaks nothing else is understood.
func Plain(told func(*Refused)) credentials.TransportCredentials {
	return client{TransportCredentials: insecure.NewCredentials(), told: told}
}

// ProtocolHTTP2 names a connection for calls in its handshake.
const ProtocolHTTP2 = "h2"

// client is the dialling end as gRPC knows it: by TLS with something to show, without it in plaintext.
type client struct {
	credentials.TransportCredentials
	dial func(context.Context, net.Conn) (net.Conn, credentials.AuthInfo, error) // nil: plaintext
	told func(*Refused)
}

// ClientHandshake proves the scheduler before anything is said.
func (c client) ClientHandshake(
	ctx context.Context, authority string, raw net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	c.tell(nil)
	if c.dial == nil {
		conn, info, err := c.TransportCredentials.ClientHandshake(ctx, authority, raw)
		return &listening{Conn: conn, client: c}, info, err
	}
	conn, info, err := c.dial(ctx, raw)
	if err != nil {
		c.tell(err)
		return nil, nil, err
	}
	return &listening{Conn: conn, client: c}, info, nil
}

// proof holds the result of a connection's authentication for gRPC.
type proof struct{ credentials.CommonAuthInfo }

var private = credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}

// AuthType names it.
func (proof) AuthType() string { return "synapse" }

// dial makes the handshake, for one of the protocols that a gate speaks.
func (b *Badge) dial(ctx context.Context, raw net.Conn, protocol string) (*tls.Conn, identity.Peer, error) {
	var p identity.Peer
	if err := b.late(); err != nil && protocol != ProtocolRenewal {
		return nil, p, err
	}
	config := b.trust.ClientConfig(b.Shows, func(found identity.Peer) { p = found })
	config.NextProtos = []string{protocol}
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		if r := ours(err); r != nil {
			return nil, p, r
		}
		return nil, p, err
	}
	return conn, p, nil
}

func (c client) Info() credentials.ProtocolInfo {
	if c.dial == nil {
		return c.TransportCredentials.Info()
	}
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

func (c client) Clone() credentials.TransportCredentials { return c }

// tell notes how a connection went; nil: nothing is known against it yet.
func (c client) tell(err error) {
	var r *Refused
	if c.told != nil && (err == nil || errors.As(err, &r)) {
		c.told(r)
	}
}

// listening is a connection whose first answer may be a refusal: by TLS 1.3 a client has ended its handshake before the
// other end has looked at its certificate.
type listening struct {
	net.Conn
	client client
	heard  bool
}

func (l *listening) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	if err != nil && l.client.dial != nil {
		if r := remote(err); r != nil {
			l.client.tell(r)
			err = r
		}
	}
	if !l.heard && l.client.dial == nil && n > 1 && b[0] == Alert[0] && b[1] == Alert[1] {
		err = &Refused{errors.New(
			"the scheduler speaks TLS only: give --tls and a folder with a certificate, or log in with a token")}
		l.client.tell(err)
		return 0, err
	}
	l.heard = l.heard || n > 0
	return n, err
}
