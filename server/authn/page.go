package authn

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
)

// This file manages the certificate for browsers. A CA that browsers trust signs it for a DNS name, whereas the
// cluster's own certificates contain no host name. Behind this certificate a user's program knows who receives a
// token, so tokens of any role may log in. No client certificate is requested, because a browser would prompt its
// user for one.

// Page holds the files of the certificate for browsers. If they are empty, browsers get no certificate.
type Page struct{ Cert, Key string }

// shownPage holds the certificate as it was last read.
type shownPage struct {
	tls.Certificate
	leaf *x509.Certificate
	seal [sha256.Size]byte // key for its cookies
}

// readPage reads the certificate again. If it was renewed with the same key, cookies stay valid.
func (g *Authenticator) readPage() error {
	files := g.o.Page
	if files == (Page{}) {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		return fmt.Errorf("certificate of the web UI: %w", err)
	}
	p := &shownPage{Certificate: pair}
	if p.leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
		return fmt.Errorf("%s: %w", files.Cert, err)
	}
	if len(p.leaf.DNSNames)+len(p.leaf.IPAddresses) == 0 {
		return fmt.Errorf("%s contains no host name (subjectAltName), so browsers refuse the certificate", files.Cert)
	}
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		return fmt.Errorf("%s: %w", files.Key, err)
	}
	p.seal = sha256.Sum256(append([]byte("synapse page cookie\x00"), key...))
	g.page.Store(p)
	return nil
}

// named returns the certificate for browsers if a visitor requests one of its names, or connects to one of its
// addresses.
func (g *Authenticator) named(hello *tls.ClientHelloInfo) *shownPage {
	p := g.page.Load()
	if p == nil {
		return nil
	}
	name := hello.ServerName
	if name == "" && hello.Conn != nil {
		name, _, _ = net.SplitHostPort(hello.Conn.LocalAddr().String())
	}
	if p.leaf.VerifyHostname(name) != nil {
		return nil
	}
	return p
}

// config returns the TLS settings for browsers.
func (p *shownPage) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{protocolHTTP1}, Certificates: []tls.Certificate{p.Certificate},
		SessionTicketsDisabled: true, // as for all connections; a resumed session would skip the checks
	}
}

// PageName reports whether a request's Host is a name of the certificate for browsers.
func (g *Authenticator) PageName(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	p := g.page.Load()
	return p != nil && p.leaf.VerifyHostname(strings.Trim(name, "[]")) == nil
}

// errNoPage is the error for a login without a certificate for browsers.
var errNoPage = errors.New("browser login requires a certificate for browsers (--web-cert)")
