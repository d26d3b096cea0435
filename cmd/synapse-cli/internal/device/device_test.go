package device

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// This file defines a fake issuer on loopback that accepts or refuses a login.

// stage is a fake issuer with a list of answers to token requests.
type stage struct {
	*httptest.Server
	t       *testing.T
	begins  map[string]any
	answers []string // an error, or "token " and a token
	polls   int
	pauses  []time.Duration
	told    string
}

func newStage(t *testing.T, answers ...string) *stage {
	s := &stage{t: t, answers: answers, begins: map[string]any{
		"device_code": "d1", "user_code": "ABCD", "verification_uri": "https://id/device", "expires_in": 60, "interval": 5,
	}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// ServeHTTP answers as the issuer.
func (s *stage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	say := func(status int, what map[string]any) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(what)
	}
	switch r.URL.Path {
	case "/device":
		if r.FormValue("client_id") != "synapse" || r.FormValue("scope") != "openid" {
			s.t.Errorf("asked was %v", r.Form)
		}
		if s.begins["error"] != nil {
			say(http.StatusUnauthorized, s.begins)
			return
		}
		say(http.StatusOK, s.begins)
	case "/token":
		if r.FormValue("device_code") != "d1" || r.FormValue("grant_type") != grant || r.FormValue("client_id") != "synapse" {
			s.t.Errorf("asked was %v", r.Form)
		}
		answer := s.answers[min(s.polls, len(s.answers)-1)]
		s.polls++
		token, good := strings.CutPrefix(answer, "token ")
		switch {
		case answer == "down":
			w.WriteHeader(http.StatusBadGateway)
		case answer == "nothing":
			say(http.StatusOK, map[string]any{})
		case good:
			say(http.StatusOK, map[string]any{"id_token": token, "refresh_token": "r1"})
		default:
			say(http.StatusPreconditionRequired, map[string]any{"error": answer, "error_description": "so it is"})
		}
	default:
		say(http.StatusOK, map[string]any{
			"issuer": s.URL, "device_authorization_endpoint": s.URL + "/device", "token_endpoint": s.URL + "/token",
		})
	}
}

func (s *stage) login() (Tokens, error) {
	return Flow{
		Issuer: s.URL, Client: "synapse", Scope: "openid", Tell: func(at, code string) { s.told = at + " " + code },
		Pause: func(_ context.Context, d time.Duration) error {
			s.pauses = append(s.pauses, d)
			return nil
		},
	}.Token(s.t.Context())
}

// TestToken checks that the URL is reported, and that the interval of requests follows the issuer, until it sends a
// token.
func TestToken(t *testing.T) {
	s := newStage(t, "authorization_pending", "slow_down", "down", "token a.b.c")
	token, err := s.login()
	if want := (Tokens{"a.b.c", "r1"}); err != nil || token != want || s.told != "https://id/device ABCD" {
		t.Errorf("%q, %v; told was %q", token, err, s.told)
	}
	if want := []time.Duration{5e9, 5e9, 10e9, 20e9}; !slices.Equal(s.pauses, want) {
		t.Errorf("it waited %v, want %v", s.pauses, want)
	}
	s = newStage(t, "token a.b.c")
	s.begins["verification_uri_complete"] = "https://id/device?code=ABCD"
	if _, err := s.login(); err != nil || !strings.HasPrefix(s.told, "https://id/device?code=ABCD ") {
		t.Errorf("%v; told was %q", err, s.told)
	}
}

// TestNoToken checks that the requests stop after a refusal, a timeout or an invalid answer, with the reason.
func TestNoToken(t *testing.T) {
	for answer, words := range map[string]string{
		"access_denied": "issuer rejected the login: access_denied so it is", "expired_token": "login not completed in time",
		"authorization_pending": "login not completed in time", "nothing": "issuer sent no id_token",
	} {
		s := newStage(t, answer)
		if _, err := s.login(); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v, want %q", answer, err, words)
		}
		if s.polls > 12 {
			t.Errorf("%s: it asked %d times in a minute", answer, s.polls)
		}
	}
	s := newStage(t)
	s.begins = map[string]any{"error": "invalid_client"}
	if _, err := s.login(); err == nil || !strings.Contains(err.Error(), "rejected the login of synapse: invalid_client") {
		t.Errorf("another program: %v", err)
	}
	if _, err := (Flow{Issuer: "http://id.example.org", Client: "synapse"}).Token(t.Context()); err == nil {
		t.Error("an issuer was asked in the clear")
	}
	s = newStage(t)
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": s.URL})
	})
	if _, err := s.login(); err == nil || !strings.Contains(err.Error(), "with --token-file") {
		t.Errorf("without such a login: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := pause(ctx, time.Hour); err == nil {
		t.Error("nothing ends the wait")
	}
}
