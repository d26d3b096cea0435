package identity

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net/url"
	"time"
)

// This file owns signing. The root signs a scheduler's authority, and its key is then stored elsewhere. The authority
// signs only for its own cluster: the certificates of nodes, schedulers and users.

// These are the lifetimes of certificates. A stolen certificate of a node is worthless after a day, without a
// revocation list for every party. Certificates of users are replaced by hand and last longer. The denylist exists for
// them.
const (
	Early         = 10 * time.Minute // start of a certificate before the present, for clocks that are behind
	LifeRoot      = 10 * 365 * 24 * time.Hour
	LifeAuthority = 2 * 365 * 24 * time.Hour
	LifePerson    = 90 * 24 * time.Hour
	LifeDaily     = 24 * time.Hour // of nodes and schedulers, which renew it themselves
)

// Pair is a key with its certificates: its own first, then those above it, without the root.
type Pair struct {
	Key   crypto.Signer
	Chain []*x509.Certificate
}

// NewKey generates a key.
func NewKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// Leaf returns the pair's own certificate.
func (p *Pair) Leaf() *x509.Certificate { return p.Chain[0] }

// Belongs reports whether the key belongs to the certificate.
func (p *Pair) Belongs() bool {
	own, err := DigestOf(p.Key.Public())
	certified, other := DigestOf(p.Leaf().PublicKey)
	return err == nil && other == nil && own == certified
}

// Identity returns the owner of the pair.
func (p *Pair) Identity() (Identity, error) { return named(p.Leaf()) }

// TLS returns the pair for a handshake.
func (p *Pair) TLS() *tls.Certificate {
	c := &tls.Certificate{PrivateKey: p.Key, Leaf: p.Leaf()}
	for _, one := range p.Chain {
		c.Certificate = append(c.Certificate, one.Raw)
	}
	return c
}

// RenewAt returns when two thirds of a certificate's lifetime have passed, without the time before its issue.
func RenewAt(c *x509.Certificate) time.Time {
	began := c.NotBefore.Add(Early)
	return began.Add(c.NotAfter.Sub(began) * 2 / 3)
}

// NewRoot generates the root of a cluster. Its key must be stored outside of the cluster's hosts.
func NewRoot(cluster string, now time.Time) (*Pair, error) {
	if err := CheckCluster(cluster); err != nil {
		return nil, err
	}
	template := window(now, LifeRoot)
	template.Subject = pkix.Name{CommonName: "synapse root of " + cluster}
	template.IsCA, template.BasicConstraintsValid, template.MaxPathLen = true, true, 1
	template.KeyUsage = x509.KeyUsageCertSign
	constrain(template, cluster)
	key, err := NewKey()
	if err != nil {
		return nil, err
	}
	return signed(template, key, &key.PublicKey, &Pair{Key: key})
}

// NewAuthority generates the authority of one scheduler, signed by the root. It can sign no other authority, and
// nothing for another cluster. The constraint is in its certificate, and every verifier enforces it.
func (p *Pair) NewAuthority(i Identity, now time.Time) (*Pair, error) {
	if i.Role != RoleAuthority {
		return nil, fmt.Errorf("%s is not an authority", i)
	}
	uri, err := i.uri()
	if err != nil {
		return nil, err
	}
	template := window(now, LifeAuthority)
	template.Subject = pkix.Name{CommonName: "synapse authority of scheduler " + i.Name}
	template.URIs = []*url.URL{uri}
	template.IsCA, template.BasicConstraintsValid, template.MaxPathLenZero = true, true, true
	template.KeyUsage = x509.KeyUsageCertSign
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	constrain(template, i.Cluster)
	key, err := NewKey()
	if err != nil {
		return nil, err
	}
	return signed(template, key, &key.PublicKey, p)
}

// constrain limits an authority to URIs of one cluster. A verifier that does not support the constraint must refuse the
// certificate.
func constrain(template *x509.Certificate, cluster string) {
	template.PermittedDNSDomainsCritical = true // for all kinds of names, despite its name
	template.PermittedURIDomains = []string{cluster}
}

// usages maps each role to the permitted uses of its certificate. Only a scheduler's certificate is for the end that
// accepts connections.
var usages = map[Role][]x509.ExtKeyUsage{
	RoleScheduler: {x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	RoleNode:      {x509.ExtKeyUsageClientAuth},
	RoleAdmin:     {x509.ExtKeyUsageClientAuth},
	RoleOperator:  {x509.ExtKeyUsageClientAuth},
	RoleSubmitter: {x509.ExtKeyUsageClientAuth},
	RoleViewer:    {x509.ExtKeyUsageClientAuth},
}

// lives maps each role to the lifetime of its certificates.
var lives = map[Role]time.Duration{
	RoleScheduler: LifeDaily, RoleNode: LifeDaily,
	RoleAdmin: LifePerson, RoleOperator: LifePerson, RoleSubmitter: LifePerson, RoleViewer: LifePerson,
}

// Issue signs a certificate for a key. It ends no later than the authority that signs it.
func (p *Pair) Issue(i Identity, key crypto.PublicKey, now time.Time) ([]*x509.Certificate, error) {
	return p.issue(i, nil, key, now)
}

func (p *Pair) issue(i Identity, bounds Bounds, key crypto.PublicKey, now time.Time) ([]*x509.Certificate, error) {
	own, err := p.Identity()
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(maySign(own, i), bounds.Check()); err != nil {
		return nil, err
	}
	if own := p.Leaf(); now.After(own.NotAfter) {
		return nil, &TimeError{Certificate: own, Now: now}
	}
	uri, err := i.uri()
	if err != nil {
		return nil, err
	}
	template := window(now, lives[i.Role])
	if template.NotAfter.After(p.Leaf().NotAfter) {
		template.NotAfter = p.Leaf().NotAfter
	}
	template.Subject = pkix.Name{CommonName: string(i.Role) + " " + i.Name, OrganizationalUnit: bounds.units()}
	template.URIs = []*url.URL{uri}
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = usages[i.Role]
	made, err := signed(template, nil, key, p)
	if err != nil {
		return nil, err
	}
	return made.Chain, nil
}

// IssuePair generates a key and signs its certificate. It serves the scheduler's own certificate and those that an
// operator hands out.
func (p *Pair) IssuePair(i Identity, now time.Time) (*Pair, error) {
	key, err := NewKey()
	if err != nil {
		return nil, err
	}
	chain, err := p.Issue(i, &key.PublicKey, now)
	if err != nil {
		return nil, err
	}
	return &Pair{Key: key, Chain: chain}, nil
}

// maySign refuses identities that an authority must not sign. X.509 constrains a URI only by its host. The rules about
// roles are therefore enforced by Issue and by every verifier. An authority cannot impersonate another scheduler, so a
// stolen authority can be denied by name.
func maySign(by, i Identity) error {
	switch {
	case by.Role != RoleAuthority:
		return fmt.Errorf("%s is not an authority and cannot sign", by)
	case i.Cluster != by.Cluster:
		return fmt.Errorf("%s signs only for its own cluster, not for %s", by, i)
	case i.Role == RoleAuthority, i.Role == RoleScheduler && i.Name != by.Name:
		return fmt.Errorf("%s is not allowed to sign for %s", by, i)
	}
	return nil
}

// Request returns a certificate request: the public half of the key, signed by the key. It has no names, because the
// authority assigns them.
func Request(key crypto.Signer) ([]byte, error) {
	return x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
}

var errRequest = errors.New("certificate request is invalid")

// requested returns the key in a request, after checking that the request was signed with it.
func requested(request []byte) (*ecdsa.PublicKey, error) {
	r, err := x509.ParseCertificateRequest(request)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errRequest, err)
	}
	if err := r.CheckSignature(); err != nil {
		return nil, fmt.Errorf("%w: not signed by its own key", errRequest)
	}
	key, ok := r.PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, fmt.Errorf("%w: key is not ECDSA on P-256", errRequest)
	}
	return key, nil
}

// KeyOf returns the digest of the key in a request, after checking that the request was signed with it.
func KeyOf(request []byte) (Digest, error) {
	key, err := requested(request)
	if err != nil {
		return Digest{}, err
	}
	return DigestOf(key)
}

// Join signs a request for a new identity with its bounds.
func (p *Pair) Join(i Identity, bounds Bounds, request []byte, now time.Time) ([]*x509.Certificate, error) {
	key, err := requested(request)
	if err != nil {
		return nil, err
	}
	return p.issue(i, bounds, key, now)
}

// Renew signs a certificate with the identity, bounds and key that the peer has proved. It refuses a request for
// another key. Otherwise a certificate that was stolen for a moment could be extended forever.
func (p *Pair) Renew(peer Peer, request []byte, now time.Time) ([]*x509.Certificate, error) {
	key, err := requested(request)
	if err != nil {
		return nil, err
	}
	if asked, err := DigestOf(key); err != nil || asked != peer.Key {
		return nil, fmt.Errorf("%w: %s must renew with its present key", errRequest, peer.Identity)
	}
	if lives[peer.Role] != LifeDaily {
		return nil, fmt.Errorf("%w: certificates of role %s cannot be renewed by a scheduler", errRequest, peer.Role)
	}
	return p.issue(peer.Identity, peer.Bounds, key, now)
}

// Digest is the SHA-256 of a public key.
type Digest [sha256.Size]byte

// DigestOf returns the digest of a public key.
func DigestOf(key crypto.PublicKey) (Digest, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return Digest{}, err
	}
	return sha256.Sum256(der), nil
}

// window returns a template with a certificate's lifetime. The library adds a random serial number.
func window(now time.Time, life time.Duration) *x509.Certificate {
	return &x509.Certificate{NotBefore: now.Add(-Early), NotAfter: now.Add(life)}
}

// signed creates the certificate. The chain of a certificate that a root signs excludes the root.
func signed(template *x509.Certificate, key *ecdsa.PrivateKey, public crypto.PublicKey, by *Pair) (*Pair, error) {
	parent, above := template, []*x509.Certificate(nil)
	if len(by.Chain) > 0 {
		parent = by.Leaf()
		if own, err := named(parent); err == nil && own.Role == RoleAuthority {
			above = by.Chain
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, by.Key)
	if err != nil {
		return nil, err
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &Pair{Key: key, Chain: append([]*x509.Certificate{made}, above...)}, nil
}
