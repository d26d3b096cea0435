package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// This file tests the examples in help texts about user tokens, which need a cluster under TLS.

var ofTokens = regexp.MustCompile(`synapse-cli (login|logout|context use|contexts|token (list|revoke|create --role))`)

// TestExamplesOfTokens runs these examples unchanged, for an admin who has logged in to a cluster called research.
func TestExamplesOfTokens(t *testing.T) {
	s := newSecured(t)
	admin := filepath.Join(s.keys, "admin")
	var lines []string
	for _, command := range []string{"context", "contexts", "login", "logout", "token"} {
		for _, line := range s.examplesOf(command) {
			// TestIssuersTokens has an issuer
			if ofTokens.MatchString(line) && !strings.Contains(line, "--oidc") {
				lines = append(lines, line)
			}
		}
	}
	if len(lines) < 10 {
		t.Fatalf("%d examples were found: %q", len(lines), lines)
	}
	for _, line := range lines {
		home := t.TempDir()
		env := []string{"SYNAPSE_TLS=" + admin, "SYNAPSE_SERVER=" + s.address}
		run := func(line string) result {
			cmd := s.command("/bin/sh", "-c", line)
			cmd.Dir, cmd.Env = home, append(os.Environ(), append(env, "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+home)...)
			return ask(t, cmd)
		}
		made := run("synapse-cli token create --role submitter --user ann --out ann.token").wants(t, 0, "", "Token ")
		id := strings.Fields(made.err)[1]
		run("synapse-cli certify submitter ann --by "+filepath.Join(s.keys, "scheduler")+" --out keys/ann").
			wants(t, 0, "", "")
		if strings.Contains(line, "--out") {
			run("rm ann.token")
		}
		env = env[:1]
		run("synapse-cli login "+s.address+" --name research").wants(t, 0, "", "Logged in")
		if env = nil; strings.Contains(line, "login") {
			run("rm -r .config") // the first line
		}
		told := strings.NewReplacer("head1:9000,head2:9000", s.address, "head1:9000", s.address,
			"pass show research", "cat ann.token", "3f9a2c01d4e58b77", id).Replace(line)
		if got := run(told); got.code != 0 {
			t.Errorf("$ %s\nended with %d: %s%s", told, got.code, got.out, got.err)
		}
	}
}
