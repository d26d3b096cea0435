// Package credential holds the credentials of a node or user that connects to a scheduler. These are certificates with
// their keys, and tokens. It also holds the exchange before the first call. The scheduler proves its identity before
// the client sends anything. Package server/authn contains the scheduler's checks.
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

// This file owns the client side of a connection: the certificate that a node or user presents, after the scheduler has
// proved its identity.

// Badge holds the credentials of a client that dials: a key, a certificate that may be renewed, and the trusted
// authorities.
type Badge struct {
	Folder   *identity.Folder   // nil: the certificate is from an outside issuer
	external *identity.External // set instead of Folder
	own      identity.Identity
	trust    *identity.Trust
	now      func() time.Time
	pair     atomic.Pointer[identity.Pair]
}

// OpenBadge reads a folder, or the configuration file of an outside issuer. The identity must have one of the roles.
func OpenBadge(path string, roles ...identity.Role) (b *Badge, err error) {
	if identity.IsExternal(path) {
		b, err = OpenExternal(path, time.Now)
	} else {
		b, err = openFolder(path)
	}
	if err == nil && !slices.Contains(roles, b.own.Role) {
		return nil, fmt.Errorf("%s has the identity %s, but needs role %s", path, b.own, identity.Listed(roles))
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

// New returns the badge of a folder. The function now is its clock.
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

// late returns an error if the badge has expired. The error names both times, because the other end would only report
// "bad certificate".
func (b *Badge) late() error {
	if err := b.Shows().Late(b.now()); err != nil {
		return &Refused{fmt.Errorf("own certificate: %w", err)}
	}
	return nil
}

// Credentials returns the credentials for gRPC connections. The function told, if set, receives the result of each
// connection: the refusal, or nil.
func (b *Badge) Credentials(told func(*Refused)) credentials.TransportCredentials {
	dial := func(ctx context.Context, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
		conn, _, err := b.dial(ctx, raw, ProtocolHTTP2)
		return conn, proof{private}, err
	}
	return client{TransportCredentials: insecure.NewCredentials(), dial: dial, told: told}
}

// Plain returns credentials for connections without TLS. They also recognize a scheduler that requires TLS.
func Plain(told func(*Refused)) credentials.TransportCredentials {
	return client{TransportCredentials: insecure.NewCredentials(), told: told}
}

// ProtocolHTTP2 is the protocol name of a connection for calls in the TLS handshake.
const ProtocolHTTP2 = "h2"

// client implements gRPC's transport credentials for the dialing end, with TLS or in plaintext.
type client struct {
	credentials.TransportCredentials
	dial func(context.Context, net.Conn) (net.Conn, credentials.AuthInfo, error) // nil: plaintext
	told func(*Refused)
}

// ClientHandshake verifies the scheduler before the client sends anything.
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

// AuthType returns the name of the authentication.
func (proof) AuthType() string { return "synapse" }

// dial performs the handshake for one of the protocols that the scheduler offers.
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

// tell reports the result of a connection; nil means that no problem is known yet.
func (c client) tell(err error) {
	var r *Refused
	if c.told != nil && (err == nil || errors.As(err, &r)) {
		c.told(r)
	}
}

// listening is a connection whose first answer may be a refusal. In TLS 1.3, a client completes its handshake before
// the server has checked the client's certificate.
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
			"scheduler requires TLS: use --tls with the folder of a certificate, or log in with a token")}
		l.client.tell(err)
		return 0, err
	}
	l.heard = l.heard || n > 0
	return n, err
}
