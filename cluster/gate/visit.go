package gate

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/yi-json/synapse/cluster/audit"
	"github.com/yi-json/synapse/cluster/rights"
)

// This file owns visitors: whoever comes by HTTP/1.1 and not by gRPC, as somebody who scrapes figures, or a prober.
// They need not show a certificate; without one they see no more than anybody may.

const protocolHTTP1 = "http/1.1"

// Visitor is what a handshake proved of one. It is no Proof: where a call is judged, nobody has come.
type Visitor struct {
	Proof
	from string
}

// AuthType names it.
func (Visitor) AuthType() string { return "synapse-visit" }

// Known reports whether the visitor has proved who it is.
func (v Visitor) Known() bool { return v.Peer.Name != "" }

// visits reports whether a client that offers these protocols is a visitor. Of gRPC's clients each offers h2 alone, and
// is refused where it offers nothing; browsers and curl offer both, and none of them speaks gRPC.
func visits(offered []string) bool {
	return len(offered) == 0 || slices.Contains(offered, protocolHTTP1)
}

// visitConfig is that of calls, but for those who show no certificate. One that is shown must be good.
func visitConfig(calls *tls.Config) *tls.Config {
	c := calls.Clone()
	c.GetConfigForClient, c.NextProtos, c.ClientAuth = nil, []string{protocolHTTP1}, tls.RequestClientCert
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
var ErrStranger = errors.New("this is for people of the cluster: show a certificate, as " +
	"curl --cacert FOLDER/ca.pem --cert FOLDER/cert.pem --key FOLDER/key.pem")

// Admit lets a visitor read what a right is about, or says why not.
func (g *Gate) Admit(v Visitor, path string, right rights.Right) error {
	line := audit.Line{From: v.from, Call: "GET " + path, What: right.Words()}
	switch {
	case !v.Known():
		g.o.Count(countDenied, 1)
		if g.say("Refused GET %s to a visitor from %s that showed no certificate", path, v.from) {
			line.Outcome = audit.Refused + ": no certificate was shown"
			g.noteRefusal(line)
		}
		return ErrStranger
	case right.Of(v.Peer.Role) != rights.Any:
		g.o.Count(countDenied, 1)
		if g.say("Refused GET %s to %s: it may not %s", path, v.Peer, right.Words()) {
			line.Who, line.Outcome = v.Peer.Identity.String(), audit.Refused
			g.noteRefusal(line)
		}
		return fmt.Errorf("%s (%s) may not %s: that is for %s: the right %s",
			v.Peer.Name, strings.TrimSpace(string(v.Peer.Role)), right.Words(), right.Who(), right)
	}
	return nil
}
