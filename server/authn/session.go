package authn

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"net"
	"time"

	"google.golang.org/grpc/peer"

	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/server/audit"
)

// This file manages browser sessions. A browser that has logged in has a cookie with the hash of its token. A
// session is an open connection of the Authenticator: it is checked against the denylist, the store and the clock,
// and counts against its identity's allowance. Programs that send a token with each request also have a session.
//
// A cookie is signed and not stored, so an open page continues after a restart of the scheduler.

const (
	// cookieFor is the lifetime of a cookie, regardless of its token.
	cookieFor = 12 * time.Hour
	// sessionIdle is the time after which a session without open requests is forgotten. The cookie can open a
	// new one.
	sessionIdle = time.Minute
	// neverIdle is the lifetime of a session that only its token limits.
	neverIdle = 10 * 366 * 24 * time.Hour
	// maxLoggedOut limits the number of remembered logouts. Each is remembered until its cookie expires. Beyond
	// the limit, all users must log in again.
	maxLoggedOut = 4096

	sessionIDBytes = 16
	cookieBytes    = 8 + sessionIDBytes + sha256.Size + sha256.Size // expiry, ID, hash of the token, signature
)

type sessionID [sessionIDBytes]byte

// Session is the session of a browser or of a program with a token.
type Session struct {
	*connection
	id    sessionID
	until time.Time
	ctx   context.Context
	end   context.CancelFunc

	uses int       // open requests; guarded by gate.mu
	last time.Time // end of the last request
}

// sessions holds the sessions of an Authenticator, guarded by its mutex.
type sessions struct {
	open   map[sessionID]*Session
	left   map[sessionID]time.Time // logged-out sessions and the expiry of their cookies
	before time.Time               // cookies that expire up to this time are refused
}

// browserSeat stands in for the connection of a session. Close ends the session, and RemoteAddr returns the
// browser's address.
type browserSeat struct {
	net.Conn // nil
	from     net.Addr
	end      context.CancelFunc
}

func (s browserSeat) RemoteAddr() net.Addr { return s.from }

func (s browserSeat) Close() error {
	s.end()
	return nil
}

// LogIn admits a user who sends a token through the web UI, and returns the cookie.
func (g *Authenticator) LogIn(v Visitor, token string, from net.Addr) (string, error) {
	if !v.named {
		return "", errNoPage
	}
	secret, err := credential.ReadPass(token)
	if err != nil {
		return "", g.noLogin(v, err)
	}
	hash := sha256.Sum256(secret)
	until := g.o.Now().Add(cookieFor)
	var id sessionID
	_, _ = rand.Read(id[:]) // never fails
	p, err := g.bearer(hash)
	if err != nil {
		return "", g.noLogin(v, err)
	}
	s, err := g.sit(id, p, until, from)
	if err != nil {
		return "", g.noLogin(v, err)
	}
	g.note(s.told("log in by a browser"))
	return g.sealed(id, hash, until), nil
}

// noLogin records a refused login.
func (g *Authenticator) noLogin(v Visitor, err error) error {
	g.o.Count(countDenied, 1)
	if g.say("Refused a browser from %s: %v", v.from, err) {
		g.noteRefusal(audit.Line{Who: strangers, From: v.from, Call: "login", Outcome: audit.Refused + ": " + err.Error()})
	}
	return err
}

// told returns an audit line about a session.
func (s *Session) told(what string) audit.Line {
	return audit.Line{Who: s.peer.Identity.String(), Pass: s.peer.Pass, From: hostOf(s), Call: "login", What: what,
		Outcome: audit.OK}
}

// Resume returns the session of a cookie for one request. Call done after the request. from is the browser's
// address.
func (g *Authenticator) Resume(v Visitor, cookie string, from net.Addr) (s *Session, done func(), err error) {
	if !v.named {
		return nil, nil, errNoPage
	}
	id, hash, until, err := g.unsealed(cookie)
	if err != nil {
		return nil, nil, err
	}
	return g.resume(id, until, from, func() (identity.Peer, error) { return g.bearer(hash) })
}

// resume returns the session with this ID for one request. If the session is not open, whose returns its peer.
func (g *Authenticator) resume(
	id sessionID, until time.Time, from net.Addr, whose func() (identity.Peer, error),
) (s *Session, done func(), err error) {
	g.mu.Lock()
	s = g.sessions.open[id]
	g.mu.Unlock()
	if s == nil || s.ctx.Err() != nil {
		p, err := whose()
		if err != nil {
			return nil, nil, err
		}
		if s, err = g.sit(id, p, until, from); err != nil {
			return nil, nil, err
		}
	}
	g.mu.Lock()
	s.uses++
	g.mu.Unlock()
	return s, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		s.uses--
		s.last = g.o.Now()
	}, nil
}

// sit opens a session.
func (g *Authenticator) sit(id sessionID, p identity.Peer, until time.Time, from net.Addr) (*Session, error) {
	if _, ok := g.purses.takes(p.Identity.String(), connections, g.o.Now()); !ok {
		return nil, errors.New("too many open connections of " + p.Identity.String() + ": close some")
	}
	s := &Session{id: id, until: until, last: g.o.Now()}
	s.ctx, s.end = context.WithCancel(context.Background())
	s.connection = &connection{
		Conn: browserSeat{from: from, end: s.end}, gate: g, peer: p, who: p.Identity.String(), asked: g.o.Now(),
	}
	g.mu.Lock()
	other := g.sessions.open[id]
	if other != nil && other.ctx.Err() == nil { // two requests of one browser came at once
		g.mu.Unlock()
		g.purses.gives(p.Identity.String(), connections)
		return other, nil
	}
	if g.sessions.open == nil {
		g.sessions.open = map[sessionID]*Session{}
	}
	g.open[s.connection], g.sessions.open[id] = struct{}{}, s
	g.mu.Unlock()
	g.o.Count(countAdmitted, 1)
	return s, nil
}

// Whom returns the text of the session's identity.
func (s *Session) Whom() string { return s.peer.Identity.String() }

// Until returns a context that ends with the session: on logout, revocation, denial or expiry.
func (s *Session) Until() context.Context { return s.ctx }

// Peer returns the peer of the session's calls.
func (s *Session) Peer() peer.Peer {
	return peer.Peer{Addr: s.RemoteAddr(), AuthInfo: proved(s.peer)}
}

// LogOut ends the session and invalidates its cookie.
func (s *Session) LogOut() {
	g, now := s.gate, s.gate.o.Now()
	g.note(s.told("log out"))
	g.mu.Lock()
	if g.sessions.left == nil {
		g.sessions.left = map[sessionID]time.Time{}
	}
	if len(g.sessions.left) >= maxLoggedOut {
		clear(g.sessions.left)
		g.sessions.before = now.Add(cookieFor)
	}
	g.sessions.left[s.id] = s.until
	delete(g.sessions.open, s.id)
	g.mu.Unlock()
	s.Close()
}

// tidy closes idle and expired sessions, and forgets logouts whose cookies have expired.
func (g *Authenticator) tidy() {
	now := g.o.Now()
	var over []*Session
	g.mu.Lock()
	for id, s := range g.sessions.open { //order: each is checked separately
		if s.ctx.Err() != nil || !now.Before(s.until) || s.uses == 0 && now.Sub(s.last) >= sessionIdle {
			delete(g.sessions.open, id)
			over = append(over, s)
		}
	}
	for id, until := range g.sessions.left { //order: each is checked separately
		if now.After(until) {
			delete(g.sessions.left, id)
		}
	}
	g.mu.Unlock()
	for _, s := range over {
		s.Close()
	}
}

// sealed returns a signed cookie.
func (g *Authenticator) sealed(id sessionID, hash identity.Digest, until time.Time) string {
	raw := binary.BigEndian.AppendUint64(nil, uint64(until.Unix()))
	raw = append(append(raw, id[:]...), hash[:]...)
	return base64.RawURLEncoding.EncodeToString(append(raw, g.sealOf(raw)...))
}

func (g *Authenticator) sealOf(raw []byte) []byte {
	p := g.page.Load()
	mac := hmac.New(sha256.New, p.seal[:])
	_, _ = mac.Write(raw) // never fails
	return mac.Sum(nil)
}

var errCookie = errors.New("session expired: log in again")

// unsealed reads a cookie that this Authenticator, or one before the restart, has signed.
func (g *Authenticator) unsealed(cookie string) (id sessionID, hash identity.Digest, until time.Time, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(cookie)
	if err != nil || len(raw) != cookieBytes || g.page.Load() == nil {
		return id, hash, until, errCookie
	}
	body, seal := raw[:cookieBytes-sha256.Size], raw[cookieBytes-sha256.Size:]
	if !hmac.Equal(seal, g.sealOf(body)) {
		return id, hash, until, errCookie
	}
	until = time.Unix(int64(binary.BigEndian.Uint64(body)), 0)
	copy(id[:], body[8:])
	copy(hash[:], body[8+sessionIDBytes:])
	g.mu.Lock()
	_, left := g.sessions.left[id]
	before := g.sessions.before
	g.mu.Unlock()
	if now := g.o.Now(); left || !now.Before(until) || !until.After(before) {
		return id, hash, until, errCookie
	}
	return id, hash, until, nil
}
