// Package identity defines the identities in a cluster: names in certificates, and the authority that signs them. It
// also verifies the other end of a connection. It reads and writes key files. It contains no flags and no actors.
//
// Keys are ECDSA on P-256. Ed25519 would be slightly smaller and equally fast. But the most important key, the root's,
// belongs in hardware, and so may those of nodes and users. Hardware tokens, TPMs and cloud services all support P-256,
// but only some support Ed25519. No browser accepts an Ed25519 certificate.
package identity

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/yi-json/synapse/messages/plain"
)

// This file owns the names: synapse://CLUSTER/ROLE/NAME, as the only URI of a certificate.

// Role names the role of an identity in a cluster. Each role has separate rights, and none includes another's.
type Role string

// These are the roles. Any other role is refused, whatever signed it.
const (
	RoleAuthority Role = "ca" // of a scheduler: it signs certificates and opens no connections
	RoleScheduler Role = "scheduler"
	RoleNode      Role = "node"
	// These are the roles of users and their programs.
	RoleAdmin     Role = "admin"
	RoleOperator  Role = "operator"  // operates nodes, and all jobs without access to their content
	RoleSubmitter Role = "submitter" // submits jobs
	RoleViewer    Role = "viewer"    // reads only
)

// People lists the roles of users. Roles lists all roles that open connections.
var (
	People = []Role{RoleAdmin, RoleOperator, RoleSubmitter, RoleViewer}
	Roles  = append([]Role{RoleScheduler, RoleNode}, People...)
)

const (
	scheme = "synapse"
	// maxCluster limits a cluster's name. The name is a host name in the URI, because constraints on authorities apply to
	// host names.
	maxCluster = 63
)

// Identity names a party of a cluster.
type Identity struct {
	Cluster string
	Role    Role
	Name    string
}

// String returns the identity as it is written in certificates.
func (i Identity) String() string {
	return scheme + "://" + i.Cluster + "/" + string(i.Role) + "/" + i.Name
}

// Check refuses an identity that no certificate may have.
func (i Identity) Check() error {
	if err := CheckCluster(i.Cluster); err != nil {
		return err
	}
	if i.Role != RoleAuthority && !slices.Contains(Roles, i.Role) {
		return fmt.Errorf("unknown role %.64q: use one of %s", i.Role, Listed(Roles))
	}
	// A user with this name would own all jobs that were submitted before identities were enabled.
	if i.Name == plain.Anonymous && slices.Contains(People, i.Role) {
		return fmt.Errorf("name %s is reserved for users without a certificate: use another name", plain.Anonymous)
	}
	if !isName(i.Name) {
		return fmt.Errorf("name %.64q must have letters, digits and -_.: only, at most %d", i.Name, plain.MaxIDBytes)
	}
	return nil
}

// Listed returns roles as text.
func Listed(roles []Role) string {
	words := make([]string, len(roles))
	for i, r := range roles {
		words[i] = string(r)
	}
	return strings.Join(words, ", ")
}

// CheckCluster refuses an invalid cluster name. A dot would make the name a domain, and an authority of "a" could then
// also sign for "b.a".
func CheckCluster(name string) error {
	ok := name != "" && len(name) <= maxCluster && !strings.HasPrefix(name, "-") && !strings.HasSuffix(name, "-")
	for _, c := range []byte(name) {
		ok = ok && ('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-')
	}
	if !ok {
		return fmt.Errorf("cluster name %.80q must have a-z, 0-9 and - only, at most %d", name, maxCluster)
	}
	return nil
}

// isName reports whether a text is valid as a name and as a machine ID.
func isName(s string) bool {
	for _, c := range []byte(s) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && !strings.ContainsRune("-_.:", rune(c)) {
			return false
		}
	}
	return s != "" && len(s) <= plain.MaxIDBytes && s != "." && s != ".."
}

// uri returns the identity as a certificate's URI.
func (i Identity) uri() (*url.URL, error) {
	if err := i.Check(); err != nil {
		return nil, err
	}
	return &url.URL{Scheme: scheme, Host: i.Cluster, Path: "/" + string(i.Role) + "/" + i.Name}, nil
}

// Parse reads an identity as String writes it. It refuses any other form, because an identity with two forms could be
// allowed under one and denied under the other.
func Parse(text string) (Identity, error) {
	rest, ok := strings.CutPrefix(text, scheme+"://")
	parts := strings.Split(rest, "/")
	if !ok || len(parts) != 3 {
		return Identity{}, fmt.Errorf("invalid identity %.200q: must be %s://CLUSTER/ROLE/NAME", text, scheme)
	}
	i := Identity{Cluster: parts[0], Role: Role(parts[1]), Name: parts[2]}
	if err := i.Check(); err != nil {
		return Identity{}, err
	}
	return i, nil
}

var errNames = errors.New("certificate must have exactly one URI, its identity")

// named returns the identity in a certificate. The caller must have verified the signature.
func named(c *x509.Certificate) (Identity, error) {
	if len(c.URIs) != 1 {
		return Identity{}, fmt.Errorf("%w: it has %d", errNames, len(c.URIs))
	}
	return Parse(c.URIs[0].String())
}
