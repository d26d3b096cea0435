package authn

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/messages"
)

// This file authenticates users with a token of an OpenID Connect issuer. A client sends the token once per
// connection, after the scheduler's proof, like a user token. The connection is closed when the token expires. The
// issuer and the configuration define the user and the role; the store is not used.

const errIssuerAway = "issuer did not answer when asked for its keys"

var errNoIssuer = errors.New("tokens of an issuer are not accepted: the scheduler has no --oidc")

// Issued describes the user of an issuer's token.
type Issued struct {
	Role  identity.Role
	Name  string
	Until time.Time
	// Groups lists the groups in the token.
	Groups []string
	// LocalUser reports whether the issuer's user names are the account names on the nodes, by its
	// configuration.
	LocalUser bool
}

// issued returns the peer of an issuer's token.
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
