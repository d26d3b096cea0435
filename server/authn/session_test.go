package authn

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
)

// This file tests browser sessions and their end.

var browser = &net.TCPAddr{IP: net.IPv4(10, 0, 0, 9), Port: 4711}

// pageFor creates a certificate for these names, signed by an unrelated CA.
func pageFor(t *testing.T, names ...string) Page {
	t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	made := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: today.Add(-time.Hour),
		NotAfter: today.Add(9 * time.Hour)}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			made.IPAddresses = append(made.IPAddresses, ip)
		} else {
			made.DNSNames = append(made.DNSNames, name)
		}
	}
	files := Page{Cert: filepath.Join(t.TempDir(), "cert.pem"), Key: filepath.Join(t.TempDir(), "key.pem")}
	chain := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: must(x509.CreateCertificate(rand.Reader, made, made, key.Public(), key))})
	secret := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(key))})
	if err := errors.Join(os.WriteFile(files.Cert, chain, 0o600), os.WriteFile(files.Key, secret, 0o600)); err != nil {
		t.Fatal(err)
	}
	return files
}

// newDesk returns a rig with a certificate for browsers and a store of tokens.
func newDesk(t *testing.T) *rig {
	t.Helper()
	s := newVisited(t)
	s.keepPasses()
	s.gate.o.Page = pageFor(t, "head1", "127.0.0.1")
	if err := s.gate.readPage(); err != nil {
		t.Fatal(err)
	}
	return s
}

var atPage = Visitor{from: "10.0.0.9", named: true}

// login logs in and returns the cookie.
func (s *rig) login(role identity.Role, name string, ttl time.Duration) (cookie, id string) {
	s.t.Helper()
	text, id := s.kept(role, name, ttl)
	return must(s.gate.LogIn(atPage, text, browser)), id
}

// comes returns the identity of a cookie.
func (s *rig) comes(cookie string) string {
	session, done, err := s.gate.Resume(atPage, cookie, browser)
	if err != nil {
		return "error: " + err.Error()
	}
	defer done()
	who := session.Peer()
	proof, ok := who.AuthInfo.(Proof)
	return fmt.Sprintf("%s %v %s", proof.Peer.Identity, ok, who.Addr)
}

// TestLogIn checks that a token of any role can log in at the web UI. Other texts, and connections without the
// certificate for browsers, are refused. The cookie does not contain the secret of the token.
func TestLogIn(t *testing.T) {
	s := newDesk(t)
	for _, role := range identity.People {
		cookie, _ := s.login(role, "ann", time.Hour)
		want := "synapse://c-a/" + string(role) + "/ann true 10.0.0.9:4711"
		if got := s.comes(cookie); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	text, _ := s.kept(identity.RoleAdmin, "ada", time.Hour)
	if _, err := s.gate.LogIn(Visitor{from: "10.0.0.9"}, text, browser); !errors.Is(err, errNoPage) {
		t.Errorf("where the cluster's certificate is shown: %v", err)
	}
	strange, _, _ := credential.NewPass("c-a", [32]byte{1})
	for _, wrong := range []string{"", "x", strange, text + "0"} {
		if cookie, err := s.gate.LogIn(atPage, wrong, browser); err == nil || cookie != "" {
			t.Errorf("%.20q logs in", wrong)
		}
	}
	cookie := must(s.gate.LogIn(atPage, text, browser))
	raw := must(base64.RawURLEncoding.DecodeString(cookie))
	if secret := s.read(text).Secret(); bytes.Contains(raw, secret) {
		t.Error("the cookie has the secret")
	}
	if _, _, err := s.gate.Resume(Visitor{from: "10.0.0.9"}, cookie, browser); !errors.Is(err, errNoPage) {
		t.Errorf("a cookie at another name: %v", err)
	}
}

// TestCookieIsSealed checks that no byte of a cookie can be changed.
func TestCookieIsSealed(t *testing.T) {
	s := newDesk(t)
	cookie, _ := s.login(identity.RoleViewer, "vera", time.Hour)
	raw := must(base64.RawURLEncoding.DecodeString(cookie))
	for i := range raw {
		raw[i] ^= 1
		if got := s.comes(base64.RawURLEncoding.EncodeToString(raw)); !strings.HasPrefix(got,
			"error: session expired: log in") {
			t.Fatalf("byte %d may be another one: %s", i, got)
		}
		raw[i] ^= 1
	}
	if got := s.comes(cookie[:40]); !strings.HasPrefix(got, "error: ") {
		t.Errorf("a part of it: %s", got)
	}
}

// TestSessionEnds checks that expiry of the token, the denylist, expiry of the session, and logout end a session.
// Its open requests end, and its cookie is refused.
func TestSessionEnds(t *testing.T) {
	for name, end := range map[string]func(*rig, *Session, string){
		"revoked": func(s *rig, _ *Session, pass string) {
			if err := s.shelf.DropPass(s.shelf.epoch, pass); err != nil {
				s.t.Fatal(err)
			}
			s.later(recheckEvery)
		},
		"denied": func(s *rig, _ *Session, _ string) {
			if err := s.by.Write("denylist", []byte("synapse://c-a/operator/otto\n")); err != nil {
				s.t.Fatal(err)
			}
			s.later(recheckEvery)
		},
		"the token's time": func(s *rig, _ *Session, _ string) { s.later(24 * time.Hour) },
		"the cookie's":     func(s *rig, _ *Session, _ string) { s.later(cookieFor) },
		"logged out":       func(_ *rig, session *Session, _ string) { session.LogOut() },
	} {
		t.Run(name, func(t *testing.T) {
			s := newDesk(t)
			cookie, pass := s.login(identity.RoleOperator, "otto", 23*time.Hour)
			other, _ := s.login(identity.RoleViewer, "vera", 100*time.Hour)
			session, done, err := s.gate.Resume(atPage, cookie, browser)
			if err != nil {
				t.Fatal(err)
			}
			defer done()
			s.later(recheckEvery)
			if session.Until().Err() != nil {
				t.Fatal("it ended by itself")
			}
			end(s, session, pass)
			if session.Until().Err() == nil {
				t.Error("what is open goes on")
			}
			if got := s.comes(cookie); !strings.HasPrefix(got, "error: ") {
				t.Errorf("the cookie is taken for %s", got)
			}
			if got := s.comes(other); strings.HasPrefix(got, "error: ") && s.clock().Sub(today) < cookieFor {
				t.Errorf("somebody else is refused: %s", got)
			}
		})
	}
}

// TestSessionGoesOn checks that a cookie is valid after a restart of the scheduler, that an idle session is
// forgotten, and that a new key of the certificate invalidates cookies.
func TestSessionGoesOn(t *testing.T) {
	s := newDesk(t)
	cookie, _ := s.login(identity.RoleViewer, "vera", 10*time.Hour)
	s.later(2 * sessionIdle)
	if n := len(s.gate.sessions.open) + len(s.gate.open) + s.gate.purses.of("synapse://c-a/viewer/vera",
		s.clock()).has[connections]; n != 0 {
		t.Errorf("%d are kept of nobody", n)
	}
	if got := s.comes(cookie); !strings.HasPrefix(got, "synapse://c-a/viewer/vera") {
		t.Errorf("later: %s", got)
	}
	again := must(New(Options{Folder: s.by, Log: s.log, Now: s.clock, Page: s.gate.o.Page, Pass: s.shelf.pass}))
	t.Cleanup(again.Close)
	before := s.gate
	s.gate = again
	if got := s.comes(cookie); !strings.HasPrefix(got, "synapse://c-a/viewer/vera") {
		t.Errorf("started again: %s", got)
	}
	again.o.Page = pageFor(t, "head1")
	again.recheck()
	if got := s.comes(cookie); !strings.HasPrefix(got, "error: ") {
		t.Errorf("another key: %s", got)
	}
	s.gate = before
}

// TestLoggedOutIsBounded checks that very many logouts use limited memory, and that none of their cookies is
// accepted.
func TestLoggedOutIsBounded(t *testing.T) {
	s := newDesk(t)
	text, _ := s.kept(identity.RoleViewer, "vera", 10*time.Hour)
	var first string
	for i := range maxLoggedOut + 1 {
		cookie := must(s.gate.LogIn(atPage, text, browser))
		session, done, err := s.gate.Resume(atPage, cookie, browser)
		if err != nil {
			t.Fatal(err)
		}
		session.LogOut()
		done()
		if i == 0 {
			first = cookie
		}
	}
	if n := len(s.gate.sessions.left); n > maxLoggedOut {
		t.Errorf("%d are remembered", n)
	}
	if got := s.comes(first); !strings.HasPrefix(got, "error: ") {
		t.Errorf("the first gets in again: %s", got)
	}
}

// TestPageCertificate checks that a client that requests a name or address of the web UI gets its certificate,
// without a request for a client certificate. gRPC and visitors under other names get the cluster's certificate.
func TestPageCertificate(t *testing.T) {
	s := newDesk(t)
	viewer := s.badge(s.by, identity.RoleViewer, "vera")
	for _, c := range []struct {
		name      string
		page      bool
		protocols []string
	}{
		{"head1", true, []string{"h2", "http/1.1"}}, {"", true, []string{"http/1.1"}},
		{"other", false, []string{"h2", "http/1.1"}}, {"head1", false, []string{"h2"}},
	} {
		asked := false
		conn, err := tls.Dial("tcp", s.address, &tls.Config{
			InsecureSkipVerify: true, ServerName: c.name, NextProtos: c.protocols,
			ClientSessionCache: tls.NewLRUClientSessionCache(1), // like browsers
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				asked = true
				return viewer.Shows().TLS(), nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		shown := conn.ConnectionState().PeerCertificates[0]
		if page := len(shown.DNSNames) > 0; page != c.page || asked == c.page {
			t.Errorf("%q by %v: the page's certificate %v, asked for one %v", c.name, c.protocols, page, asked)
		}
		conn.Close()
	}
	if !s.gate.PageName("head1:9000") || !s.gate.PageName("127.0.0.1:9000") || s.gate.PageName("evil.example:9000") {
		t.Error("the names of the page are not those of its certificate")
	}
	if _, err := New(Options{Folder: s.by, Now: s.clock, Page: pageFor(t)}); err == nil ||
		!strings.Contains(err.Error(), "contains no host name") {
		t.Errorf("a certificate without a name: %v", err)
	}
	s.gate.o.Page.Cert = "/nowhere"
	s.gate.recheck()
	if s.tells("The previous certificate of the web UI stays in use") != 1 || !s.gate.PageName("head1") {
		t.Errorf("a certificate that cannot be read: %q", s.lines)
	}
}
