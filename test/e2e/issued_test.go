package e2e

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests users of an OpenID Connect issuer, with real processes and the test's own issuer.

// issuer logs in everybody as ann, of the group ml.
type issuer struct {
	*httptest.Server
	t       *testing.T
	key     *rsa.PrivateKey
	lives   time.Duration // lifetime of a token
	renewed atomic.Int64  // number of renewals, each with another refresh token
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{t: t, key: key, lives: time.Hour}
	i.Server = httptest.NewServer(i)
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) token(audience, group string, lives time.Duration) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: i.key, KeyID: "k1"}},
		nil)
	if err != nil {
		i.t.Error(err)
	}
	text, err := jwt.Signed(signer).Claims(map[string]any{
		"iss": i.URL, "aud": audience, "sub": "1", "preferred_username": "ann", "groups": []string{group},
		"iat": time.Now().Unix(), "exp": time.Now().Add(lives).Unix(),
	}).Serialize()
	if err != nil {
		i.t.Error(err)
	}
	return text
}

// ServeHTTP implements the issuer.
func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var answer any
	switch r.URL.Path {
	case "/device":
		answer = map[string]any{
			"device_code": "d1", "user_code": "ABCD-EFGH", "verification_uri": "https://id/device", "interval": 1,
		}
	case "/token":
		if r.FormValue("grant_type") == "refresh_token" && r.FormValue("refresh_token") != i.refresh(i.renewed.Add(1)-1) {
			w.WriteHeader(http.StatusBadRequest)
			answer = map[string]any{"error": "invalid_grant"}
			break
		}
		answer = map[string]any{
			"id_token": i.token(r.FormValue("client_id"), "ml", i.lives), "refresh_token": i.refresh(i.renewed.Load()),
		}
	case "/keys":
		answer = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: i.key.Public(), KeyID: "k1"}}}
	default:
		answer = map[string]any{
			"issuer": i.URL, "jwks_uri": i.URL + "/keys", "token_endpoint": i.URL + "/token",
			"device_authorization_endpoint": i.URL + "/device",
		}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (*issuer) refresh(nth int64) string { return fmt.Sprint("refresh-", nth) }

// believed returns a file that makes a scheduler trust the issuer.
func (i *issuer) believed() string {
	file := filepath.Join(i.t.TempDir(), "oidc.yaml")
	text := fmt.Sprintf("issuer: %s\naudience: synapse\nroles: {submitter: [ml]}\nleeway: 0s\n", i.URL)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		i.t.Fatal(err)
	}
	return file
}

// TestIssuersTokens checks that a user who logs in at the issuer has the same name here, with the role of the group. A
// token for another program, of another group, or expired must be rejected with the reason.
func TestIssuersTokens(t *testing.T) {
	i := newIssuer(t)
	s := newSecured(t, "--oidc", i.believed())
	root, home := filepath.Join(s.keys, "admin", "ca.pem"), t.TempDir()
	ann := func(token string, args ...string) result {
		t.Helper()
		cmd := s.command(filepath.Join(bin, "synapse-cli"), args...)
		cmd.Env = append(os.Environ(), "HOME="+home, "SYNAPSE_CONTEXTS="+filepath.Join(home, "contexts"))
		cmd.Stdin = strings.NewReader(token)
		return ask(t, cmd)
	}
	login := func(token string) result {
		t.Helper()
		return ann(token, "login", s.address, "--root", root, "--token-file", "-", "--name", "other")
	}
	ann("", "login", s.address, "--root", root, "--oidc", i.URL, "--client-id", "synapse").
		wants(t, 0, "", "Open https://id/device on any device and enter the code ABCD-EFGH")
	ann("", "whoami").wants(t, 0, "ann, submitter of cluster e2e with token oidc-", "")
	ann("", "token", "list").wants(t, 5, "", "may not list user tokens")
	login(i.token("synapse", "ml", time.Hour)).wants(t, 0, "", "Logged in to cluster e2e as ann (submitter)")

	for token, words := range map[string]string{
		i.token("wiki", "ml", time.Hour):               "token is for [\"wiki\"], not for synapse",
		i.token("synapse", "hr", time.Hour):            "ann is in no group with a role on this cluster",
		i.token("synapse", "ml", -time.Minute):         "token expired at ",
		newIssuer(t).token("synapse", "ml", time.Hour): "token signature does not match its key",
	} {
		login(token).wants(t, 5, "", words)
	}
	ann(i.token("synapse", "ml", time.Hour), "login", s.address, "--token-file", "-").wants(t, 2, "", "--root ca.pem")
	i.Close()
	login(i.token("synapse", "ml", time.Hour)).wants(t, 0, "", "Logged in") // its keys are known
}

// TestGoesOnOverATokensEnd checks that a long wait continues after the issuer's token has expired, because the issuer
// renews it. The refresh token must be only in the file of the contexts.
func TestGoesOnOverATokensEnd(t *testing.T) {
	i := newIssuer(t)
	i.lives = 12 * time.Second // it is renewed after half of that, because a connection takes time on a busy host
	s := newSecured(t, "--oidc", i.believed())
	s.node("n1", "r1", "--tls", s.folder("node", "n1"))
	contexts, over := filepath.Join(t.TempDir(), "contexts"), filepath.Join(s.dir, "over")
	ann := func(args ...string) <-chan result {
		cmd := s.command(filepath.Join(bin, "synapse-cli"), args...)
		cmd.Env = append(os.Environ(), "SYNAPSE_CONTEXTS="+contexts)
		ended := make(chan result, 1)
		go func() { ended <- ask(t, cmd) }()
		return ended
	}
	root := filepath.Join(s.keys, "admin", "ca.pem")
	(<-ann("login", s.address, "--root", root, "--oidc", i.URL, "--client-id", "synapse")).
		wants(t, 0, "", "The issuer renews the token until you log out")
	submit := <-ann("submit", "-q", "--cpu", "1", "--image", "host", "--", "/bin/sh", "-c",
		"echo begun; until [ -e "+over+" ]; do sleep 0.1; done; echo over")
	id := strings.TrimSpace(submit.wants(t, 0, "", "").out)
	waits, follows := ann("wait", id, "-q"), ann("logs", "-f", id)

	closed := func() int {
		return strings.Count(s.scheduler.said(), "Closed the connection of synapse://e2e/submitter/ann")
	}
	for limit := pace.Until(2 * time.Minute); closed() < 2; time.Sleep(100 * time.Millisecond) { // one of each
		if time.Now().After(limit) {
			t.Fatalf("the tokens have expired, but %d connections were closed", closed())
		}
	}
	if err := os.WriteFile(over, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for wants, ended := range map[string]<-chan result{
		"/job " + id + " succeeded\n": waits, "[0] begun\n[0] over\n/": follows,
	} {
		select {
		case got := <-ended:
			if got.code != 0 || got.out+"/"+got.err != wants {
				t.Errorf("%q ended with %d, printed %q and %q", got.args, got.code, got.out, got.err)
			}
		case <-time.After(pace.Of(time.Minute)):
			t.Fatal("the job has finished, but a client still waits")
		}
	}
	text, err := os.ReadFile(contexts)
	if info, _ := os.Stat(contexts); err != nil || info.Mode().Perm() != 0o600 ||
		!strings.Contains(string(text), i.refresh(i.renewed.Load())) || i.renewed.Load() < 1 {
		t.Errorf("renewed %d times; stored: %s (%v)", i.renewed.Load(), text, err)
	}
	if strings.Contains(s.scheduler.said(), "refresh-") {
		t.Error("a scheduler got the refresh token")
	}
}
