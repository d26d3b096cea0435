package oidc

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/server/oidc/described"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file defines a fake issuer on loopback, and tests which tokens are accepted.

var today = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// rig holds a fake issuer and an Issuer that verifies its tokens.
type rig struct {
	*Issuer
	t      *testing.T
	server *httptest.Server

	mu    sync.Mutex
	clock time.Time
	keys  map[string]crypto.Signer // its signing keys
	shown []string                 // IDs of the published keys
	asked int                      // number of requests for them
	away  bool
	lines []string
}

var (
	rsaKey   = sync.OnceValue(func() crypto.Signer { k, _ := rsa.GenerateKey(rand.Reader, 2048); return k })
	otherKey = sync.OnceValue(func() crypto.Signer { k, _ := rsa.GenerateKey(rand.Reader, 2048); return k })
	ecKey    = sync.OnceValue(func() crypto.Signer { k, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader); return k })
	edKey    = sync.OnceValue(func() crypto.Signer { _, k, _ := ed25519.GenerateKey(rand.Reader); return k })
)

const config = `
audience: synapse
roles:
  admin: [ops]
  submitter: [ml, nlp]
`

func newRig(t *testing.T, more string) *rig {
	t.Helper()
	s := &rig{t: t, clock: today, shown: []string{"r", "e", "d"}, keys: map[string]crypto.Signer{
		"r": rsaKey(), "e": ecKey(), "d": edKey(), "new": otherKey(),
	}}
	s.server = httptest.NewServer(s)
	t.Cleanup(s.server.Close)
	c, err := ReadConfig([]byte("issuer: " + s.server.URL + config + more))
	if err != nil {
		t.Fatal(err)
	}
	if s.Issuer, err = New(c, s.now, s.log); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *rig) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock
}

func (s *rig) log(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

// change runs a function while no request is served.
func (s *rig) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

// ServeHTTP answers as the issuer.
func (s *rig) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.away:
		http.Error(w, "away", http.StatusServiceUnavailable)
	case r.URL.Path == described.WellKnown:
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": s.server.URL, "jwks_uri": s.server.URL + "/keys"})
	default:
		s.asked++
		set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: []byte("a secret of both ends"), KeyID: "shared"}}}
		for _, id := range s.shown {
			set.Keys = append(set.Keys, jose.JSONWebKey{Key: s.keys[id].Public(), KeyID: id, Use: "sig"})
		}
		_ = json.NewEncoder(w).Encode(set)
	}
}

// claims returns the claims of a valid token with changes. A nil value removes a claim.
func (s *rig) claims(other map[string]any) map[string]any {
	all := map[string]any{
		"iss": s.server.URL, "aud": "synapse", "sub": "1", "preferred_username": "ann", "groups": []string{"all", "ml"},
		"iat": today.Unix(), "exp": today.Add(time.Hour).Unix(),
	}
	maps.Copy(all, other)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	return all
}

func (s *rig) sign(alg jose.SignatureAlgorithm, key any, id string, claims map[string]any) string {
	s.t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: id}}, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	text, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		s.t.Fatal(err)
	}
	return text
}

// token returns a token signed with the issuer's RSA key.
func (s *rig) token(other map[string]any) string {
	s.t.Helper()
	return s.sign(jose.RS256, s.keys["r"], "r", s.claims(other))
}

// refused checks that a token is refused, and the reason.
func (s *rig) refused(what, token, words string) {
	s.t.Helper()
	p, err := s.Verify(token)
	if err == nil || !strings.Contains(err.Error(), words) {
		s.t.Errorf("%s: %+v, %v, want %q", what, p, err, words)
	}
}

func (s *rig) believed(what, token string) Person {
	s.t.Helper()
	p, err := s.Verify(token)
	if err != nil {
		s.t.Errorf("%s: %v", what, err)
	}
	return p
}

// TestBelieved checks that a token is accepted with each asymmetric algorithm. The user has the name in the token
// and the highest role of its groups, until the token expires.
func TestBelieved(t *testing.T) {
	s := newRig(t, "others: viewer\n")
	want := Person{Name: "ann", Role: identity.RoleSubmitter, Until: today.Add(time.Hour + defaultLeeway)}
	for alg, id := range map[jose.SignatureAlgorithm]string{
		jose.RS256: "r", jose.RS512: "r", jose.PS256: "r", jose.ES256: "e", jose.EdDSA: "d",
	} {
		p := s.believed(string(alg), s.sign(alg, s.keys[id], id, s.claims(nil)))
		if !p.Until.Equal(want.Until) || p.Name != want.Name || p.Role != want.Role {
			t.Errorf("%s: %+v, want %+v", alg, p, want)
		}
	}
	for role, groups := range map[identity.Role]any{
		identity.RoleAdmin: []string{"nlp", "ops"}, identity.RoleSubmitter: "nlp", identity.RoleViewer: nil,
	} {
		if p := s.believed(string(role), s.token(map[string]any{"groups": groups})); p.Role != role {
			t.Errorf("groups %v give %s, want %s", groups, p.Role, role)
		}
	}
	s.believed("without the key's id", s.sign(jose.ES256, s.keys["e"], "", s.claims(nil)))
	s.believed("of several audiences, for ours",
		s.token(map[string]any{"aud": []string{"x", "synapse"}, "azp": "synapse"}))
	s.believed("within the leeway", s.token(map[string]any{"exp": today.Add(-29 * time.Second).Unix(), "iat": nil}))
	s.believed("within the leeway of the other clock", s.token(map[string]any{"nbf": today.Add(29 * time.Second).Unix()}))
	if s.asked != 1 {
		t.Errorf("the issuer was asked %d times for keys that are known", s.asked)
	}
}

// TestNotBelieved checks the refused tokens and the reasons: wrong issuer, audience, time or signature, or missing
// claims.
func TestNotBelieved(t *testing.T) {
	s := newRig(t, "")
	for name, c := range map[string]struct {
		other map[string]any
		words string
	}{
		"another issuer":   {map[string]any{"iss": "https://evil.example"}, "is of issuer \"https://evil.example\""},
		"no issuer":        {map[string]any{"iss": nil}, "is of issuer"},
		"another audience": {map[string]any{"aud": "wiki"}, "is for [\"wiki\"], not for synapse"},
		"no audience":      {map[string]any{"aud": nil}, "not for synapse"},
		"given to another": {map[string]any{"aud": []string{"wiki", "synapse"}, "azp": "wiki"}, "was issued to \"wiki\""},
		"over": {map[string]any{"exp": today.Add(-31 * time.Second).Unix(), "iat": nil},
			"token expired at 2026-11-26 11:59:29 UTC, and the scheduler's clock shows 2026-11-26 12:00:00 UTC"},
		"without an end": {map[string]any{"exp": nil}, "has no expiry"},
		"not yet good": {map[string]any{"nbf": today.Add(31 * time.Second).Unix()},
			"is valid from 2026-11-26 12:00:31"},
		"made in the future":   {map[string]any{"iat": today.Add(time.Minute).Unix()}, "was issued at 2026-11-26 12:01:00"},
		"no name":              {map[string]any{"preferred_username": nil}, "has no claim preferred_username"},
		"a name that is none":  {map[string]any{"preferred_username": 7}, "has no claim preferred_username"},
		"no groups":            {map[string]any{"groups": nil}, "ann is in no group with a role on this cluster"},
		"other groups":         {map[string]any{"groups": []any{"all", 7}}, "ann is in no group with a role on this cluster"},
		"groups that are none": {map[string]any{"groups": map[string]any{"ml": true}}, "in no group"},
	} {
		s.refused(name, s.token(c.other), c.words)
	}
	good := s.token(nil)
	parts := strings.Split(good, ".")
	public, err := x509.MarshalPKIXPublicKey(s.keys["r"].Public())
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","kid":"r"}`))
	other := strings.Split(s.token(map[string]any{"groups": []string{"ops"}}), ".")
	for name, token := range map[string]string{
		"unsigned":                   none + "." + parts[1] + ".",
		"unsigned, with a signature": none + "." + parts[1] + "." + parts[2],
		"HS256 by the public key":    s.sign(jose.HS256, text, "r", s.claims(nil)),
		"HS256 by its DER":           s.sign(jose.HS256, public, "r", s.claims(nil)),
		"HS256 by a key it shows": s.sign(jose.HS256, []byte("a secret of both ends, and long enough"), "shared",
			s.claims(nil)),
		"no token":  "",
		"words":     "one.two.three",
		"encrypted": "a.b.c.d.e",
	} {
		s.refused(name, token, "is not signed by an issuer")
	}
	for name, token := range map[string]string{
		"another's signature":  parts[0] + "." + other[1] + "." + parts[2],
		"another key":          s.sign(jose.RS256, otherKey(), "r", s.claims(nil)),
		"another kind of key":  s.sign(jose.RS256, s.keys["r"], "e", s.claims(nil)),
		"another key, unnamed": s.sign(jose.RS256, otherKey(), "", s.claims(nil)),
	} {
		s.refused(name, token, "token signature does not match its key")
	}
	s.refused("a key it does not have", s.sign(jose.RS256, otherKey(), "nobody's", s.claims(nil)),
		"is signed with an unknown key")
	s.refused("a shared secret is no key", s.sign(jose.RS256, otherKey(), "shared", s.claims(nil)),
		"is signed with an unknown key")
}

// TestNames checks the configured claim and domain of the name. An email address is accepted only if the issuer has
// verified it.
func TestNames(t *testing.T) {
	s := newRig(t, "name: email\ndomain: example.org\ngroups: realm_access.roles\n")
	claims := func(mail string, proved any) map[string]any {
		return map[string]any{
			"email": mail, "email_verified": proved, "realm_access": map[string]any{"roles": []string{"ops"}},
		}
	}
	if p := s.believed("an address", s.token(claims("bob@example.org", true))); p.Name != "bob" ||
		p.Role != identity.RoleAdmin {
		t.Errorf("%+v", p)
	}
	s.refused("not verified", s.token(claims("bob@example.org", false)), "has not verified")
	s.refused("nothing said of it", s.token(claims("bob@example.org", nil)), "has not verified")
	s.refused("another domain", s.token(claims("bob@example.org.evil", true)), "which is not in example.org")
	s.refused("a part of it", s.token(claims("bob@evilexample.org", true)), "which is not in example.org")
}

// TestKeysRotate checks that new keys are requested when a token names an unknown key, at most once a minute. A
// withdrawn key is accepted for at most an hour.
func TestKeysRotate(t *testing.T) {
	s := newRig(t, "")
	old := s.token(nil)
	s.believed("at first", old)
	s.change(func() { s.shown = []string{"new"} })
	fresh := s.sign(jose.RS256, s.keys["new"], "new", s.claims(nil))
	for range 5 {
		s.refused("asked for a moment ago", fresh, "is signed with an unknown key")
	}
	if s.asked != 1 {
		t.Errorf("the issuer was asked %d times within a minute", s.asked)
	}
	s.change(func() { s.clock = today.Add(askAgain) })
	s.believed("a minute later", fresh)
	s.refused("withdrawn, and it was asked again", old, "is signed with an unknown key")

	s = newRig(t, "")
	old = s.token(map[string]any{"exp": today.Add(24 * time.Hour).Unix()})
	s.believed("at first", old)
	s.change(func() { s.shown, s.clock = []string{"new"}, today.Add(oldAfter) })
	if _, old := s.Issuer.keys.look("r"); !old {
		t.Fatal("nobody asks again for keys that are known")
	}
	s.believed("and this one does not wait", old)
	limit := pace.Until(time.Minute)
	for {
		if _, err := s.Verify(old); err != nil {
			break
		}
		if time.Now().After(limit) {
			t.Fatal("a key that was withdrawn is believed for ever")
		}
		time.Sleep(time.Millisecond)
	}
}

// TestAway checks that known keys work while the issuer is unreachable, and that a token with another key gets a
// retryable error.
func TestAway(t *testing.T) {
	s := newRig(t, "")
	s.change(func() { s.away = true })
	good := s.token(nil)
	for range 3 {
		if _, err := s.Verify(good); !errors.Is(err, ErrAway) || !strings.Contains(err.Error(), "503") {
			t.Errorf("without any key: %v", err)
		}
	}
	if len(s.lines) != 1 {
		t.Errorf("it said %q", s.lines)
	}
	s.change(func() { s.away, s.clock = false, today.Add(askAgain) })
	s.believed("it is back", good)
	s.change(func() { s.away, s.clock = true, today.Add(2*askAgain) })
	s.believed("a known key", good)
	if _, err := s.Verify(s.sign(jose.RS256, s.keys["new"], "new", s.claims(nil))); !errors.Is(err, ErrAway) {
		t.Errorf("an unknown key: %v", err)
	}
	s.believed("a known key, after that", good)
}

// TestIssuerAnswersOddly checks that an invalid discovery document, or one without usable keys, has the same effect
// as an unreachable issuer.
func TestIssuerAnswersOddly(t *testing.T) {
	s := newRig(t, "")
	good := s.token(nil)
	var about, set string
	s.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == described.WellKnown {
			fmt.Fprint(w, about)
		} else if r.URL.Path == "/elsewhere" {
			http.Redirect(w, r, "/keys", http.StatusFound)
		} else {
			fmt.Fprint(w, set)
		}
	})
	describes := func(issuer, keys string) string {
		return fmt.Sprintf(`{"issuer":%q,"jwks_uri":%q}`, issuer, keys)
	}
	ours := s.server.URL
	for i, c := range []struct{ about, set, words string }{
		{"{", "", "unexpected end"},
		{describes("https://other.example", ours+"/keys"), "", "identifies itself as"},
		{describes(ours, "http://id.example.org/keys"), "", "must begin with https"},
		{describes(ours, ours+"/elsewhere"), "", "302"},
		{describes(ours, ours+"/keys"), `{"keys":[]}`, "0 signing keys"},
		{describes(ours, ours+"/keys"), `{"keys":[{"kty":"oct","k":"c2VjcmV0","kid":"r"},{"kty":"odd"}]}`, "0 signing keys"},
		{describes(ours, ours+"/keys"), `{"keys":[` + strings.Repeat(" ", described.MaxAnswer) + `]}`, "is larger than"},
	} {
		about, set = c.about, c.set
		s.change(func() { s.clock = today.Add(time.Duration(i+1) * askAgain) })
		if _, err := s.Verify(good); !errors.Is(err, ErrAway) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%.80s %.80s: %v, want %q", c.about, c.set, err, c.words)
		}
	}
}

// TestConfig checks that a configuration that would admit unintended users is refused, and that the error names the
// key.
func TestConfig(t *testing.T) {
	const good = "issuer: https://id.example.org\naudience: synapse\nroles: {admin: [ops]}\n"
	if c, err := ReadConfig([]byte(good)); err != nil || c.Leeway != defaultLeeway || c.Name != "preferred_username" {
		t.Errorf("%+v, %v", c, err)
	}
	for text, words := range map[string]string{
		"":              "issuer: ",
		good + "who: x": "field who not found",
		strings.Replace(good, "https", "http", 1):             "issuer: ",
		strings.Replace(good, "https://", "", 1):              "issuer: ",
		strings.Replace(good, "id.example", "a:b@id.exa", 1):  "issuer: ",
		strings.Replace(good, "audience: synapse", "", 1):     "audience: ",
		strings.Replace(good, "admin", "node", 1):             "roles: ",
		strings.Replace(good, "[ops]", "[\"\"]", 1):           "roles: ",
		strings.Replace(good, "roles: {admin: [ops]}", "", 1): "roles: ",
		good + "others: scheduler":                            "others: ",
		good + "leeway: 6m":                                   "leeway: ",
		good + "leeway: -1s":                                  "leeway: ",
		good + "name: ''":                                     "name: ",
		good + "groups: ''":                                   "groups: ",
	} {
		if _, err := ReadConfig([]byte(text)); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%q: %v, want %q", text, err, words)
		}
	}
	if _, err := New(Config{CA: "none.pem"}, nil, t.Logf); err == nil {
		t.Error("certificates that are not there are no reason to stop")
	}
}

// FuzzToken checks that no unsigned text is accepted.
func FuzzToken(f *testing.F) {
	quiet := func(string, ...any) {} // f must not be used inside its target
	i, err := New(Config{Issuer: "http://127.0.0.1:1", Audience: "synapse", Name: "sub", Groups: "groups"}, nil, quiet)
	if err != nil {
		f.Fatal(err)
	}
	i.keys.known, i.keys.at = []jose.JSONWebKey{{Key: ecKey().Public(), KeyID: "e"}}, time.Now()
	f.Add("a.b.c")
	f.Add("eyJhbGciOiJFUzI1NiIsImtpZCI6ImUifQ.eyJzdWIiOiJhbm4ifQ." + strings.Repeat("A", 86))
	f.Add("eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4ifQ.")
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := i.Verify(text); err == nil {
			t.Errorf("%q is believed: %+v", text, p)
		}
	})
}

// TestLocalUsers checks that an issuer's names count as account names on the nodes only if its configuration
// permits it. Groups are always those in the token.
func TestLocalUsers(t *testing.T) {
	for more, want := range map[string]bool{"": false, "localUsers: false\n": false, "localUsers: true\n": true} {
		s := newRig(t, more)
		p, err := s.Verify(s.sign(jose.RS256, s.keys["r"], "r", s.claims(nil)))
		if err != nil || p.LocalUser != want || !slices.Equal(p.Groups, []string{"all", "ml"}) {
			t.Errorf("%q: %+v, %v", more, p, err)
		}
	}
}
