package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"
)

// This file owns the verification of a peer: the signer, the cluster and role, the time, and the denylist.

// Peer holds the identity of the other end, read from its verified chain and from nothing else.
type Peer struct {
	Identity
	Key    Digest // of its public key; for an outside issuer, of its ID
	Until  time.Time
	Bounds Bounds // allowed claims of a node
	Pass   string // ID of a user's token; empty: the peer presented a certificate
	Issued bool   // an issuer signed that token, and the store has no record of it
	Local  bool   // identified by the kernel of the scheduler's host, without an expiry
	// LocalUser means that the name is also the name of an account on nodes. This cluster certified it or gave it a token,
	// or the configuration of an outside issuer sets localUsers.
	LocalUser bool
	Groups    []string            // of a user, according to the issuer's token
	chain     []*x509.Certificate // of the certificate
}

// Trust holds the authorities that an end trusts.
type Trust struct {
	Cluster  string
	Roots    []*x509.Certificate
	External *External        // trusted instead of the roots; nil: the cluster has its own authorities
	Denied   *Denylist        // nil: nobody is denied
	Now      func() time.Time // nil: the host's clock
}

// These errors explain a refusal in the log of the end that refuses.
var (
	ErrNoCertificate = errors.New("no certificate was presented")
	ErrUnknown       = errors.New("certificate is not from this cluster's authority")
	ErrCluster       = errors.New("identity belongs to another cluster")
	ErrRole          = errors.New("role is wrong")
	ErrDenied        = errors.New("identity is on the denylist")
	ErrOver          = errors.New("token expired")
)

// TimeError is returned if a certificate is not valid at the present time. Its text names both clocks, because this
// host's clock may be wrong.
type TimeError struct {
	Certificate *x509.Certificate
	Now         time.Time
}

// Error names the certificate's validity by the clock of its authority, and the time of this host.
func (e *TimeError) Error() string {
	what := "has expired"
	if e.Now.Before(e.Certificate.NotBefore) {
		what = "is not valid yet"
	}
	return fmt.Sprintf("certificate of %s %s: it is valid from %s to %s, but the clock of this host shows %s",
		nameOf(e.Certificate), what, stamp(e.Certificate.NotBefore), stamp(e.Certificate.NotAfter), stamp(e.Now))
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 MST") }

// nameOf returns the subject of a certificate for messages.
func nameOf(c *x509.Certificate) string {
	if i, err := named(c); err == nil {
		return i.String()
	}
	if len(c.URIs) == 1 {
		return fmt.Sprintf("%.200s", c.URIs[0])
	}
	return fmt.Sprintf("%.80q", c.Subject.CommonName)
}

func (t *Trust) now() time.Time {
	if t.Now == nil {
		return time.Now()
	}
	return t.Now()
}

// accepted lists the roles at each end. Only a scheduler accepts connections.
var accepted = map[x509.ExtKeyUsage][]Role{
	x509.ExtKeyUsageServerAuth: {RoleScheduler},
	x509.ExtKeyUsageClientAuth: Roles,
}

// verify verifies a peer by the certificates that it presented. The usage is server if the peer was dialed, and client
// if it dialed. The peer's own certificate may have expired up to grace ago. Those above it must be valid now.
func (t *Trust) verify(shown []*x509.Certificate, usage x509.ExtKeyUsage, grace time.Duration) (Peer, error) {
	if len(shown) == 0 {
		return Peer{}, ErrNoCertificate
	}
	now := t.now()
	at := now
	if leaf := shown[0]; grace > 0 && t.External == nil && now.After(leaf.NotAfter) &&
		now.Before(leaf.NotAfter.Add(grace)) {
		at = leaf.NotAfter
	}
	chains, err := t.chains(shown, usage, at)
	if err != nil {
		return Peer{}, err
	}
	var p Peer
	for _, chain := range chains { // during a change of the root there are several: one valid chain is enough
		if t.External != nil {
			p, err = t.judgeExternal(chain, usage)
		} else {
			p, err = t.judge(chain, now, at, usage)
		}
		if err == nil {
			return p, nil
		}
	}
	return Peer{}, err
}

// chains returns the chains from the presented certificates to a root. If a chain exists at another time only, the time
// is the error.
func (t *Trust) chains(shown []*x509.Certificate, usage x509.ExtKeyUsage, at time.Time) ([][]*x509.Certificate, error) {
	o := x509.VerifyOptions{
		Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{usage},
	}
	for _, root := range t.roots() {
		o.Roots.AddCert(root)
	}
	for _, c := range shown[1:] {
		o.Intermediates.AddCert(c)
	}
	chains, err := shown[0].Verify(o)
	if err == nil {
		return chains, nil
	}
	o.CurrentTime = shown[0].NotBefore
	for _, c := range shown { // first moment at which all of them are valid
		if c.NotBefore.After(o.CurrentTime) {
			o.CurrentTime = c.NotBefore
		}
	}
	if past, failed := shown[0].Verify(o); failed == nil {
		for _, c := range past[0] {
			if at.Before(c.NotBefore) || at.After(c.NotAfter) {
				return nil, &TimeError{Certificate: c, Now: t.now()}
			}
		}
	}
	var usageError x509.CertificateInvalidError
	if errors.As(err, &usageError) && usageError.Reason == x509.IncompatibleUsage {
		return nil, fmt.Errorf("%w: certificate of %s is for the other end of a connection", ErrRole, nameOf(shown[0]))
	}
	return nil, fmt.Errorf("%w: %w", ErrUnknown, err)
}

// judge checks a chain against rules beyond those of every X.509 verifier: a leaf, a scheduler's authority that may
// sign it, a root.
func (t *Trust) judge(chain []*x509.Certificate, now, at time.Time, usage x509.ExtKeyUsage) (Peer, error) {
	if len(chain) != 3 || chain[0].IsCA {
		return Peer{}, fmt.Errorf("%w: a scheduler's authority must sign it, and the root that authority", ErrUnknown)
	}
	leaf, err := named(chain[0])
	if err != nil {
		return Peer{}, err
	}
	by, err := named(chain[1])
	if err != nil {
		return Peer{}, fmt.Errorf("authority: %w", err)
	}
	switch {
	case leaf.Cluster != t.Cluster:
		return Peer{}, fmt.Errorf("%w: %s, but this is cluster %s", ErrCluster, leaf, t.Cluster)
	case !slices.Contains(accepted[usage], leaf.Role):
		return Peer{}, fmt.Errorf("%w: %s is not allowed at that end", ErrRole, leaf)
	}
	if err := maySign(by, leaf); err != nil {
		return Peer{}, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	for _, c := range chain[1:] { // the time at may be in the past, for an expired leaf
		if now.Before(c.NotBefore) || now.After(c.NotAfter) {
			return Peer{}, &TimeError{Certificate: c, Now: now}
		}
	}
	if at != now && leaf.Role != RoleNode {
		return Peer{}, &TimeError{Certificate: chain[0], Now: now}
	}
	if who := t.Denied.finds(leaf, chain); who != "" {
		return Peer{}, fmt.Errorf("%w: %s", ErrDenied, who)
	}
	bounds, err := boundsOf(chain[0])
	if err != nil {
		return Peer{}, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	key, err := DigestOf(chain[0].PublicKey)
	return Peer{
		Identity: leaf, Key: key, Until: chain[0].NotAfter, Bounds: bounds, LocalUser: true, chain: chain,
	}, err
}

// Recheck refuses a peer of an open connection that would be refused now. Its certificate may have been renewed
// meanwhile. The argument until is the expiry time of the peer's latest certificate.
func (t *Trust) Recheck(p Peer, until time.Time) error {
	now := t.now()
	if p.Pass != "" || p.Local {
		return t.bears(p)
	}
	if now.After(until) {
		return &TimeError{Certificate: p.chain[0], Now: now}
	}
	for _, c := range p.chain[1:] {
		if now.After(c.NotAfter) {
			return &TimeError{Certificate: c, Now: now}
		}
	}
	if who := t.Denied.finds(p.Identity, p.chain); who != "" {
		return fmt.Errorf("%w: %s", ErrDenied, who)
	}
	return t.recheckExternal(p)
}

// Bearer returns the peer of a user who presented a token instead of a certificate. The caller has checked the token.
func (t *Trust) Bearer(i Identity, pass string, until time.Time) (Peer, error) {
	p := Peer{Identity: i, Pass: pass, Until: until}
	return p, t.bears(p)
}

// Here returns the peer of a user on the scheduler's host, whom the kernel has identified.
func (t *Trust) Here(i Identity) (Peer, error) {
	p := Peer{Identity: i, Local: true, LocalUser: true}
	return p, t.bears(p)
}

// bears refuses a user without a certificate whose token has expired or who is not allowed here. The denylist contains
// users by name, whatever they present.
func (t *Trust) bears(p Peer) error {
	if err := p.Check(); err != nil {
		return err
	}
	switch now := t.now(); {
	case p.Cluster != t.Cluster:
		return fmt.Errorf("%w: %s, but this is cluster %s", ErrCluster, p.Identity, t.Cluster)
	case !slices.Contains(People, p.Role):
		return fmt.Errorf("%w: tokens are for users, not for role %s", ErrRole, p.Role)
	case !p.Local && !now.Before(p.Until):
		return fmt.Errorf("%w at %s, and the clock of this host shows %s", ErrOver, stamp(p.Until), stamp(now))
	case t.Denied.has(p.Identity.String()):
		return fmt.Errorf("%w: %s", ErrDenied, p.Identity)
	}
	return nil
}

// Scheduler verifies that the presented certificates belong to a scheduler of the cluster. It serves nodes that have no
// certificate yet, and so no configuration.
func (t *Trust) Scheduler(shown []*x509.Certificate) error {
	_, err := t.verify(shown, x509.ExtKeyUsageServerAuth, 0)
	return err
}

// config returns the TLS configuration of both ends: TLS 1.3 only, no resumption, and own verification. The library's
// verification is off, because it uses host names: a node's certificate could then pass for a scheduler's on the right
// host.
func (t *Trust) config(usage x509.ExtKeyUsage, grace time.Duration, seen func(Peer)) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true,
		InsecureSkipVerify: true, ClientAuth: tls.RequireAnyClientCert, // VerifyConnection verifies, at every handshake
		VerifyConnection: func(s tls.ConnectionState) error {
			p, err := t.verify(s.PeerCertificates, usage, grace)
			if err == nil && seen != nil {
				seen(p)
			}
			return err
		},
	}
}

// ServerConfig returns the configuration of the end that is dialed. The function seen, if set, receives the peer. The
// function own returns the key pair at each handshake, because the pair may be renewed.
func (t *Trust) ServerConfig(own func() *Pair, seen func(Peer)) *tls.Config {
	return t.serverConfig(own, 0, seen)
}

// RenewalConfig is ServerConfig for connections that allow only a renewal. A node that was away for longer than its
// certificate's lifetime returns this way.
func (t *Trust) RenewalConfig(own func() *Pair, grace time.Duration, seen func(Peer)) *tls.Config {
	return t.serverConfig(own, grace, seen)
}

func (t *Trust) serverConfig(own func() *Pair, grace time.Duration, seen func(Peer)) *tls.Config {
	c := t.config(x509.ExtKeyUsageClientAuth, grace, seen)
	c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return own().TLS(), nil }
	return c
}

// ClientConfig returns the configuration of the end that dials. It sends nothing, not even its certificate, before the
// other end has proved to be a scheduler of this cluster.
func (t *Trust) ClientConfig(own func() *Pair, seen func(Peer)) *tls.Config {
	c := t.config(x509.ExtKeyUsageServerAuth, 0, seen)
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own().TLS(), nil }
	return c
}
