// Package authn stands before everything that a scheduler serves, as its gate: it decides who comes in, as whom, which
// calls each role may make, and for how long a connection stays good. It decides by the identities of cluster/identity
// alone, never by what a request says of its sender, and of a job knows its owner alone.
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

// This file owns a scheduler's end: its own certificate, the handshakes, and the connections that are open.

// recheckEvery is how often open connections are held against the denylist and the clock: well within the minute in
// which a denied one must be closed.
const recheckEvery = 15 * time.Second

// bareProtocols are of those who show no certificate, and say something in its place.
var bareProtocols = []string{credential.ProtocolJoin, credential.ProtocolPass, credential.ProtocolIssued}

// The counters.
const (
	countAdmitted = "gate.admitted" // connections that were let in
	countRefused  = "gate.refused"  // and that were not
	countClosed   = "gate.closed"   // let in, and closed later: denied, or not renewed
	countRenewed  = "gate.renewed"  // certificates signed for machines that had one
	countDenied   = "gate.denied"   // calls that the caller's role may not make
	countJoined   = "gate.joined"   // certificates signed for machines that had none

	countOverdrawn = "gate.overdrawn" // calls and connections beyond what their identity may have
	// countLimitSubmits are those of them that would have brought a job.
	countLimitSubmits = "limit.submits"
)

// Options configure a gate. Log is told a line for people.
type Options struct {
	Folder *identity.Folder // of the scheduler's authority
	// External is in the folder's place where an outside issuer signs.
	External *identity.External
	Log      func(format string, args ...any)
	Count    func(name string, n int64)
	Now      func() time.Time // nil: the machine's clock
	// Job finds the job that a caller names, by its id or the beginning of it; nil: nobody who needs to be a job's owner
	// is let in.
	Job func(ctx context.Context, id string) (*messages.JobRecord, error)
	// Pass finds a person's token by its id, as the store has it now; nil and no error: there is none. Without it nobody
	// is let in by a token.
	Pass func(id string) (*messages.PassRecord, error)
	// Issued answers whose a token is that an issuer of OpenID Connect signed. An error that is ErrLater says that this
	// cannot be known now. Nil: no such token is taken.
	Issued func(token string) (Issued, error)
	// Audit is the account of what is asked here; nil: none is kept.
	Audit *audit.Log
	// Allowed is what each identity may have; the zero: DefaultAllowance.
	Allowed Allowance
	// Page is the certificate that browsers are shown.
	Page Page
}

// Authenticator is a scheduler's gate: it lets connections and calls in, or refuses them.
type Authenticator struct {
	o         Options
	authority *identity.Pair // nil: an outside issuer signs
	own       identity.Identity
	trust     *identity.Trust
	pair      atomic.Pointer[identity.Pair]
	page      atomic.Pointer[shownPage] // nil: browsers are shown no certificate
	said      connlimit.Repeats
	closed    chan struct{}
	closing   sync.Once
	running   sync.WaitGroup
	joins     sync.Mutex // held while an invitation is spent
	purses    purses
	large     chan struct{}   // has a value for each large request that is decoded or served
	once      map[string]bool // the calls that are answered once, and served as streams
	patience  time.Duration   // of a request that waits to be read

	mu       sync.Mutex
	open     map[*connection]struct{}
	renewed  map[holder]time.Time // until when, for whoever renewed here
	sessions sessions
}

// holder names whom a renewal is for: nobody else's connection is prolonged by it.
type holder struct {
	identity.Identity
	key identity.Digest
}

// connection is one that was let in.
type connection struct {
	net.Conn
	gate  *Authenticator
	peer  identity.Peer
	who   string    // the peer, as its purse is named
	asked time.Time // when the store was last asked for the peer's token, if it has one
	calls bool      // people call over it
}

// New makes the gate of a scheduler. Its folder must be an authority's, or it has a certificate of an outside issuer.
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

// Identity is the scheduler's own.
func (g *Authenticator) Identity() identity.Identity { return g.own }

// Close ends the watch. Connections are their server's.
func (g *Authenticator) Close() {
	g.closing.Do(func() { close(g.closed) })
	g.running.Wait()
	g.noteTallies(true)
}

// renewOwn makes the scheduler a certificate where it has none that lasts. Its key is never on a disk, unless an
// outside issuer puts it there.
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

// watch looks again, for as long as the gate stands, at all that was let in.
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

// Recheck does at once what is done every 15 seconds: for whoever has just changed the denylist.
func (g *Authenticator) Recheck() { g.recheck() }

// recheck reads the denylist again and closes what would not be let in now.
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

// unwanted are the open connections that would be refused now; gone are those of which the store says so.
func (g *Authenticator) unwanted(gone map[*connection]error) (out []*connection) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.open { //order: each is looked at alone
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
	for h, until := range g.renewed { //order: each is looked at alone
		if g.o.Now().After(until) {
			delete(g.renewed, h)
		}
	}
	return out
}

// say logs what a peer can cause, so the same line does not come again at once. It reports whether it was said.
func (g *Authenticator) say(format string, args ...any) bool {
	line := fmt.Sprintf(format, args...)
	first := g.said.First(line, g.o.Now())
	if first {
		g.o.Log("%s", line)
	}
	return first
}

// handshake proves who comes. A connection that is only good for a renewal is served here and never gets to gRPC.
func (g *Authenticator) handshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	var p identity.Peer
	var page *shownPage // by whose certificate we are known, if a browser comes to it
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
			return visitConfig(calls, protocolProgram), nil
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
		if !gone(err) { // whoever only looks whether the port is there is not worth a line
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
	if p.Role == "" { // of a visitor alone
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

// refuseReplaced refuses a machine whose name has gone to another key.
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

// lingers bounds the time for which a connection that was refused stays half open, and lingeringBytes what is read of
// it meanwhile.
const (
	lingers        = time.Second
	lingeringBytes = 64 << 10
)

// linger lets a client read why it was refused. By then it may have sent what it wants, and closing a connection with
// something unread resets it: the reason would be lost on its way.
func linger(raw net.Conn) {
	half, ok := raw.(credential.HalfCloser)
	if !ok || half.CloseWrite() != nil || raw.SetReadDeadline(time.Now().Add(lingers)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, raw, lingeringBytes) // until it closes, too
}

// hostOf returns the address that a connection comes from, without the port, which differs each time.
func hostOf(c net.Conn) string {
	host, _, err := net.SplitHostPort(c.RemoteAddr().String())
	if err != nil {
		return c.RemoteAddr().String()
	}
	return host
}

// Proof has what a handshake proved, as gRPC hands it on.
type Proof struct {
	credentials.CommonAuthInfo
	Peer identity.Peer
}

func proved(p identity.Peer) Proof {
	return Proof{Peer: p, CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}
}

// AuthType names it.
func (Proof) AuthType() string { return "synapse" }

// server is the gate as gRPC knows it.
type server struct{ gate *Authenticator }

// Credentials let gRPC's connections through the gate.
func (g *Authenticator) Credentials() credentials.TransportCredentials { return server{g} }

func (s server) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if here, ok := raw.(*unixsocket.Conn); ok {
		return s.gate.local(here)
	}
	return s.gate.handshake(raw)
}

func (s server) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("a scheduler's gate dials nobody")
}

func (s server) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

func (s server) Clone() credentials.TransportCredentials { return s }

func (s server) OverrideServerName(string) error { return nil }
