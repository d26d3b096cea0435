package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests user tokens with real processes. An admin creates them, `login` stores them, and they have the
// permissions of the role. After their revocation they are rejected, also on open connections.

func TestPeoplesTokens(t *testing.T) {
	s := newSecured(t)
	admin := func(args ...string) result { return s.as(filepath.Join(s.keys, "admin"), args...) }
	token, home := filepath.Join(s.keys, "ann.token"), t.TempDir()
	admin("token", "create", "--role", "submitter", "--user", "ann", "--ttl", "2h", "--out", token).
		wants(t, 0, "", "of ann (submitter) is valid until")
	ann := func(stdin string, args ...string) result {
		cmd := s.command(filepath.Join(bin, "synapse-cli"), args...)
		cmd.Env = append(os.Environ(), "HOME="+home, "SYNAPSE_CONTEXTS="+filepath.Join(home, "contexts"))
		cmd.Stdin = strings.NewReader(stdin)
		return ask(t, cmd)
	}
	text, err := os.ReadFile(token)
	if err != nil {
		t.Fatal(err)
	}
	ann(string(text), "login", s.address, "--token-file", "-").
		wants(t, 0, "", "Logged in to cluster e2e as ann (submitter)")
	ann("", "whoami").wants(t, 0, "ann, submitter of cluster e2e with token ", "")
	s.node("n1", "r1", "--tls", s.folder("node", "n1"))
	got := ann("", "submit", "-q", "--cpu", "1", "--image", "host", "--", "sleep", "600").wants(t, 0, "", "")
	id := strings.TrimSpace(got.out)
	s.await(id, "running")
	ann("", "get", "jobs", "--me", "-q").wants(t, 0, id, "")
	other := strings.TrimSpace(
		admin("submit", "-q", "--cpu", "1", "--image", "host", "--", "sleep", "600").wants(t, 0, "", "").out)
	ann("", "cancel", other).wants(t, 5, "", "ann (submitter) may not cancel job "+other+" of admin")
	ann("", "token", "list").wants(t, 5, "", "may not list user tokens")

	one := strings.Fields(admin("token", "list", "-q").wants(t, 0, "", "").out)
	if len(one) != 1 {
		t.Fatalf("the tokens are %q", one)
	}
	follows := s.command(filepath.Join(bin, "synapse-cli"), "watch", "--retry", "0")
	follows.Env = append(os.Environ(), "SYNAPSE_CONTEXTS="+filepath.Join(home, "contexts"))
	ended := s.watching(follows, func() { admin("submit", "-q", "--cpu", "1", "--image", "host", "--", "true") })
	began := time.Now()
	admin("token", "revoke", one[0]).wants(t, 0, "", "of ann (submitter) is revoked")
	ann("", "get", "jobs").wants(t, 5, "", "is unknown: revoked")
	select {
	case <-ended:
		t.Logf("the open watch ended %.1f s after its token was revoked", time.Since(began).Seconds())
	case <-time.After(pace.Of(time.Minute)):
		_ = follows.Process.Kill()
		t.Fatal("the watch of a revoked user continues")
	}

	// The secret is in no record or output of the cluster.
	secret := strings.TrimSpace(string(text[bytes.LastIndexByte(text, '.')+1:]))
	if strings.Contains(s.scheduler.said(), secret) {
		t.Error("the log contains the secret")
	}
	_ = filepath.Walk(filepath.Join(s.dir, "scheduler"), func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			if data, err := os.ReadFile(path); err != nil || bytes.Contains(data, []byte(secret)) {
				t.Errorf("%s contains the secret (%v)", path, err)
			}
		}
		return nil
	})
	dir := filepath.Join(s.dir, "scheduler", "audit")
	account := admin("audit", dir).wants(t, 0, "create and revoke user tokens role=submitter name=ann", "").out
	if !strings.Contains(account, one[0]) || strings.Contains(account, secret) {
		t.Errorf("unexpected audit log: %s", account)
	}
	s.plaintext(token)
}

// watching starts a watch, and waits until it has shown an effect of stir.
func (s *secured) watching(follows *exec.Cmd, stir func()) <-chan error {
	s.t.Helper()
	shown, err := os.Create(filepath.Join(s.keys, "watched"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer shown.Close()
	follows.Stdout = shown
	if err := follows.Start(); err != nil {
		s.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- follows.Wait() }()
	for limit := pace.Until(20 * time.Second); ; {
		stir()
		if info, err := shown.Stat(); err == nil && info.Size() > 0 {
			return ended
		}
		if time.Now().After(limit) {
			_ = follows.Process.Kill()
			s.t.Fatal("the watch shows nothing")
		}
	}
}

// plaintext checks that a token is sent neither to a scheduler without TLS nor to another listener.
func (s *secured) plaintext(token string) {
	s.t.Helper()
	plain := newClusterOf(s.t, "")
	cmd := plain.command(filepath.Join(bin, "synapse-cli"), "get", "jobs", "--retry", "0", "--token-file", token)
	ask(s.t, cmd).wants(s.t, 8, "", "or the program there is not a scheduler")
	plain.cli("token", "create", "--role", "viewer", "--user", "x").wants(s.t, 2, "", "user tokens require TLS")
}
