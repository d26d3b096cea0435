// Package identity is who is who in a cluster: names in certificates, the small authority that signs them, and how
// either end of a connection proves the other. It reads and writes files of keys, and knows no flag and no actor.
//
// Keys are ECDSA on P-256. Ed25519 would be a little smaller and as fast, but the key that matters most, the root's,
// belongs in hardware, and so may those of machines and people: tokens, TPMs and the services of clouds keep P-256
// everywhere and Ed25519 only here and there, and no browser takes a certificate of the latter.
package identity

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/yi-json/synapse/messages"
)

// This file owns the names: synapse://CLUSTER/ROLE/NAME, as the only URI of a certificate.

// Role names the role of an identity in a cluster. Each role has separate rights, and none includes another's.
type Role string

// The roles. What is not listed here is refused, whatever signed it.
const (
	RoleAuthority Role = "ca" // of a scheduler: it signs, and opens no connection
	RoleScheduler Role = "scheduler"
	RoleNode      Role = "node"
	// Those of people, and of their programs.
	RoleAdmin     Role = "admin"
	RoleOperator  Role = "operator"  // looks after machines, and after everybody's jobs without what is in them
	RoleSubmitter Role = "submitter" // has jobs
	RoleViewer    Role = "viewer"    // looks
)

// People are the roles of people, and Roles all that open connections.
var (
	People = []Role{RoleAdmin, RoleOperator, RoleSubmitter, RoleViewer}
	Roles  = append([]Role{RoleScheduler, RoleNode}, People...)
)

const (
	scheme = "synapse"
	// maxCluster bounds a cluster's name: it is a host in the URI, and constraints on authorities are for hosts.
	maxCluster = 63
)

// Identity names a party of a cluster.
type Identity struct {
	Cluster string
	Role    Role
	Name    string
}

// String is the identity as certificates have it.
func (i Identity) String() string {
	return scheme + "://" + i.Cluster + "/" + string(i.Role) + "/" + i.Name
}

// Check refuses an identity that no certificate may have.
func (i Identity) Check() error {
	if err := CheckCluster(i.Cluster); err != nil {
		return err
	}
	if i.Role != RoleAuthority && !slices.Contains(Roles, i.Role) {
		return fmt.Errorf("the role %.64q is none: it must be one of %s", i.Role, Listed(Roles))
	}
	// Who is called so would own all that came in before there were identities.
	if i.Name == messages.Anonymous && slices.Contains(People, i.Role) {
		return fmt.Errorf("the name %s is of those who have no certificate: take another", messages.Anonymous)
	}
	if !isName(i.Name) {
		return fmt.Errorf("the name %.64q must be letters, digits and -_.: only, at most %d", i.Name, messages.MaxIDBytes)
	}
	return nil
}

// Listed are roles, for people.
func Listed(roles []Role) string {
	words := make([]string, len(roles))
	for i, r := range roles {
		words[i] = string(r)
	}
	return strings.Join(words, ", ")
}

// CheckCluster refuses what is no name of a cluster. A dot would make it a domain, and a constraint on an authority of
// "a" would let it sign for "b.a" too.
func CheckCluster(name string) error {
	ok := name != "" && len(name) <= maxCluster && !strings.HasPrefix(name, "-") && !strings.HasSuffix(name, "-")
	for _, c := range []byte(name) {
		ok = ok && ('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-')
	}
	if !ok {
		return fmt.Errorf("the cluster's name %.80q must be a-z, 0-9 and - only, at most %d", name, maxCluster)
	}
	return nil
}

// isName reports whether a name is one that a machine's id may be too.
func isName(s string) bool {
	for _, c := range []byte(s) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && !strings.ContainsRune("-_.:", rune(c)) {
			return false
		}
	}
	return s != "" && len(s) <= messages.MaxIDBytes && s != "." && s != ".."
}

// uri is the identity for a certificate.
func (i Identity) uri() (*url.URL, error) {
	if err := i.Check(); err != nil {
		return nil, err
	}
	return &url.URL{Scheme: scheme, Host: i.Cluster, Path: "/" + string(i.Role) + "/" + i.Name}, nil
}

// Parse reads an identity as String writes it. Any other way to write the same one is refused: two names of one
// identity could be allowed under one and denied under the other.
func Parse(text string) (Identity, error) {
	rest, ok := strings.CutPrefix(text, scheme+"://")
	parts := strings.Split(rest, "/")
	if !ok || len(parts) != 3 {
		return Identity{}, fmt.Errorf("%.200q is no identity: it must be %s://CLUSTER/ROLE/NAME", text, scheme)
	}
	i := Identity{Cluster: parts[0], Role: Role(parts[1]), Name: parts[2]}
	if err := i.Check(); err != nil {
		return Identity{}, err
	}
	return i, nil
}

var errNames = errors.New("the certificate must have exactly one URI, its identity")

// named is the identity in a certificate. The caller has verified who signed it.
func named(c *x509.Certificate) (Identity, error) {
	if len(c.URIs) != 1 {
		return Identity{}, fmt.Errorf("%w: it has %d", errNames, len(c.URIs))
	}
	return Parse(c.URIs[0].String())
}
