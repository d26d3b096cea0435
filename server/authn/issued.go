package authn

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/messages"
)

// This file owns people who show a token that somebody else signed: an issuer of OpenID Connect. It is told as a pass
// is, once a connection and behind the scheduler's proof, and with the same bound: a connection is closed when the
// token is over. Whom it is of, and what that person may do, is the issuer's word and the configuration's, not the
// store's.

const errIssuerAway = "issuer did not answer when asked for its keys"

var errNoIssuer = errors.New("tokens of an issuer are not accepted: the scheduler has no --oidc")

// Issued names the person whom an issuer's token is of.
type Issued struct {
	Role  identity.Role
	Name  string
	Until time.Time
	// Groups are those that the token names.
	Groups []string
	// LocalUser: the issuer's configuration says that its names are those of the nodes' accounts.
	LocalUser bool
}

// issued returns the person whom an issuer's token is of.
func (g *Authenticator) issued(token []byte) (identity.Peer, error) {
	if g.o.Issued == nil {
		return identity.Peer{}, errNoIssuer
	}
	one, err := g.o.Issued(string(token))
	if err != nil {
		return identity.Peer{}, err
	}
	hash := sha256.Sum256(token)
	i := identity.Identity{Cluster: g.own.Cluster, Role: one.Role, Name: one.Name}
	p, err := g.trust.Bearer(i, "oidc-"+hex.EncodeToString(hash[:6]), one.Until)
	p.Key, p.Issued, p.LocalUser, p.Groups = hash, true, one.LocalUser, messages.AsGroups(one.Groups)
	return p, err
}
