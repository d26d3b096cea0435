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
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// This file owns people who come by an issuer of OpenID Connect, with real processes and an issuer of the test's own.

// issuer lets everybody log in as ann, of the group ml.
type issuer struct {
	*httptest.Server
	t   *testing.T
	key *rsa.PrivateKey
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{t: t, key: key}
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
		"exp": time.Now().Add(lives).Unix(),
	}).Serialize()
	if err != nil {
		i.t.Error(err)
	}
	return text
}

// ServeHTTP is the issuer.
func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var answer any
	switch r.URL.Path {
	case "/device":
		answer = map[string]any{
			"device_code": "d1", "user_code": "ABCD-EFGH", "verification_uri": "https://id/device", "interval": 1,
		}
	case "/token":
		answer = map[string]any{"id_token": i.token(r.FormValue("client_id"), "ml", time.Hour)}
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

// TestIssuersTokens: who logs in at the issuer is its person here, with the role of the group; a token for another
// program, of another group or over is refused, and says why.
func TestIssuersTokens(t *testing.T) {
	i := newIssuer(t)
	file := filepath.Join(t.TempDir(), "oidc.yaml")
	text := fmt.Sprintf("issuer: %s\naudience: synapse\nroles: {submitter: [ml]}\nleeway: 0s\n", i.URL)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	s := newSecured(t, "--oidc", file)
	root, home := filepath.Join(s.keys, "admin", "ca.pem"), t.TempDir()
	ann := func(token string, args ...string) answer {
		t.Helper()
		cmd := s.command(filepath.Join(bin, "synapse-cli"), args...)
		cmd.Env = append(os.Environ(), "HOME="+home, "SYNAPSE_CONTEXTS="+filepath.Join(home, "contexts"))
		cmd.Stdin = strings.NewReader(token)
		return ask(t, cmd)
	}
	login := func(token string) answer {
		t.Helper()
		return ann(token, "login", s.address, "--root", root, "--token-file", "-", "--name", "other")
	}
	ann("", "login", s.address, "--root", root, "--oidc", i.URL, "--client-id", "synapse").
		wants(t, 0, "", "Log in at https://id/device, on any device, with the code ABCD-EFGH")
	ann("", "whoami").wants(t, 0, "ann, submitter of cluster e2e by token oidc-", "")
	ann("", "token", "list").wants(t, 5, "", "may not list the tokens of people")
	login(i.token("synapse", "ml", time.Hour)).wants(t, 0, "", "Logged in to cluster e2e as ann (submitter)")

	for token, words := range map[string]string{
		i.token("wiki", "ml", time.Hour):               "its token is for [\"wiki\"], and not for synapse",
		i.token("synapse", "hr", time.Hour):            "ann is in no group that has a role here",
		i.token("synapse", "ml", -time.Minute):         "its token is over since",
		newIssuer(t).token("synapse", "ml", time.Hour): "is not signed with the key that it names",
	} {
		login(token).wants(t, 5, "", words)
	}
	ann(i.token("synapse", "ml", time.Hour), "login", s.address, "--token-file", "-").wants(t, 2, "", "--root ca.pem")
	i.Close()
	login(i.token("synapse", "ml", time.Hour)).wants(t, 0, "", "Logged in") // its keys are known
}
