package authn

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"strings"

	"google.golang.org/grpc/peer"

	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/server/audit"
)

// This file authenticates programs that make calls over HTTP. The connection proves the identity, through a
// certificate or the kernel, or each request contains a token. A token has a session, like a browser that has
// logged in. While its requests are open, the session is checked against the denylist, the store and the clock. The
// end of the session ends its requests.
//
// A rejected alternative is to accept every token from any program. The scheduler's certificates contain no host
// name. A standard HTTP client must therefore disable verification, and would send its token to any attacker in the
// middle. So an unproved connection accepts only tokens that can read.

// protocolProgram is the ALPN protocol of programs that verify the scheduler with the cluster's root before they
// send a token. An HTTP client without verification does not offer it.
const protocolProgram = "synapse-http/1"

// programConfig returns the TLS settings for such programs. The scheduler also sends the roots, because a program with
// a token may know only the digest of one.
func (g *Authenticator) programConfig(calls *tls.Config) *tls.Config {
	c := visitConfig(calls, protocolProgram)
	c.GetCertificate = g.withRoots
	return c
}

// ErrUnproved is the error for a token from a program that has not shown that it verifies the scheduler.
var ErrUnproved = errors.New(
	"only tokens of viewers are accepted here, because the program may not have verified the scheduler: use " +
		"synapse-cli, the Python client, a name in the certificate of --web-cert, or a client certificate")

// errTwice is the error for a request with two identities.
var errTwice = errors.New("token cannot be combined with a client certificate or a local user: use one of them")

// Caller is the authenticated sender of an HTTP request.
type Caller struct {
	Peer  peer.Peer
	Until context.Context // done when its session ends; a closed connection also ends its requests
	Leave func()          // call it after the answer
	gate  *Authenticator
	peer  identity.Peer
}

// Caller returns the sender of a request with this remote address and Authorization header.
func (g *Authenticator) Caller(v Visitor, authorization string, from net.Addr) (*Caller, error) {
	switch {
	case v.Known() && authorization == "":
		return g.caller(v.Peer, from, context.Background(), func() {}), nil
	case v.Known():
		return nil, g.noCaller(v, errTwice)
	}
	s, done, err := g.borne(authorization, from)
	if err != nil {
		return nil, g.noCaller(v, err)
	}
	if !v.proves && !v.named && s.peer.Role != identity.RoleViewer {
		done()
		return nil, g.noCaller(v, ErrUnproved)
	}
	return g.caller(s.peer, from, s.ctx, done), nil
}

func (g *Authenticator) caller(p identity.Peer, from net.Addr, until context.Context, leave func()) *Caller {
	return &Caller{Peer: peer.Peer{Addr: from, AuthInfo: proved(p)}, Until: until, Leave: leave, gate: g, peer: p}
}

// Roots returns the cluster's root certificates as PEM, or nothing if an outside issuer has them. They are public:
// each handshake sends them.
func (g *Authenticator) Roots() (text []byte) {
	for _, root := range g.trust.Roots {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Raw})...)
	}
	return text
}

// Whom returns the text of the sender's identity.
func (c *Caller) Whom() string { return c.peer.Identity.String() }

// borne returns the session of the token in a request's header, for any kind of token.
func (g *Authenticator) borne(authorization string, from net.Addr) (*Session, func(), error) {
	text, ok := strings.CutPrefix(authorization, "Bearer ")
	if !ok {
		return nil, nil, ErrStranger
	}
	text = strings.TrimSpace(text)
	secret, whose := []byte(text), g.issued
	if strings.HasPrefix(text, credential.PassPrefix+".") || strings.HasPrefix(text, credential.IssuedPrefix+".") {
		b, err := credential.ReadBearer(text)
		if err != nil {
			return nil, nil, errors.Join(ErrStranger, err)
		}
		secret = b.Secret()
		if _, issued := b.Issued(); !issued {
			whose = func(secret []byte) (identity.Peer, error) { return g.bearer(sha256.Sum256(secret)) }
		}
	} else if strings.Count(text, ".") != 2 {
		return nil, nil, errors.Join(ErrStranger, credential.ErrToken)
	}
	hash := sha256.Sum256(secret)
	name := sha256.Sum256(append([]byte("synapse http\x00"), hash[:]...))
	s, done, err := g.resume(sessionID(name[:sessionIDBytes]), g.o.Now().Add(neverIdle), from,
		func() (identity.Peer, error) { return whose(secret) })
	if err != nil && !errors.Is(err, credential.ErrLater) {
		err = errors.Join(ErrStranger, err)
	}
	return s, done, err
}

// noCaller records a refused request.
func (g *Authenticator) noCaller(v Visitor, err error) error {
	g.o.Count(countDenied, 1)
	who := strangers
	if v.Known() {
		who = v.Peer.Identity.String()
	}
	why := strings.ReplaceAll(err.Error(), "\n", ": ")
	if g.say("Refused an HTTP call from %s: %s", v.from, why) {
		g.noteRefusal(audit.Line{Who: who, From: v.from, Call: "http", Outcome: fmt.Sprintf("%s: %s", audit.Refused, why)})
	}
	return err
}
