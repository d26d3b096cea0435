package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file tests settings from the environment and from files, and variables that are not settings.

func TestSettings(t *testing.T) {
	f := startFake(t)
	file := func(text string) map[string]string {
		path := filepath.Join(t.TempDir(), "cli.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return map[string]string{"SYNAPSE_CONFIG": path}
	}
	cliWith("", "", file("# mine\nserver: "+f.address+"\nretry: 1s\n"), "version").wants(t, 0, "epoch 3", "")
	cliWith(f.address, "", file("server: 127.0.0.1:1\n"), "version").wants(t, 0, "epoch 3", "")
	cliWith("127.0.0.1:1", "", nil, "version", "--server", f.address).wants(t, 0, "epoch 3", "")
	cliWith("", "", file("token: t\n"), "version").wants(t, exit.Misuse, "", "token-file")
	cliWith("", "", file("serve: x\n"), "version").wants(t, exit.Misuse, "", `:1: unknown setting "serve"`)
	cliWith("", "", file("server: x:1\nserver: y:1\n"), "version").wants(t, exit.Misuse, "",
		":2: duplicate setting server")
	cliWith("", "", file("[1]"), "version").wants(t, exit.Misuse, "", "must contain keys and values")
	cliWith("", "", file("server: [a]"), "version").wants(t, exit.Misuse, "", "must be a string")
	cliWith("", "", file(""), "get", "jobs", "--server", f.address).wants(t, 0, "JOB", "")
	cliWith("", "", map[string]string{"SYNAPSE_CONFIG": "/no/such/file"}, "version", "--client").wants(t, 0, "synapse-cli",
		"")
	// The variables of a task are not settings.
	cliWith(f.address, "", map[string]string{"SYNAPSE_RANK": "7", "SYNAPSE_QUIET": "x"}, "get", "jobs").wants(t, 0, "JOB",
		"")
}

// TestSocketHere checks that without other settings the socket of a local scheduler is used, if it permits access.
func TestSocketHere(t *testing.T) {
	for name, of := range map[string]struct {
		env  map[string]string
		mine bool
		want string
	}{
		"a socket":               {nil, true, "unix:/var/lib/synapse/local/socket"},
		"none that lets us in":   {nil, false, "localhost:9000"},
		"a server goes before":   {map[string]string{"SYNAPSE_SERVER": "head:1"}, true, "head:1"},
		"a certificate does too": {map[string]string{"SYNAPSE_TLS": "keys"}, true, "localhost:9000"},
		"and a token":            {map[string]string{"SYNAPSE_TOKEN": "t"}, true, "localhost:9000"},
	} {
		a := &app{name: "synapse-cli", mine: func(string) bool { return of.mine },
			lookup: func(name string) (string, bool) { v, ok := of.env[name]; return v, ok }}
		a.root()
		if err := a.connectionSettings(a.connection, true); err != nil || a.config.Server != of.want {
			t.Errorf("%s: %s (%v), want %s", name, a.config.Server, err, of.want)
		}
	}
}

// gone is a closed reader, such as head.
type gone struct{}

func (gone) Write([]byte) (int, error) { return 0, fmt.Errorf("write: %w", syscall.EPIPE) }

func TestAClosedPipeIsNoError(t *testing.T) {
	f := startFake(t)
	f.put(job("j1", "queued", messages.JobState_JOB_STATE_QUEUED))
	f.logs = []*api.LogPart{{Data: []byte("a\n")}}
	for _, args := range []string{"get jobs", "get jobs -o json", "logs j1", "describe job j1", "explain j1", "cancel j1",
		"events", "version"} {
		var errs lines
		code := run(append([]string{"synapse-cli"}, strings.Fields(args)...), strings.NewReader(""), gone{}, &errs,
			func(name string) (string, bool) {
				return f.address, name == "SYNAPSE_SERVER"
			})
		if code != 0 || errs.String() != "" {
			t.Errorf("%s ends with %d: %s", args, code, errs.String())
		}
	}
	if !exit.Closed(errors.Join(syscall.EPIPE)) {
		t.Error("EPIPE is not seen")
	}
}

// TestWordsFromElsewhere checks that each suggested command exists, and that no command of this program is in the
// list.
func TestWordsFromElsewhere(t *testing.T) {
	root := (&app{name: "synapse-cli"}).root()
	for word, here := range elsewhere {
		if found, rest, err := root.Find(strings.Fields(here)); err != nil || !found.HasParent() || len(rest) > 0 &&
			!strings.HasPrefix(rest[0], "-") {
			t.Errorf("%s: %q is no command", word, here)
		}
		if found, _, err := root.Find([]string{word}); err == nil && found.HasParent() {
			t.Errorf("%s is a command here", word)
		}
	}
}
