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

// This file owns the certificate that browsers are shown. It is of somebody whom browsers believe and of a name that
// people type, while the cluster's own certificates name no host. Where it answers, a person's program has proved whom
// it tells a token to, so that a token of any role may log in there; and nobody is asked for a certificate, which a
// browser would ask its user about.

// Page names the files of that certificate. The zero: browsers are shown none.
type Page struct{ Cert, Key string }

// shownPage is the certificate as it was last read.
type shownPage struct {
	tls.Certificate
	leaf *x509.Certificate
	seal [sha256.Size]byte // the key of its cookies
}

// readPage reads the certificate again. One that was renewed, with its old key, leaves cookies good.
func (g *Authenticator) readPage() error {
	files := g.o.Page
	if files == (Page{}) {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		return fmt.Errorf("the page's certificate: %w", err)
	}
	p := &shownPage{Certificate: pair}
	if p.leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
		return fmt.Errorf("%s: %w", files.Cert, err)
	}
	if len(p.leaf.DNSNames)+len(p.leaf.IPAddresses) == 0 {
		return fmt.Errorf("%s: it names no host (subjectAltName), so no browser takes it", files.Cert)
	}
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		return fmt.Errorf("%s: %w", files.Key, err)
	}
	p.seal = sha256.Sum256(append([]byte("synapse page cookie\x00"), key...))
	g.page.Store(p)
	return nil
}

// named is the page's certificate where a visitor asks for one of its names, or came to one of its addresses.
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

// config returns the TLS settings that a browser meets.
func (p *shownPage) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{protocolHTTP1}, Certificates: []tls.Certificate{p.Certificate},
		SessionTicketsDisabled: true, // as everywhere here: the handshake goes on from a configuration without
	}
}

// PageName reports whether a request's Host is one by which the page may be called: a name of its certificate.
func (g *Authenticator) PageName(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	p := g.page.Load()
	return p != nil && p.leaf.VerifyHostname(strings.Trim(name, "[]")) == nil
}

// errNoPage is why nobody logs in where a browser was not shown the page's certificate.
var errNoPage = errors.New("browser login requires a page certificate (--web-cert)")
