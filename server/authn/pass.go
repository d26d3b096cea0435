package authn

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/messages"
)

// This file owns passes: what a person shows who has no certificate. People call the text a token. It is said once for
// each connection, behind the handshake in which the scheduler proves itself by the root that the text names, and
// before anything else: a connection has one identity, whatever it was proved by, and no call carries a secret.
//
// Of the secret the store has a hash alone. It is made where it is shown, and the hash travels to the scheduler.

const (
	protocolPass = "synapse-token/1"
	passPrefix   = "synapselogin1"

	answerLater = 2 // it could not be looked up: another time it may be

	// maxUnasked is for how long a connection stays open of which the store does not say whether its token is revoked.
	// With the time between two looks it is well within the minute in which a revoked one must be closed.
	maxUnasked = 30 * time.Second
)

var (
	errPass     = errors.New("its token is not known here: it is revoked, over, or of another cluster")
	errNoPasses = errors.New("this scheduler takes no tokens of people")
	errPassText = errors.New("the token cannot be read: it is one word that begins with " + passPrefix +
		", as `synapse-cli token create --user NAME` prints it")
	// ErrLater is why nobody is let in by a token that may be good.
	ErrLater = errors.New("the scheduler cannot look the token up now")
)

// NewPass makes the text of a token, for the cluster of this root, and the hash by which a scheduler knows it.
func NewPass(cluster string, root [sha256.Size]byte) (text string, hash []byte, err error) {
	secret := make([]byte, secretBytes)
	if _, err := rand.Read(secret); err != nil {
		return "", nil, err
	}
	sum := sha256.Sum256(secret)
	return fmt.Sprintf("%s.%s.%x.%x", passPrefix, cluster, root, secret), sum[:], nil
}

// Bearer is the dialling end of a person with a token.
type Bearer struct {
	ticket
	protocol string
	newer    atomic.Pointer[[]byte] // the secret to say from now on; nil: the ticket's
}

// ReadBearer reads the text of a person's token, or what WithRoot made of an issuer's. Its errors have nothing of the
// text in them.
func ReadBearer(text string) (*Bearer, error) {
	if strings.HasPrefix(strings.TrimSpace(text), issuedPrefix+".") {
		return readIssued(text)
	}
	if strings.HasPrefix(strings.TrimSpace(text), invitationPrefix+".") {
		return nil, errors.New("this is a token with which a machine joins, not a person's")
	}
	t, err := readText(text, passPrefix)
	if err != nil {
		return nil, errPassText
	}
	return &Bearer{ticket: t, protocol: protocolPass}, nil
}

// Renew has connections show another token from now on: of the same cluster, and of the same kind.
func (b *Bearer) Renew(text string) error {
	next, err := ReadBearer(text)
	switch {
	case err != nil:
		return err
	case next.protocol != b.protocol || next.cluster != b.cluster || next.root != b.root:
		return errors.New("the new token is for another cluster")
	}
	b.newer.Store(&next.secret)
	return nil
}

// says returns what it says of itself.
func (b *Bearer) says() []byte {
	if newer := b.newer.Load(); newer != nil {
		return *newer
	}
	return b.secret
}

// Issued is the token of an issuer that the text has; ok: it is such a one.
func (b *Bearer) Issued() (token string, ok bool) {
	return string(b.says()), b.protocol == protocolIssued
}

// Cluster is the name of the token's cluster, and Root the digest of its root.
func (b *Bearer) Cluster() string { return b.cluster }

// Root is the digest of the certificate of the cluster's root.
func (b *Bearer) Root() [sha256.Size]byte { return b.root }

// Root is the digest of the certificate of the cluster's root, for a token that is to be made. An outside issuer's
// badge has none.
func (b *Badge) Root() [sha256.Size]byte { return sha256.Sum256(b.folder.Roots[0].Raw) }

// Credentials are for gRPC's connections. Told, if any, learns of each connection whether it was refused.
func (b *Bearer) Credentials(told func(*Refused)) credentials.TransportCredentials {
	return client{TransportCredentials: insecure.NewCredentials(), dial: b.dial, told: told}
}

// dial proves the scheduler, says the secret, and hears whether it is good.
func (b *Bearer) dial(ctx context.Context, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, err := b.prove(ctx, raw, b.protocol, nil)
	if err == nil && conn.ConnectionState().NegotiatedProtocol != b.protocol {
		err = &Refused{errors.New("what listens there takes no such tokens: it is an earlier version")}
	}
	if err != nil {
		return nil, nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return nil, nil, err
		}
	}
	if err := writeFrame(conn, b.says()); err != nil {
		return nil, nil, err
	}
	answer, err := readFrame(conn)
	switch r := remote(err); {
	case r != nil:
		return nil, nil, r
	case err != nil:
		return nil, nil, err
	case bytes.Equal(answer, []byte{answerGood}):
		return conn, proved(identity.Peer{}), conn.SetDeadline(time.Time{})
	case len(answer) > 1 && answer[0] == answerLater:
		return nil, nil, fmt.Errorf("%w: %.500s", ErrLater, answer[1:])
	case len(answer) > 0 && answer[0] == answerLater:
		return nil, nil, ErrLater
	}
	return nil, nil, &Refused{fmt.Errorf("the scheduler refused the token: %.500s", bytes.TrimLeft(answer, "\x01"))}
}

// prove makes a handshake with a scheduler of which nothing is known but the digest of its root. Found, if any, is told
// that root.
func (t ticket) prove(
	ctx context.Context, raw net.Conn, protocol string, found func(*x509.Certificate),
) (*tls.Conn, error) {
	conn := tls.Client(raw, &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{protocol},
		InsecureSkipVerify: true, // VerifyConnection verifies, by the token's root
		VerifyConnection: func(s tls.ConnectionState) error {
			root := t.finds(s.PeerCertificates)
			if root == nil {
				return identity.ErrUnknown
			}
			if found != nil {
				found(root)
			}
			trust := identity.Trust{Cluster: t.cluster, Roots: []*x509.Certificate{root}, Now: t.now}
			return trust.Scheduler(s.PeerCertificates)
		},
	})
	if err := conn.HandshakeContext(ctx); err != nil {
		if r := ours(err); r != nil {
			return nil, r
		}
		return nil, err
	}
	return conn, nil
}

// bear hears a token on a connection that shows no certificate, and answers whose it is.
func (g *Authenticator) bear(conn *tls.Conn, protocol string) (p identity.Peer, err error) {
	secret, err := readFrame(conn)
	if err != nil {
		return identity.Peer{}, err
	}
	var later []byte // what may be said of why it cannot be known
	if protocol == protocolIssued {
		p, err = g.issued(secret)
		later = []byte(errIssuerAway)
	} else {
		p, err = g.bearer(sha256.Sum256(secret))
	}
	switch {
	case err == nil:
		return p, writeFrame(conn, []byte{answerGood})
	case errors.Is(err, ErrLater):
		g.say("Cannot look up the token of a person from %s: %v", hostOf(conn), err)
		return p, errors.Join(err, writeFrame(conn, append([]byte{answerLater}, later...)), conn.CloseWrite())
	}
	return p, errors.Join(err, g.refuse(conn, err, "Refused the token of a person from %s: %v", hostOf(conn), err))
}

// bearer returns the person whom a token is of.
func (g *Authenticator) bearer(hash identity.Digest) (identity.Peer, error) {
	if g.o.Pass == nil {
		return identity.Peer{}, errNoPasses
	}
	r, err := g.o.Pass(messages.PassID(hash[:]))
	switch {
	case err != nil:
		return identity.Peer{}, errors.Join(ErrLater, err)
	case r == nil || !bytes.Equal(r.GetHash(), hash[:]):
		return identity.Peer{}, errPass
	}
	i := identity.Identity{Cluster: g.own.Cluster, Role: identity.Role(r.GetRole()), Name: r.GetName()}
	p, err := g.trust.Bearer(i, r.GetId(), time.UnixMilli(r.GetUntilUnixMs()))
	p.Key, p.LocalUser = hash, true
	return p, err
}

// revoked asks the store again for the token of each open connection, and answers those that are good no longer. While
// the store does not answer, a connection is good for maxUnasked.
func (g *Authenticator) revoked() map[*connection]error {
	g.mu.Lock()
	open := map[*connection]time.Time{}
	for c := range g.open { //order: each is looked at alone
		if c.peer.Pass != "" && !c.peer.Issued {
			open[c] = c.asked
		}
	}
	g.mu.Unlock()
	asked, gone := map[identity.Digest]error{}, map[*connection]error{}
	for c, last := range open { //order: each is looked at alone
		err, ok := asked[c.peer.Key]
		if !ok {
			_, err = g.bearer(c.peer.Key)
			asked[c.peer.Key] = err
		}
		switch later := errors.Is(err, ErrLater); {
		case err == nil:
			g.mu.Lock()
			c.asked = g.o.Now()
			g.mu.Unlock()
		case !later || g.o.Now().Sub(last) > maxUnasked:
			gone[c] = err
		}
	}
	return gone
}
