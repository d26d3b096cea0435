package identity

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/yi-json/synapse/messages/plain"
)

// This file owns certificates of an outside issuer, such as SPIRE. A configuration file of an administrator maps the
// issuer's identities to those of the cluster. The issuer's helper replaces the files of the certificate, key and
// bundle while the process runs.
//
// An ID of the issuer (for SPIFFE: spiffe://DOMAIN/…) contains no role, so the configuration defines which IDs are
// schedulers, nodes and users. Both ends of a connection check the other by these rules, as they do with Synapse's own
// certificates.

// External holds one party's certificate, key and bundle from an outside issuer.
type External struct {
	path   string
	config externalConfig
	held   atomic.Pointer[issuedFiles]
	own    Identity
	mu     sync.Mutex // held while the files are read
}

// externalConfig is the content of the configuration file.
type externalConfig struct {
	Cluster  string       `yaml:"cluster"`
	Cert     string       `yaml:"cert"`     // the file of our certificate, and of those above it
	Key      string       `yaml:"key"`      // of its key
	Bundle   string       `yaml:"bundle"`   // of the issuer's roots
	Denylist string       `yaml:"denylist"` // as in a folder
	IDs      []externalID `yaml:"ids"`
	// LocalUsers means that the names of users are also the names of accounts on nodes. A job with --user me then runs as
	// that account.
	LocalUsers bool `yaml:"localUsers"`
}

// externalID maps a set of IDs to an identity. The first entry that matches an ID counts.
type externalID struct {
	ID     string `yaml:"id"` // spiffe://DOMAIN/SEGMENT/…; a segment may be {name} or *
	Role   Role   `yaml:"role"`
	Name   string `yaml:"name"` // for all of them, where {name} is not in the id
	Bounds Bounds `yaml:"bounds"`
	parts  []string
}

// issuedFiles holds the contents of the files when they were read.
type issuedFiles struct {
	pair  *Pair
	roots []*x509.Certificate
	files [3]fileStamp
}

const (
	externalScheme = "spiffe://"
	anyName        = "{name}"
	anySegment     = "*"

	maxExternalBytes = 1 << 20
	maxExternalIDs   = 1000
	maxExternalID    = 2048 // SPIFFE's own limit
	maxTrustDomain   = 255
)

// ErrUnmapped is returned if a certificate is valid but no entry matches its ID.
var ErrUnmapped = errors.New("no entry under ids matches the ID")

// IsExternal reports whether the path of --tls is the configuration file of an outside issuer, and not a folder.
func IsExternal(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir()
}

// Decode reads a text in YAML into a value, and refuses unknown keys. The package gets it from its callers, because the
// small program synapse-submit contains no YAML parser.
type Decode func(text []byte, into any) error

// OpenExternal reads a configuration file and the files that it names.
func OpenExternal(path string, decode Decode) (*External, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxExternalBytes+1))
	if err != nil {
		return nil, err
	}
	x := &External{path: path}
	if x.config, err = readExternal(text, decode); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	h, own, err := x.read()
	if err != nil {
		return nil, err
	}
	x.own = own
	x.held.Store(h)
	return x, nil
}

// readExternal parses the text of a configuration file.
func readExternal(text []byte, decode Decode) (c externalConfig, err error) {
	if len(text) > maxExternalBytes {
		return c, fmt.Errorf("file has more than %d bytes", maxExternalBytes)
	}
	if err := decode(text, &c); err != nil && !errors.Is(err, io.EOF) {
		return c, fmt.Errorf("keys must be cluster, cert, key, bundle and ids, as in docs/operate/spiffe.md: %w", err)
	}
	return c, c.check()
}

func (c *externalConfig) check() error {
	if err := CheckCluster(c.Cluster); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	for _, must := range []struct{ key, text, what string }{
		{"cert", c.Cert, "the own certificate and its intermediates"},
		{"key", c.Key, "the private key"},
		{"bundle", c.Bundle, "the issuer's roots"},
	} {
		if must.text == "" {
			return fmt.Errorf("%s: is missing: set it to the PEM file of %s", must.key, must.what)
		}
	}
	if len(c.IDs) == 0 || len(c.IDs) > maxExternalIDs {
		return fmt.Errorf("ids: has %d entries: needs 1 to %d, each with an id and its role", len(c.IDs), maxExternalIDs)
	}
	scheduler := false
	for i := range c.IDs {
		one := &c.IDs[i]
		if err := one.check(c.Cluster); err != nil {
			return fmt.Errorf("ids[%d]: %w", i, err)
		}
		if one.parts[0] != c.IDs[0].parts[0] {
			return fmt.Errorf("ids[%d]: id: %s has another trust domain than ids[0], but a bundle covers only one",
				i, one.ID)
		}
		for j, earlier := range c.IDs[:i] {
			if earlier.covers(one) {
				return fmt.Errorf("ids[%d]: id: %s never matches, because ids[%d] comes first and matches the same IDs: "+
					"move it up", i, one.ID, j)
			}
		}
		scheduler = scheduler || one.Role == RoleScheduler
	}
	if !scheduler {
		return errors.New("ids: no entry has the role scheduler, so every scheduler would be refused")
	}
	return nil
}

func (e *externalID) check(cluster string) (err error) {
	if e.parts, err = segments(e.ID, true); err != nil {
		return fmt.Errorf("id: %w", err)
	}
	named := 0
	for _, part := range e.parts {
		if part == anyName {
			named++
		}
	}
	switch {
	case !slices.Contains(Roles, e.Role):
		return fmt.Errorf("role: unknown role %.64q: use one of %s", e.Role, Listed(Roles))
	case named > 1:
		return fmt.Errorf("id: %s has %s more than once", e.ID, anyName)
	case named == 0 && e.Name == "":
		return fmt.Errorf("name: is missing: set it, or use %s as a segment of the id", anyName)
	case named > 0 && e.Name != "":
		return fmt.Errorf("name: %.64q is set, but the id contains %s: remove one of them", e.Name, anyName)
	case len(e.Bounds) > 0 && e.Role != RoleNode:
		return errors.New("bounds: only role node can have them")
	}
	if err := e.Bounds.Check(); err != nil {
		return fmt.Errorf("bounds: %w", err)
	}
	if err := (Identity{cluster, e.Role, cmp.Or(e.Name, "x")}).Check(); err != nil {
		return fmt.Errorf("name: %w", err)
	}
	return nil
}

// covers reports whether this entry matches every ID that the other entry matches.
func (e *externalID) covers(other *externalID) bool {
	wild := func(part string) bool { return part == anySegment || part == anyName }
	return slices.EqualFunc(e.parts, other.parts, func(ours, theirs string) bool { return wild(ours) || ours == theirs })
}

// fits reports whether the entry matches an ID, and returns the name.
func (e *externalID) fits(parts []string) (name string, ok bool) {
	name = e.Name
	ok = slices.EqualFunc(e.parts, parts, func(ours, theirs string) bool {
		if ours == anyName {
			name = theirs
		}
		return ours == anyName || ours == anySegment || ours == theirs
	})
	return name, ok
}

// segments splits a SPIFFE ID, with the trust domain first. An ID has only one written form: escapes, ports and empty
// segments, which SPIFFE forbids, are refused.
func segments(id string, pattern bool) ([]string, error) {
	rest, ok := strings.CutPrefix(id, externalScheme)
	parts := strings.Split(rest, "/")
	if !ok || len(parts) < 2 || len(id) > maxExternalID {
		return nil, fmt.Errorf("invalid ID %.200q: must be %sDOMAIN/PATH, at most %d bytes", id, externalScheme,
			maxExternalID)
	}
	if !consists(parts[0], ".-_", false) || len(parts[0]) > maxTrustDomain {
		return nil, fmt.Errorf("%.200q: the trust domain must have a-z, 0-9 and .-_ only, at most %d", id, maxTrustDomain)
	}
	for _, part := range parts[1:] {
		if pattern && (part == anyName || part == anySegment) {
			continue
		}
		if !consists(part, ".-_", true) || part == "." || part == ".." {
			return nil,
				fmt.Errorf("%.200q: each segment must have letters, digits and .-_ only, or in the file be %s or %s",
					id, anyName, anySegment)
		}
	}
	return parts, nil
}

// consists reports whether a text is not empty and contains only letters, digits and the given other characters.
func consists(text, others string, capitals bool) bool {
	for _, c := range []byte(text) {
		if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || capitals && 'A' <= c && c <= 'Z' ||
			strings.IndexByte(others, c) >= 0) {
			return false
		}
	}
	return text != ""
}

// who returns the identity in an outside issuer's certificate. The caller has verified its signature.
func (c *externalConfig) who(leaf *x509.Certificate) (Identity, Bounds, error) {
	if len(leaf.URIs) != 1 {
		return Identity{}, nil, fmt.Errorf("%w: it has %d", errNames, len(leaf.URIs))
	}
	id := leaf.URIs[0].String()
	parts, err := segments(id, false)
	if err != nil {
		return Identity{}, nil, err
	}
	for i := range c.IDs {
		one := &c.IDs[i]
		name, ok := one.fits(parts)
		if !ok {
			continue
		}
		if len(name) > plain.MaxIDBytes { // the other rules of names follow from segments, or were checked
			return Identity{}, nil, fmt.Errorf("%s: the name is longer than %d bytes", id, plain.MaxIDBytes)
		}
		who := Identity{Cluster: c.Cluster, Role: one.Role, Name: name}
		return who, one.Bounds, who.Check()
	}
	return Identity{}, nil, fmt.Errorf("%w: %s", ErrUnmapped, id)
}
