package authn

import (
	"context"
	"crypto/sha256"
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

// This file owns programs that make calls by HTTP. Who one is its connection proved, by a certificate or by the
// kernel's word; or each of its requests shows a token. A token has a session at the gate, as a browser that has logged
// in: it is held against the denylist, the store and the clock while requests of it are open, and ends them when it
// ends.
//
// The alternative turned down is to take every token from everybody. No scheduler's certificate names a host, so a
// program that verifies as all programs do has to be told not to, and then tells its token to whoever stands between.
// What may be overheard must open no more than a look.

// protocolProgram is offered in its handshake by a program that proves the scheduler by the cluster's root before it
// tells a token. A library's client that was told to verify nothing does not offer it.
const protocolProgram = "synapse-http/1"

// ErrUnproved is why a token is not taken from a program that has hardly proved whom it tells it to.
var ErrUnproved = errors.New(
	"a token of another role than viewer is taken where the scheduler was proved first: by a " +
		"client of ours, or under a name of the page's certificate (--web-cert); or show a certificate")

// errTwice is why a request is refused that has two senders.
var errTwice = errors.New("token cannot be combined with a client certificate or a local user: use one of them")

// Caller makes calls by HTTP.
type Caller struct {
	Peer  peer.Peer
	Until context.Context // done when nothing more is answered; the connection's end says the rest
	Leave func()          // the request has been answered
	gate  *Authenticator
	peer  identity.Peer
}

// Caller returns who makes a request, which has come from an address with this Authorization.
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

// Roots are the certificates by which the scheduler is proved, as a file has them; empty: an outside issuer has them.
// Each handshake shows them, to whoever asks.
func (g *Authenticator) Roots() (text []byte) {
	for _, root := range g.trust.Roots {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Raw})...)
	}
	return text
}

// Whom returns who it is, as everything here knows it.
func (c *Caller) Whom() string { return c.peer.Identity.String() }

// borne is the session of a token in a request's header, whatever the kind of token.
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

// noCaller notes who was not let in.
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
