package authn

import (
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/server/audit"
	"github.com/yi-json/synapse/server/rights"
)

// This file admits visitors: HTTP clients without gRPC, such as metrics scrapers and probers. They need no
// certificate. Without one, they see only public pages.

const protocolHTTP1 = "http/1.1"

// Visitor holds the result of a visitor's handshake. It is not a Proof, so a visitor cannot make gRPC calls.
type Visitor struct {
	Proof
	from  string
	named bool // it got the certificate for browsers
	// proves reports whether its program verifies the scheduler before it sends data.
	proves bool
}

// AuthType returns the name of this kind of authentication.
func (Visitor) AuthType() string { return "synapse-visit" }

// Known reports whether the visitor is authenticated.
func (v Visitor) Known() bool { return v.Peer.Name != "" }

// Named reports whether the visitor requested a name of the web UI and got its certificate.
func (v Visitor) Named() bool { return v.named }

// visits reports whether a client with these protocols is a visitor. gRPC clients offer only h2, and are refused
// without it. Browsers and curl also offer HTTP/1.1.
func visits(offered []string) bool {
	return len(offered) == 0 || slices.Contains(offered, protocolHTTP1)
}

// visitConfig returns the TLS settings for visitors: those of calls, but with an optional client certificate. A
// client certificate must still be valid.
func visitConfig(calls *tls.Config, protocol string) *tls.Config {
	c := calls.Clone()
	c.GetConfigForClient, c.NextProtos, c.ClientAuth = nil, []string{protocol}, tls.RequestClientCert
	verify := calls.VerifyConnection
	c.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return nil
		}
		return verify(s)
	}
	return c
}

// ErrStranger is the error for a visitor without credentials.
var ErrStranger = errors.New("authentication required: present a certificate, as in curl --insecure --cert " +
	"FOLDER/cert.pem --key FOLDER/key.pem, or a viewer's token as Authorization: Bearer")

// errNoViewer is the error for a token of another role than viewer. A visitor's program usually cannot verify the
// scheduler, because its certificates contain no host name. A token that could be intercepted must only permit
// reading.
var errNoViewer = errors.New("this page accepts only tokens of viewers")

// Admit checks whether a visitor may read a page that requires this right, and returns the reason if not.
// authorization is the request header, which may contain a token.
func (g *Authenticator) Admit(v Visitor, authorization, path string, right rights.Right) error {
	line := audit.Line{From: v.from, Call: "GET " + path, What: right.Words()}
	who, err := v.Peer, error(nil)
	if !v.Known() {
		who, err = g.shown(authorization)
	}
	if err == nil && right.Of(who.Role) != rights.Any {
		err = fmt.Errorf("%s (%s) may not %s: only %s may: the permission is %s",
			who.Name, who.Role, right.Words(), right.Who(), right)
	}
	if err == nil {
		return nil
	}
	g.o.Count(countDenied, 1)
	if line.Who = "a visitor"; who.Name != "" {
		line.Who = who.Identity.String()
	}
	if g.say("Refused GET %s to %s from %s: %v", path, line.Who, v.from, err) {
		line.Outcome = audit.Refused + ": " + err.Error()
		g.noteRefusal(line)
	}
	return err
}

// shown returns the peer of the token in a request header.
func (g *Authenticator) shown(authorization string) (identity.Peer, error) {
	text, ok := strings.CutPrefix(authorization, "Bearer ")
	if !ok {
		return identity.Peer{}, ErrStranger
	}
	secret, err := credential.ReadPass(text)
	if err != nil {
		return identity.Peer{}, errors.Join(ErrStranger, err)
	}
	who, err := g.bearer(sha256.Sum256(secret))
	switch {
	case err != nil:
		return identity.Peer{}, errors.Join(ErrStranger, err)
	case who.Role != identity.RoleViewer:
		return identity.Peer{}, errors.Join(ErrStranger, errNoViewer)
	}
	return who, nil
}
