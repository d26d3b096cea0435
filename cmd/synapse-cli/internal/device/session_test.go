package device

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// This file defines a fake issuer that renews tokens or refuses to.

// renewer is a fake issuer with a fixed answer to renewals. It records the requests.
type renewer struct {
	*httptest.Server
	status int
	text   string
	asked  url.Values
}

func newRenewer(t *testing.T, status int, text string) *renewer {
	r := &renewer{status: status, text: text}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

// ServeHTTP answers as the issuer.
func (r *renewer) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	switch q.URL.Path {
	case "/token", "/revoke":
		_ = q.ParseForm()
		r.asked = q.PostForm
		w.WriteHeader(r.status)
		fmt.Fprint(w, r.text)
	default:
		fmt.Fprintf(w, `{"issuer": %q, "token_endpoint": %q, "revocation_endpoint": %q}`, r.URL, r.URL+"/token", r.URL+"/revoke")
	}
}

func (r *renewer) session() Session { return Session{r.URL, "synapse", "secret-1"} }

// TestRenew checks that the issuer's tokens are returned, with or without a new refresh token. A permanent refusal
// is ErrOver, a temporary one is not, and no error contains a secret.
func TestRenew(t *testing.T) {
	for text, want := range map[string]Tokens{
		`{"id_token": "a.b.c", "refresh_token": "secret-2"}`: {"a.b.c", "secret-2"},
		`{"id_token": "a.b.c"}`:                              {"a.b.c", "secret-1"},
	} {
		r := newRenewer(t, http.StatusOK, text)
		if got, err := r.session().Renew(t.Context()); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
		if got := r.asked.Encode(); got != "client_id=synapse&grant_type=refresh_token&refresh_token=secret-1" {
			t.Errorf("asked was %s", got)
		}
	}
	for _, c := range []struct {
		status int
		text   string
		over   bool
	}{
		{http.StatusBadRequest, `{"error": "invalid_grant", "error_description": "secret-1 is not known"}`, true},
		{http.StatusUnauthorized, `{"error": "invalid_client"}`, true},
		{http.StatusOK, `{"access_token": "x"}`, true},
		{http.StatusTooManyRequests, `{"error": "secret-1"}`, false},
		{http.StatusBadRequest, `{"error": "temporarily_unavailable"}`, false},
		{http.StatusNotFound, `{}`, false},
		{http.StatusNotFound, `no JSON`, false},
		{http.StatusBadGateway, ``, false},
	} {
		_, err := newRenewer(t, c.status, c.text).session().Renew(t.Context())
		if err == nil || errors.Is(err, ErrOver) != c.over || strings.Contains(err.Error(), "secret") {
			t.Errorf("%d %s: %v", c.status, c.text, err)
		}
	}
	if _, err := (Session{"http://id.example.org", "synapse", "secret-1"}).Renew(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "must begin with https://") {
		t.Errorf("in the clear: %v", err)
	}
	r := newRenewer(t, http.StatusOK, "")
	other := httptest.NewServer(http.RedirectHandler(r.URL+"/token", http.StatusTemporaryRedirect))
	defer other.Close()
	if _, err := (Session{other.URL, "synapse", "secret-1"}).Renew(t.Context()); err == nil || r.asked != nil {
		t.Errorf("somebody else was told the refresh token: %v, %v", r.asked, err)
	}
}

// TestRevoke checks that the issuer receives the refresh token, and that any successful status is accepted.
func TestRevoke(t *testing.T) {
	r := newRenewer(t, http.StatusOK, "")
	if err := r.session().Revoke(t.Context()); err != nil {
		t.Error(err)
	}
	if got := r.asked.Encode(); got != "client_id=synapse&token=secret-1&token_type_hint=refresh_token" {
		t.Errorf("asked was %s", got)
	}
	r = newRenewer(t, http.StatusBadRequest, `{"error": "unsupported secret-1"}`)
	if err := r.session().Revoke(t.Context()); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("it refused: %v", err)
	}
	if err := (newStage(t, "nothing")).session().Revoke(t.Context()); err == nil {
		t.Error("an issuer that has no place for it was told")
	}
}

func (s *stage) session() Session { return Session{s.URL, "synapse", "secret-1"} }

// TestLasts checks the validity that is read from a token, and that other texts have none.
func TestLasts(t *testing.T) {
	of := func(claims string) string { return "h." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".s" }
	for token, want := range map[string][2]int64{
		of(`{"iat": 100, "exp": 200.5}`): {100, 200}, of(`{"exp": 200}`): {0, 200},
	} {
		if from, until, ok := Lasts(token); !ok || !from.Equal(time.Unix(want[0], 0)) || !until.Equal(time.Unix(want[1], 0)) {
			t.Errorf("%s: %s to %s, %v", token, from, until, ok)
		}
	}
	for _, token := range []string{"", "a.b", "a.!.c", of("{}"), of("[]"), of(`{"exp": "soon"}`), of(`{"exp": -1}`)} {
		if _, _, ok := Lasts(token); ok {
			t.Errorf("%q says how long it is good", token)
		}
	}
}
