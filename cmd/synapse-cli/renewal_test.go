package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
)

// This file defines a fake issuer that accepts each refresh token once, like many real ones. A second use looks
// like theft.

// rotating is this issuer. The n-th refresh token is secret-n, and tokens last an hour.
type rotating struct {
	*httptest.Server
	mu      sync.Mutex
	good    int // number of the valid refresh token
	revoked string
	answers int // error status of all answers; 0: success
}

func newRotating(t *testing.T) *rotating {
	r := &rotating{good: 1}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

// ServeHTTP answers as the issuer.
func (r *rotating) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case q.URL.Path == "/revoke":
		r.revoked = q.FormValue("token")
	case q.URL.Path != "/token":
		fmt.Fprintf(w, `{"issuer": %q, "token_endpoint": %q, "revocation_endpoint": %q}`, r.URL, r.URL+"/token", r.URL+"/revoke")
	case r.answers != 0:
		w.WriteHeader(r.answers)
	case q.FormValue("refresh_token") != fmt.Sprint("secret-", r.good):
		r.good = -1 // all its refresh tokens are now invalid
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error": "invalid_grant"}`)
	default:
		r.good++
		fmt.Fprintf(w, `{"id_token": %q, "refresh_token": "secret-%d"}`, issuedFor(0, time.Hour), r.good)
	}
}

// issuedFor returns a token that was issued this long ago and expires after until.
func issuedFor(ago, until time.Duration) string {
	now := time.Now()
	claims := fmt.Sprintf(`{"iat": %d, "exp": %d}`, now.Add(-ago).Unix(), now.Add(until).Unix())
	return "h." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".s"
}

// person returns the environment of a user of the issuer, with such a token.
func (r *rotating) person(t *testing.T, ago, until time.Duration) (env map[string]string, path, token string) {
	token = credential.WithRoot("lab", [32]byte{1}, issuedFor(ago, until))
	env, path = home(t, fmt.Sprintf("current: lab\ncontexts:\n- {name: lab, server: 'lab:9000', cluster: lab, user: ann, "+
		"role: submitter, token: %s, issuer: %q, client: synapse, refresh: secret-1}\n", token, r.URL))
	return env, path, token
}

func freshOf(env map[string]string) (token string, until time.Time, said string, err error) {
	var out bytes.Buffer
	a := &app{stdout: &out, stderr: &out, lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok }}
	token, until, err = a.fresh(context.Background(), "lab")
	return token, until, out.String(), err
}

// TestRenewedOnce checks that of several concurrent commands only one renews an expired or half-expired token, and
// that all use the new one. Only the user can read the refresh token.
func TestRenewedOnce(t *testing.T) {
	for name, of := range map[string][2]time.Duration{
		"over": {time.Hour, -time.Second}, "half over": {time.Hour, 50 * time.Minute},
	} {
		r := newRotating(t)
		env, path, old := r.person(t, of[0], of[1])
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				token, until, said, err := freshOf(env)
				if err != nil || token == old || time.Until(until) < 50*time.Minute || said != "" {
					t.Errorf("%s: until %s, said %q, %v; the old one: %v", name, until, said, err, token == old)
				}
			})
		}
		all.Wait()
		text, err := os.ReadFile(path)
		info, _ := os.Stat(path)
		if err != nil || !strings.Contains(string(text), "refresh: secret-2") || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: kept is %s with %v (%v)", name, text, info.Mode(), err)
		}
	}
}

// TestNotRenewed checks that a token with a long validity is used unchanged. While the issuer is unreachable, a
// token is used until it expires; then the error is temporary. A login that the issuer has ended is a permanent
// error.
func TestNotRenewed(t *testing.T) {
	r := newRotating(t)
	env, _, old := r.person(t, time.Minute, time.Hour)
	if token, _, _, err := freshOf(env); token != old || err != nil || r.good != 1 {
		t.Errorf("a token that lasts: %v, %v", token == old, err)
	}
	r.answers = http.StatusServiceUnavailable
	env, _, old = r.person(t, time.Hour, time.Minute)
	if token, _, said, err := freshOf(env); token != old || err != nil || said != "" {
		t.Errorf("the issuer is away: %v, %q, %v", token == old, said, err)
	}
	refused := func(what string, want messages.Code, words string) {
		t.Helper()
		env, _, _ := r.person(t, time.Hour, -time.Second)
		_, _, _, err := freshOf(env)
		var e *client.Error
		if !errors.As(err, &e) || e.Code != want || !strings.Contains(e.Text, words) || strings.Contains(e.Text, "secret") {
			t.Errorf("%s: %#v", what, err)
		}
	}
	refused("away, and the token is over", messages.Code_CODE_UNAVAILABLE, "context lab has expired and cannot be renewed")
	r.answers, r.good = 0, 7
	refused("the login is over", messages.Code_CODE_NOT_ALLOWED, "login at the issuer has expired: invalid_grant")
	env, _, _ = r.person(t, time.Hour, -time.Second)
	cliWith("", "", env, "get", "jobs").wants(t, exit.NotAllowed, "", "hint: run `synapse-cli login` again")
}

// TestLogoutEndsRenewal checks that only the issuer is asked to revoke a login.
func TestLogoutEndsRenewal(t *testing.T) {
	r := newRotating(t)
	env, path, _ := r.person(t, 0, time.Hour)
	got := cliWith("", "", env, "logout")
	got.wants(t, 0, "", "Removed context lab of cluster lab\n")
	if text, _ := os.ReadFile(path); r.revoked != "secret-1" || strings.Contains(string(text)+got.err, "secret") {
		t.Errorf("revoked is %q; kept and said: %s%s", r.revoked, text, got.err)
	}
	env, _, _ = r.person(t, 0, time.Hour)
	r.Close()
	got = cliWith("", "", env, "logout")
	got.wants(t, 0, "", "Issuer not notified")
	if strings.Contains(got.err, "secret") {
		t.Errorf("said is %s", got.err)
	}
}
