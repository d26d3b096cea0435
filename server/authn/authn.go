// Package authn authenticates and authorizes every connection and call to a scheduler. It decides who may connect,
// as which identity, which calls each role may make, and when a connection expires. It uses only the proved
// identities of cluster/identity, never a request's own claim about its sender. Of a job, it uses only the owner.
package authn

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/audit"
	"github.com/yi-json/synapse/server/connlimit"
	"github.com/yi-json/synapse/server/unixsocket"
)

// This file implements the scheduler's end of handshakes: its certificate, the handshakes, and the open
// connections.

// recheckEvery is the interval for checking open connections against the denylist and the clock. A denied
// connection must be closed within a minute.
const recheckEvery = 15 * time.Second

// bareProtocols lists the protocols of peers without a certificate. They send another proof.
var bareProtocols = []string{credential.ProtocolJoin, credential.ProtocolPass, credential.ProtocolIssued}

// These are the names of the counters.
const (
	countAdmitted = "gate.admitted" // admitted connections
	countRefused  = "gate.refused"  // refused connections
	countClosed   = "gate.closed"   // admitted connections that were closed later: denied or not renewed
	countRenewed  = "gate.renewed"  // renewed node certificates
	countDenied   = "gate.denied"   // calls that the caller's role may not make
	countJoined   = "gate.joined"   // first certificates of nodes

	countOverdrawn = "gate.overdrawn" // calls and connections beyond the allowance of their identity
	// countLimitSubmits counts the submits among them.
	countLimitSubmits = "limit.submits"
)

// Options holds the settings of an Authenticator. It calls Log with each line for operators.
type Options struct {
	Folder *identity.Folder // folder of the scheduler's authority
	// External replaces Folder if an outside issuer signs the certificates.
	External *identity.External
	Log      func(format string, args ...any)
	Count    func(name string, n int64)
	Now      func() time.Time // nil: the clock of the host
	// Job finds a job by its ID or a unique prefix of the ID. If nil, calls that require the owner of a job are
	// refused.
	Job func(ctx context.Context, id string) (*messages.JobRecord, error)
	// Pass finds a user's token by its ID in the store. It returns nil, nil if there is no such token. If Pass
	// is nil, all such tokens are refused.
	Pass func(id string) (*messages.PassRecord, error)
	// Issued validates a token that an OpenID Connect issuer signed. An error that is ErrLater means that the
	// token cannot be checked now. If Issued is nil, all such tokens are refused.
	Issued func(token string) (Issued, error)
	// Audit is the audit log; nil: none.
	Audit *audit.Log
	// Allowed limits each identity; zero: DefaultAllowance.
	Allowed Allowance
	// Page is the certificate for browsers.
	Page Page
}

// Authenticator admits or refuses the connections and calls to a scheduler.
type Authenticator struct {
	o         Options
	authority *identity.Pair // nil: an outside issuer signs
	own       identity.Identity
	trust     *identity.Trust
	pair      atomic.Pointer[identity.Pair]
	page      atomic.Pointer[shownPage] // nil: no certificate for browsers
	said      connlimit.Repeats
	closed    chan struct{}
	closing   sync.Once
	running   sync.WaitGroup
	joins     sync.Mutex // held while a join token is used
	purses    purses
	large     chan struct{}   // one value per large request that is decoded or served
	once      map[string]bool // calls with a single answer, which are served as streams
	patience  time.Duration   // how long a request may wait to be received

	mu       sync.Mutex
	open     map[*connection]struct{}
	renewed  map[holder]time.Time // new expiry of certificates that were renewed here
	sessions sessions
}

// holder identifies the holder of a renewed certificate. Only connections of the same identity and key stay open
// longer.
type holder struct {
	identity.Identity
	key identity.Digest
}

// connection is an admitted connection.
type connection struct {
	net.Conn
	gate  *Authenticator
	peer  identity.Peer
	who   string    // name of the peer's purse
	asked time.Time // when the store last confirmed the peer's token, if it has one
	calls bool      // for calls of users
}

// New creates the Authenticator of a scheduler. Its folder must belong to an authority, or the scheduler has a
// certificate of an outside issuer.
func New(o Options) (*Authenticator, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	if o.Count == nil {
		o.Count = func(string, int64) {}
	}
	if o.Allowed == (Allowance{}) {
		o.Allowed = DefaultAllowance()
	}
	g := &Authenticator{
		o: o, closed: make(chan struct{}), open: map[*connection]struct{}{}, renewed: map[holder]time.Time{},
		purses: purses{allowed: o.Allowed}, large: make(chan struct{}, largeAtOnce), patience: readPatience,
		once: map[string]bool{},
	}
	if err := g.learn(); err != nil {
		return nil, err
	}
	if err := errors.Join(g.renewOwn(), g.readPage()); err != nil {
		return nil, err
	}
	g.running.Add(1)
	go g.watch()
	return g, nil
}

// Identity returns the scheduler's own identity.
func (g *Authenticator) Identity() identity.Identity { return g.own }

// Close stops the checks of open connections. It closes no connections.
func (g *Authenticator) Close() {
	g.closing.Do(func() { close(g.closed) })
	g.running.Wait()
	g.noteTallies(true)
}

// renewOwn issues a new certificate for the scheduler before the old one expires. The key is never stored on disk,
// unless an outside issuer stores it.
func (g *Authenticator) renewOwn() error {
	if g.o.External != nil {
		return g.refreshOwn()
	}
	if p := g.pair.Load(); p != nil && g.o.Now().Before(identity.RenewAt(p.Leaf())) {
		return nil
	}
	p, err := g.authority.IssuePair(g.own, g.o.Now())
	if err == nil {
		g.pair.Store(p)
	}
	return err
}

// watch checks all open connections at fixed intervals, until Close.
func (g *Authenticator) watch() {
	defer g.running.Done()
	for {
		select {
		case <-g.closed:
			return
		case <-time.After(recheckEvery):
			g.recheck()
		}
	}
}

// Recheck checks all open connections immediately. Call it after a change of the denylist.
func (g *Authenticator) Recheck() { g.recheck() }

// recheck reads the denylist again and closes connections that would be refused now.
func (g *Authenticator) recheck() {
	if err := g.trust.Denied.Reload(); err != nil {
		g.say("The previous denylist stays in force: %v", err)
	}
	if err := g.renewOwn(); err != nil {
		g.say("This scheduler cannot renew its own certificate: %v", err)
	}
	if err := g.readPage(); err != nil {
		g.say("The previous certificate of the web UI stays in use: %v", err)
	}
	for _, c := range g.unwanted(g.revoked()) {
		c.Close()
	}
	g.tidy()
	g.noteTallies(false)
}

// unwanted returns the open connections that would be refused now. gone holds those that the store no longer
// confirms.
func (g *Authenticator) unwanted(gone map[*connection]error) (out []*connection) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.open { //order: each is checked separately
		until := c.peer.Until
		if later := g.renewed[holder{c.peer.Identity, c.peer.Key}]; later.After(until) {
			until = later
		}
		if err := cmp.Or(gone[c], g.trust.Recheck(c.peer, until), g.replaced(c.peer)); err != nil {
			g.o.Count(countClosed, 1)
			g.say("Closed the connection of %s from %s: %v", c.peer, c.RemoteAddr(), err)
			g.note(audit.Line{
				Who: c.peer.Identity.String(), From: hostOf(c), Call: "connect", Outcome: audit.Refused + ": " + err.Error(),
			})
			out = append(out, c)
		}
	}
	for h, until := range g.renewed { //order: each is checked separately
		if g.o.Now().After(until) {
			delete(g.renewed, h)
		}
	}
	return out
}

// say logs a line that a peer can cause. It suppresses the same line for a while. It reports whether the line was
// logged.
func (g *Authenticator) say(format string, args ...any) bool {
	line := fmt.Sprintf(format, args...)
	first := g.said.First(line, g.o.Now())
	if first {
		g.o.Log("%s", line)
	}
	return first
}

// handshake authenticates a peer. It serves renewals and joins itself, so gRPC never gets such connections.
func (g *Authenticator) handshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	var p identity.Peer
	var page *shownPage // the certificate for browsers, if a browser connects
	own, seen := g.pair.Load, func(found identity.Peer) { p = found }
	calls := g.trust.ServerConfig(own, seen)
	calls.NextProtos = []string{credential.ProtocolHTTP2}
	renewals := g.trust.RenewalConfig(own, credential.LapsedFor, seen)
	renewals.NextProtos = []string{credential.ProtocolRenewal}
	calls.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if err := g.refuseOwn(hello.SupportedProtos); err != nil {
			return nil, err
		}
		bare := slices.IndexFunc(hello.SupportedProtos, func(p string) bool { return slices.Contains(bareProtocols, p) })
		switch {
		case slices.Contains(hello.SupportedProtos, credential.ProtocolRenewal):
			return renewals, nil
		case bare >= 0:
			return g.bareConfig(hello.SupportedProtos[bare]), nil
		case slices.Contains(hello.SupportedProtos, protocolProgram):
			return g.programConfig(calls), nil
		case visits(hello.SupportedProtos):
			if page = g.named(hello); page != nil {
				return page.config(), nil
			}
			return visitConfig(calls, protocolHTTP1), nil
		}
		return nil, nil
	}
	conn := tls.Server(raw, calls)
	if err := conn.Handshake(); err != nil {
		if !gone(err) { // port probes are not logged
			g.o.Count(countRefused, 1)
			why := inWords(raw, err)
			if g.say("Refused a connection from %s: %s", hostOf(raw), why) {
				g.noteStranger(raw, "connect", why)
			}
			linger(raw)
		}
		return nil, nil, err
	}
	protocol := conn.ConnectionState().NegotiatedProtocol
	switch protocol {
	case credential.ProtocolRenewal:
		return nil, nil, errors.Join(errServed, g.renew(conn, p), conn.Close())
	case credential.ProtocolJoin:
		return nil, nil, errors.Join(errServed, g.join(conn), conn.Close())
	case credential.ProtocolPass, credential.ProtocolIssued:
		var err error
		if p, err = g.bear(conn, protocol); err != nil {
			return nil, nil, errors.Join(err, conn.Close())
		}
	}
	if p.Role == "" { // a visitor without a certificate
		return conn, Visitor{from: hostOf(raw), named: page != nil, proves: protocol == protocolProgram}, nil
	}
	if err := g.refuseReplaced(raw, p); err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	visitor := protocol != credential.ProtocolHTTP2 && p.Pass == ""
	c, err := g.enters(raw, conn, p, !visitor && slices.Contains(identity.People, p.Role))
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	g.o.Count(countAdmitted, 1)
	if visitor {
		return c, Visitor{Proof: proved(p), from: hostOf(raw)}, nil
	}
	return c, proved(p), nil
}

// refuseReplaced refuses a node if another key has taken over its name.
func (g *Authenticator) refuseReplaced(raw net.Conn, p identity.Peer) error {
	err := g.replaced(p)
	if err != nil {
		g.o.Count(countRefused, 1)
		g.say("Refused a connection of %s from %s: %v", p, hostOf(raw), err)
		g.noteRefusal(audit.Line{
			Who: p.Identity.String(), From: hostOf(raw), Call: "connect", Outcome: audit.Refused + ": " + err.Error(),
		})
	}
	return err
}

// lingers limits how long a refused connection stays half open. lingeringBytes limits how much is read from it
// meanwhile.
const (
	lingers        = time.Second
	lingeringBytes = 64 << 10
)

// linger lets a client read why it was refused. The client may already have sent a request. Closing a connection
// with unread data resets it, and the client would lose the reason.
func linger(raw net.Conn) {
	half, ok := raw.(credential.HalfCloser)
	if !ok || half.CloseWrite() != nil || raw.SetReadDeadline(time.Now().Add(lingers)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, raw, lingeringBytes) // ends when the client closes
}

// hostOf returns the address of the peer without the port, which changes with each connection.
func hostOf(c net.Conn) string {
	host, _, err := net.SplitHostPort(c.RemoteAddr().String())
	if err != nil {
		return c.RemoteAddr().String()
	}
	return host
}

// Proof holds the result of a handshake. gRPC passes it to calls.
type Proof struct {
	credentials.CommonAuthInfo
	Peer identity.Peer
}

func proved(p identity.Peer) Proof {
	return Proof{Peer: p, CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}
}

// AuthType returns the name of this kind of authentication.
func (Proof) AuthType() string { return "synapse" }

// server implements gRPC's credentials with an Authenticator.
type server struct{ gate *Authenticator }

// Credentials returns the credentials that authenticate gRPC's connections.
func (g *Authenticator) Credentials() credentials.TransportCredentials { return server{g} }

func (s server) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if here, ok := raw.(*unixsocket.Conn); ok {
		return s.gate.local(here)
	}
	return s.gate.handshake(raw)
}

func (s server) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("credentials of a scheduler cannot open connections")
}

func (s server) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

func (s server) Clone() credentials.TransportCredentials { return s }

func (s server) OverrideServerName(string) error { return nil }
