package authn

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"time"

	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/messages"
)

// This file authenticates users with tokens. In the code, such a token is a pass. A client sends it once per
// connection, as its first message after the handshake, in which the scheduler proves itself with the root that the
// token names. Each connection therefore has one identity, and no call contains a secret.
//
// The store contains only a hash of the secret. The client that creates a token also creates the secret, and sends
// only the hash to the scheduler.

// maxUnasked is how long a connection stays open while the store cannot confirm that its token is not revoked.
// Together with the interval between checks, this keeps within the minute in which a revoked connection must be
// closed.
const maxUnasked = 30 * time.Second

var (
	errPass     = errors.New("token is unknown: revoked, expired, or of another cluster")
	errNoPasses = errors.New("user tokens are not accepted by this scheduler")
)

// bear reads a token from a connection without a certificate and returns the peer.
func (g *Authenticator) bear(conn *tls.Conn, protocol string) (p identity.Peer, err error) {
	secret, err := credential.ReadFrame(conn)
	if err != nil {
		return identity.Peer{}, err
	}
	var later []byte // the part of the reason that the client may see
	if protocol == credential.ProtocolIssued {
		p, err = g.issued(secret)
		later = []byte(errIssuerAway)
	} else {
		p, err = g.bearer(sha256.Sum256(secret))
	}
	switch {
	case err == nil:
		return p, credential.WriteFrame(conn, []byte{credential.AnswerGood})
	case errors.Is(err, credential.ErrLater):
		g.say("Cannot look up a user token from %s: %v", hostOf(conn), err)
		answer := append([]byte{credential.AnswerLater}, later...)
		return p, errors.Join(err, credential.WriteFrame(conn, answer), conn.CloseWrite())
	}
	return p, errors.Join(err, g.refuse(conn, err, "Refused a user token from %s: %v", hostOf(conn), err))
}

// bearer returns the peer of a user's token.
func (g *Authenticator) bearer(hash identity.Digest) (identity.Peer, error) {
	if g.o.Pass == nil {
		return identity.Peer{}, errNoPasses
	}
	r, err := g.o.Pass(messages.PassID(hash[:]))
	switch {
	case err != nil:
		return identity.Peer{}, errors.Join(credential.ErrLater, err)
	case r == nil || !bytes.Equal(r.GetHash(), hash[:]):
		return identity.Peer{}, errPass
	}
	i := identity.Identity{Cluster: g.own.Cluster, Role: identity.Role(r.GetRole()), Name: r.GetName()}
	p, err := g.trust.Bearer(i, r.GetId(), time.UnixMilli(r.GetUntilUnixMs()))
	p.Key, p.LocalUser = hash, true
	return p, err
}

// revoked asks the store for the token of each open connection, and returns those whose tokens are no longer valid.
// While the store does not answer, a connection stays valid for maxUnasked.
func (g *Authenticator) revoked() map[*connection]error {
	g.mu.Lock()
	open := map[*connection]time.Time{}
	for c := range g.open { //order: each is checked separately
		if c.peer.Pass != "" && !c.peer.Issued {
			open[c] = c.asked
		}
	}
	g.mu.Unlock()
	asked, gone := map[identity.Digest]error{}, map[*connection]error{}
	for c, last := range open { //order: each is checked separately
		err, ok := asked[c.peer.Key]
		if !ok {
			_, err = g.bearer(c.peer.Key)
			asked[c.peer.Key] = err
		}
		switch later := errors.Is(err, credential.ErrLater); {
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
