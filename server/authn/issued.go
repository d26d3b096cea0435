package authn

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/messages"
)

// This file owns people who show a token that somebody else signed: an issuer of OpenID Connect. It is told as a pass
// is, once a connection and behind the scheduler's proof, and with the same bound: a connection is closed when the
// token is over. Whom it is of, and what that person may do, is the issuer's word and the configuration's, not the
// store's.

const (
	protocolIssued = "synapse-oidc/1"
	issuedPrefix   = "synapseoidc1"

	// maxIssued bounds such a token: it travels as one frame.
	maxIssued     = maxFrame
	errIssuerAway = "its issuer has to be asked for its keys, and does not answer"
)

var (
	errNoIssuer   = errors.New("this scheduler takes no tokens of an issuer: it has no --oidc")
	errIssuedText = errors.New("the token cannot be read: it must be one that an issuer signed, three parts with dots " +
		"between them, behind the root of the cluster")
)

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

// WithRoot is the text of an issuer's token for a cluster, which is known by the digest of its root. As the text of a
// pass it proves the scheduler before anything is told to it.
func WithRoot(cluster string, root [sha256.Size]byte, token string) string {
	return fmt.Sprintf("%s.%s.%x.%s", issuedPrefix, cluster, root, strings.TrimSpace(token))
}

// unwritable tells of a letter that no token has: what trims words would take it for an end.
func unwritable(r rune) bool { return r <= ' ' || r > '~' }

func readIssued(text string) (*Bearer, error) {
	parts := strings.SplitN(strings.TrimSpace(text), ".", 4)
	if len(parts) != 4 || identity.CheckCluster(parts[1]) != nil {
		return nil, errIssuedText
	}
	root, err := hex.DecodeString(parts[2])
	token := parts[3]
	if err != nil || len(root) != sha256.Size || strings.Count(token, ".") != 2 || len(token) > maxIssued ||
		strings.ContainsFunc(token, unwritable) {
		return nil, errIssuedText
	}
	t := ticket{cluster: parts[1], root: [sha256.Size]byte(root), secret: []byte(token)}
	return &Bearer{ticket: t, protocol: protocolIssued}, nil
}
