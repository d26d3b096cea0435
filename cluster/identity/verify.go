package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"
)

// This file owns how one end proves the other: who signed, for which cluster and role, when, and that nobody denied it.

// Peer holds the identity of the other end, read from its verified chain and from nothing else.
type Peer struct {
	Identity
	Key    Digest // of its public key; of an outside issuer's, of its id
	Until  time.Time
	Bounds Bounds // of a machine: what it may claim
	Pass   string // the id of a person's token; empty: it showed a certificate
	Issued bool   // an issuer signed that token, and the store has nothing of it
	Local  bool   // the kernel of the scheduler's machine says who it is, and there is nothing that ends
	// LocalUser: the name counts as that of an account of the nodes. This cluster certified it or gave it a token, or the
	// configuration of an outside issuer says localUsers.
	LocalUser bool
	Groups    []string            // of a person, as the token of an issuer says
	chain     []*x509.Certificate // of that
}

// Trust holds the authorities that an end trusts.
type Trust struct {
	Cluster  string
	Roots    []*x509.Certificate
	External *External        // believed in place of the roots; nil: the cluster has its own authorities
	Denied   *Denylist        // nil: nobody is
	Now      func() time.Time // nil: the machine's clock
}

// What a peer is refused for. The words are for the log of the end that refuses.
var (
	ErrNoCertificate = errors.New("it shows no certificate")
	ErrUnknown       = errors.New("its certificate is not of this cluster's authority")
	ErrCluster       = errors.New("it belongs to another cluster")
	ErrRole          = errors.New("it has another role")
	ErrDenied        = errors.New("it is on the denylist")
	ErrOver          = errors.New("token expired")
)

// TimeError says that a certificate is not good now, or not by this machine's clock: the words name both.
type TimeError struct {
	Certificate *x509.Certificate
	Now         time.Time
}

// Error names the certificate's window, which its authority's clock made, and the clock of this machine.
func (e *TimeError) Error() string {
	what := "is not good any more"
	if e.Now.Before(e.Certificate.NotBefore) {
		what = "is not good yet"
	}
	return fmt.Sprintf("the certificate of %s %s: it is good from %s to %s, and this machine's clock says %s",
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

// accepted are the roles at each end. A scheduler is the only one that may be dialled.
var accepted = map[x509.ExtKeyUsage][]Role{
	x509.ExtKeyUsageServerAuth: {RoleScheduler},
	x509.ExtKeyUsageClientAuth: Roles,
}

// verify proves a peer by what it showed. Usage is what it does here: a server was dialled, a client dialled us. A
// lapsed peer's own certificate may have ended up to grace ago; those above it must be good now.
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
	for _, chain := range chains { // a root that is being replaced makes several: one that holds is enough
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

// chains finds the ways from what was shown up to a root. If there is one at another time, the time is wrong.
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
	for _, c := range shown { // up to the first moment at which all of them had begun
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
		return nil, fmt.Errorf("%w: the certificate of %s is not for this end of a connection", ErrRole, nameOf(shown[0]))
	}
	return nil, fmt.Errorf("%w: %w", ErrUnknown, err)
}

// judge holds one chain against our own rules, beyond those of every X.509 verifier: a leaf, a scheduler's authority
// that may sign it, a root.
func (t *Trust) judge(chain []*x509.Certificate, now, at time.Time, usage x509.ExtKeyUsage) (Peer, error) {
	if len(chain) != 3 || chain[0].IsCA {
		return Peer{}, fmt.Errorf("%w: it must be signed by a scheduler's authority, and that by the root", ErrUnknown)
	}
	leaf, err := named(chain[0])
	if err != nil {
		return Peer{}, err
	}
	by, err := named(chain[1])
	if err != nil {
		return Peer{}, fmt.Errorf("its authority: %w", err)
	}
	switch {
	case leaf.Cluster != t.Cluster:
		return Peer{}, fmt.Errorf("%w: it is %s, and this is cluster %s", ErrCluster, leaf, t.Cluster)
	case !slices.Contains(accepted[usage], leaf.Role):
		return Peer{}, fmt.Errorf("%w: it is %s, which must not be at that end", ErrRole, leaf)
	}
	if err := maySign(by, leaf); err != nil {
		return Peer{}, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	for _, c := range chain[1:] { // at may be in the past, for a lapsed leaf
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
// meanwhile; until says how long it is good, by the latest that was signed.
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

// Bearer is a person who showed a token in place of a certificate. The caller knows the token.
func (t *Trust) Bearer(i Identity, pass string, until time.Time) (Peer, error) {
	p := Peer{Identity: i, Pass: pass, Until: until}
	return p, t.bears(p)
}

// Here is a person on the scheduler's own machine, whom the caller knows by the kernel's word.
func (t *Trust) Here(i Identity) (Peer, error) {
	p := Peer{Identity: i, Local: true, LocalUser: true}
	return p, t.bears(p)
}

// bears refuses whoever comes without a certificate and is good no longer, or not here. The denylist has people by
// name, whatever they show.
func (t *Trust) bears(p Peer) error {
	if err := p.Check(); err != nil {
		return err
	}
	switch now := t.now(); {
	case p.Cluster != t.Cluster:
		return fmt.Errorf("%w: it is %s, and this is cluster %s", ErrCluster, p.Identity, t.Cluster)
	case !slices.Contains(People, p.Role):
		return fmt.Errorf("%w: a token is of a person, and this one of a %s", ErrRole, p.Role)
	case !p.Local && !now.Before(p.Until):
		return fmt.Errorf("%w at %s, and this machine's clock shows %s", ErrOver, stamp(p.Until), stamp(now))
	case t.Denied.has(p.Identity.String()):
		return fmt.Errorf("%w: %s", ErrDenied, p.Identity)
	}
	return nil
}

// Scheduler proves by what it showed that a scheduler of the cluster answers. It is for a machine that has no
// certificate yet, and so no configuration of its own.
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

// ServerConfig is for the end that is dialled. Seen, if any, is told who came; own is asked for our pair at each
// handshake, because it is renewed.
func (t *Trust) ServerConfig(own func() *Pair, seen func(Peer)) *tls.Config {
	return t.serverConfig(own, 0, seen)
}

// RenewalConfig is ServerConfig for connections that are only good for a renewal: a machine that was away for longer
// than its certificate lives comes back by it.
func (t *Trust) RenewalConfig(own func() *Pair, grace time.Duration, seen func(Peer)) *tls.Config {
	return t.serverConfig(own, grace, seen)
}

func (t *Trust) serverConfig(own func() *Pair, grace time.Duration, seen func(Peer)) *tls.Config {
	c := t.config(x509.ExtKeyUsageClientAuth, grace, seen)
	c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return own().TLS(), nil }
	return c
}

// ClientConfig is for the end that dials. Nothing of ours, not even our certificate, leaves before the other end has
// proved that it is a scheduler of this cluster.
func (t *Trust) ClientConfig(own func() *Pair, seen func(Peer)) *tls.Config {
	c := t.config(x509.ExtKeyUsageServerAuth, 0, seen)
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own().TLS(), nil }
	return c
}
