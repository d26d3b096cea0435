package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
)

// This file tests the selection of the cluster and the credential of a command.

const twoContexts = `current: lab
contexts:
  - {name: lab, server: "lab:9000", cluster: lab, user: ann, role: submitter, token: the-token-of-lab}
  - {name: far, server: "far:9000", cluster: far, user: ada, role: admin, tls: /keys/far}
`

// home returns an environment with contexts.
func home(t *testing.T, text string) (env map[string]string, path string) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, ".config", "synapse", "contexts.yaml")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if text != "" {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return map[string]string{"HOME": dir}, path
}

// TestWhichCluster checks the precedence: the command line, a named context, the environment, the current context.
func TestWhichCluster(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(" mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "cli.yaml")
	if err := os.WriteFile(file, []byte("server: up:9000\ntls: /keys/up\nretry: 3s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args, env string
		want      client.Config
	}{
		{"", "SYNAPSE_CONFIG=" + file, client.Config{Server: "up:9000", TLS: "/keys/up"}},
		{"", "SYNAPSE_SERVER=x:1 SYNAPSE_CONFIG=" + file, client.Config{Server: "x:1", TLS: "/keys/up"}},
		{"", "SYNAPSE_CONTEXT=far SYNAPSE_CONFIG=" + file, client.Config{Server: "far:9000", TLS: "/keys/far"}},
		{"", "", client.Config{Server: "lab:9000", Token: "the-token-of-lab"}},
		{"--context far", "", client.Config{Server: "far:9000", TLS: "/keys/far"}},
		{"", "SYNAPSE_CONTEXT=far", client.Config{Server: "far:9000", TLS: "/keys/far"}},
		{"--server x:1", "", client.Config{Server: "x:1"}},
		{"", "SYNAPSE_SERVER=x:1", client.Config{Server: "x:1"}},
		{"--context far", "SYNAPSE_SERVER=x:1 SYNAPSE_TLS=/t", client.Config{Server: "far:9000", TLS: "/keys/far"}},
		{"--context far --server x:1", "", client.Config{Server: "x:1", TLS: "/keys/far"}},
		{"--context lab --tls /t", "", client.Config{Server: "lab:9000", TLS: "/t"}},
		{"--token-file " + token, "", client.Config{Server: "localhost:9000", Token: "mine"}},
		{"--server x:1", "SYNAPSE_TOKEN_FILE=" + token, client.Config{Server: "x:1", Token: "mine"}},
		{"--server x:1", "SYNAPSE_TOKEN=its", client.Config{Server: "x:1", Token: "its"}},
		{"--server x:1 --token-file " + token, "SYNAPSE_TOKEN=its", client.Config{Server: "x:1", Token: "mine"}},
		{"", "SYNAPSE_TOKEN=its", client.Config{Server: "localhost:9000", Token: "its"}},
		{"", "SYNAPSE_SERVER=x:1 SYNAPSE_TOKEN_FILE=" + token, client.Config{Server: "x:1", Token: "mine"}},
		{"", "SYNAPSE_CONTEXT=far SYNAPSE_SERVER=x:1 SYNAPSE_TOKEN=its",
			client.Config{Server: "far:9000", TLS: "/keys/far"}},
		{"--context far", "SYNAPSE_TOKEN=its", client.Config{Server: "far:9000", TLS: "/keys/far"}},
	} {
		env, _ := home(t, twoContexts)
		for word := range strings.FieldsSeq(c.env) {
			name, value, _ := strings.Cut(word, "=")
			env[name] = value
		}
		a := &app{name: "synapse-cli", lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok }}
		root := a.root()
		if err := root.ParseFlags(strings.Fields(c.args)); err != nil {
			t.Fatal(err)
		}
		if err := a.connectionSettings(a.connection, true); err != nil {
			t.Errorf("%s, %s: %v", c.args, c.env, err)
		}
		a.config.Retry, a.config.Waiting = 0, nil
		if got := a.config; got.Server != c.want.Server || got.TLS != c.want.TLS || got.Token != c.want.Token {
			t.Errorf("%q with %q: %+v, want %+v", c.args, c.env, got, c.want)
		}
		if c.args != "" {
			continue
		}
		got, err := client.Environment(func(name string) string { return env[name] }) // as any other program
		if err != nil || got.Server != c.want.Server || got.TLS != c.want.TLS || got.Token != c.want.Token {
			t.Errorf("%q for a program: %+v, %v, want %+v", c.env, got, err, c.want)
		}
	}
}

// TestContexts checks that contexts are listed, selected and deleted, and that only the owner can read the file.
func TestContexts(t *testing.T) {
	env, path := home(t, twoContexts)
	got := cliWith("", "", env, "contexts")
	got.wants(t, 0, "lab:9000", "")
	got.wants(t, 0, "/keys/far", "")
	if said := got.out + cliWith("", "", env, "contexts", "-o", "json").out; strings.Contains(said, "the-token") {
		t.Errorf("a token is shown: %s", said)
	}
	cliWith("", "", env, "context", "use", "far").wants(t, 0, "", "Current cluster: far at far:9000, as ada (admin)")
	cliWith("", "", env, "contexts", "-q").wants(t, 0, "far\nlab\n", "")
	cliWith("", "", env, "__complete", "context", "use", "f").wants(t, 0, "far\tada at far:9000\n:4\n", "")
	cliWith("", "", env, "__complete", "get", "jobs", "--context", "").
		wants(t, 0, "far\tada at far:9000\nlab\tann at lab:9000\n:4\n", "")
	cliWith("", "", env, "context", "use", "near").wants(t, exit.Misuse, "", "hint: use far, lab")
	cliWith("", "", env, "logout").wants(t, 0, "", "Removed context far")
	cliWith("", "", env, "logout").wants(t, exit.Misuse, "", "no context is current")
	cliWith("", "", env, "logout", "lab").wants(t, 0, "", "Removed context lab")
	cliWith("", "", env, "get", "jobs", "--context", "lab").wants(t, exit.Misuse, "", "no contexts exist")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if text, err := os.ReadFile(path); err != nil || strings.Contains(string(text), "the-token") {
		t.Errorf("%s (%v)", text, err)
	}
}

// TestContextsRefused checks that a file that others can read, or that is not a contexts file, is refused without
// quoting it.
func TestContextsRefused(t *testing.T) {
	env, path := home(t, twoContexts)
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	cliWith("", "", env, "contexts").wants(t, exit.Misuse, "", "chmod 0600 "+path)
	cliWith("", "", env, "get", "jobs").wants(t, exit.Misuse, "", "can be read by others")
	for _, text := range []string{
		"contexts: the-token", "- the-token", "the-token: {x", "contexts:\n- token: [the-token]\n",
	} {
		env, _ := home(t, text)
		r := cliWith("", "", env, "contexts")
		r.wants(t, exit.Misuse, "", "is not a file of contexts")
		if strings.Contains(r.err, "the-token") {
			t.Errorf("the error has what is in the file: %s", r.err)
		}
	}
	env, _ = home(t, "")
	cliWith("", "", env, "login", "lab:9000").wants(t, exit.Misuse, "", "token or certificate is missing")
	cliWith("", "", env, "login", "lab:9000", "--token-file", "/no/such").wants(t, exit.Misuse, "", "no such file")
	cliWith("", " \n", env, "login", "lab:9000", "--token-file", "-").wants(t, exit.Misuse, "", "file is empty")
	cliWith("", "the-token", env, "login", "lab:9000", "--token-file", "-").
		wants(t, exit.Misuse, "", "word that begins with")
	machines := "synapse1.lab." + strings.Repeat("00", 32) + "." + strings.Repeat("11", 32)
	cliWith("", machines, env, "login", "lab:9000", "--token-file", "-").
		wants(t, exit.Misuse, "", "token is a join token")
	open := filepath.Join(t.TempDir(), "open")
	if err := os.WriteFile(open, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	cliWith("", "", env, "login", "lab:9000", "--token-file", open).wants(t, exit.Misuse, "", "chmod 0600")
	env["SYNAPSE_TOKEN"], env["SYNAPSE_TOKEN_FILE"] = "x", open
	cliWith("", "", env, "get", "jobs").wants(t, exit.Misuse, "", "are both set")
}

// TestTokenFlags checks that contradictory flags are refused before any request.
func TestTokenFlags(t *testing.T) {
	for args, want := range map[string]string{
		"":                                   "--by is missing",
		"--role king":                        "not a role with tokens",
		"--role submitter":                   "--user is missing",
		"--user ann":                         "--user requires a role other than node",
		"--role admin --user ann --by x":     "require a node token",
		"--role admin --user ann --ttl 9y":   "is not a duration",
		"--role admin --user ann --ttl 999d": "valid for at most 8784h",
		"--role admin --user ann x":          "accepts no arguments",
		"--role admin --user ann":            "user tokens require TLS",
	} {
		cli("127.0.0.1:1", append([]string{"token", "create"}, strings.Fields(args)...)...).wants(t, exit.Misuse, "", want)
	}
}
