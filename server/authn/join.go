package authn

import (
	"crypto/tls"
	"errors"

	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
)

// This file lets nodes join: one connection with one request and one answer, like a renewal. The node has no
// certificate yet. The scheduler first proves itself with the root that the token names.

// join serves one node without a certificate.
func (g *Authenticator) join(conn *tls.Conn) error {
	text, err := credential.ReadFrame(conn)
	if err != nil {
		return err
	}
	pair, who, err := g.welcome(text)
	if err == nil {
		err = g.certified(conn, who, credential.Until(pair.Chain[0]))
	}
	if err != nil {
		return g.refuse(conn, err, "Refused to let a node join from %s: %v", hostOf(conn), err)
	}
	g.o.Count(countJoined, 1)
	g.o.Log("Signed a certificate for %s from %s by its join token", who, hostOf(conn))
	return g.answer(conn, pair.Chain)
}

// welcome validates a join request and signs the certificate.
func (g *Authenticator) welcome(text []byte) (*identity.Pair, identity.Identity, error) {
	who := identity.Identity{Cluster: g.own.Cluster, Role: identity.RoleNode}
	q, err := credential.ReadJoining(text)
	if err != nil {
		return nil, who, err
	}
	key, err := identity.KeyOf(q.Request)
	if err != nil {
		return nil, who, err
	}
	for _, name := range []string{q.Name, q.Otherwise} { // before the token is used or a name becomes a file name
		who.Name = name
		if err := who.Check(); name != "" && err != nil {
			return nil, who, err
		}
	}
	g.joins.Lock() // of two concurrent joins, only one gets a name
	var bounds identity.Bounds
	who.Name, bounds, err = credential.Spend(g.o.Folder, q, key, g.o.Now())
	g.joins.Unlock()
	if err != nil {
		return nil, who, err
	}
	chain, err := g.authority.Join(who, bounds, q.Request, g.o.Now())
	return &identity.Pair{Chain: chain}, who, err
}

// bareConfig returns the TLS settings for nodes and users without a certificate. The scheduler also sends its root,
// because they know only its digest.
func (g *Authenticator) bareConfig(protocol string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true, NextProtos: []string{protocol},
		GetCertificate: g.withRoots,
	}
}

// withRoots returns the scheduler's certificates with the roots of the cluster.
func (g *Authenticator) withRoots(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	shown := g.pair.Load().TLS()
	for _, root := range g.trust.Roots {
		shown.Certificate = append(shown.Certificate, root.Raw)
	}
	return shown, nil
}

// errReplaced is the error for a node whose name another key has taken over.
var errReplaced = errors.New("another key has taken over the name of this node: " +
	"join again with a token created with --node-name")

// replaced returns errReplaced if another key has taken over the name of a node.
func (g *Authenticator) replaced(p identity.Peer) error {
	if g.o.External == nil && p.Role == identity.RoleNode && credential.Taken(g.o.Folder, p.Name, p.Key) {
		return errReplaced
	}
	return nil
}
