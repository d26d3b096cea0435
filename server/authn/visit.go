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

// This file owns visitors: whoever comes by HTTP/1.1 and not by gRPC, as somebody who scrapes figures, or a prober.
// They need not show a certificate; without one they see no more than anybody may.

const protocolHTTP1 = "http/1.1"

// Visitor has what a handshake proved of one. It is no Proof: where a call is judged, nobody has come.
type Visitor struct {
	Proof
	from  string
	named bool // it was shown the page's certificate
	// proves says that its program proves the scheduler before it tells anything.
	proves bool
}

// AuthType names it.
func (Visitor) AuthType() string { return "synapse-visit" }

// Known reports whether the visitor has proved who it is.
func (v Visitor) Known() bool { return v.Peer.Name != "" }

// Named reports whether the visitor asked for a name of the page, and was shown its certificate.
func (v Visitor) Named() bool { return v.named }

// visits reports whether a client that offers these protocols is a visitor. Of gRPC's clients each offers h2 alone, and
// is refused where it offers nothing; browsers and curl offer both, and none of them speaks gRPC.
func visits(offered []string) bool {
	return len(offered) == 0 || slices.Contains(offered, protocolHTTP1)
}

// visitConfig is that of calls, but for those who show no certificate. One that is shown must be good.
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

// ErrStranger is why somebody sees nothing who has not said who it is.
var ErrStranger = errors.New("authentication required: present a certificate, as in curl --insecure --cert " +
	"FOLDER/cert.pem --key FOLDER/key.pem, or a viewer's token as Authorization: Bearer")

// errNoViewer is why no other role's token opens a page. A visitor's program can hardly prove whom it shows the token
// to, since no scheduler's certificate names a host: what may be overheard must open no more than a look.
var errNoViewer = errors.New("this page accepts only tokens of viewers")

// Admit lets a visitor read what a right is about, or says why not. Authorization is the request's header, by which
// whoever has no certificate may show a token.
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

// shown returns whose token a request's header has.
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
