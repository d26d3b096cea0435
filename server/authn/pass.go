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

// This file owns passes: what a person shows who has no certificate. People call the text a token. It is said once for
// each connection, behind the handshake in which the scheduler proves itself by the root that the text names, and
// before anything else: a connection has one identity, whatever it was proved by, and no call carries a secret.
//
// Of the secret the store has a hash alone. It is made where it is shown, and the hash travels to the scheduler.

// maxUnasked is for how long a connection stays open of which the store does not say whether its token is revoked.
// With the time between two looks it is well within the minute in which a revoked one must be closed.
const maxUnasked = 30 * time.Second

var (
	errPass     = errors.New("token is unknown: it is revoked, expired, or of another cluster")
	errNoPasses = errors.New("user tokens are not accepted by this scheduler")
)

// bear hears a token on a connection that shows no certificate, and answers whose it is.
func (g *Authenticator) bear(conn *tls.Conn, protocol string) (p identity.Peer, err error) {
	secret, err := credential.ReadFrame(conn)
	if err != nil {
		return identity.Peer{}, err
	}
	var later []byte // what may be said of why it cannot be known
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

// bearer returns the person whom a token is of.
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
