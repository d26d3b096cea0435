package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/able/pace"
	"github.com/yi-json/synapse/test/pgtest"
)

// This file tests the audit logs of several schedulers on one store, and how they refer to each other.

// TestAuditsOverALeader checks that a new leader names the head of its predecessor's audit log. `audit verify` must
// follow both logs across the takeover, and report the missing line if one was cut off.
func TestAuditsOverALeader(t *testing.T) {
	everywhere(t)
	t.Parallel()
	dir := t.TempDir()
	keys, url := filepath.Join(dir, "keys"), pgtest.Start(t).Database(t)
	cli := func(args ...string) result {
		t.Helper()
		return ask(t, (&cluster{}).command(filepath.Join(bin, "synapse-cli"), args...))
	}
	cli("init", keys, "--cluster", "e2e", "--schedulers", "head1,head2").wants(t, 0, "", "")
	seat := func(name string) *process {
		t.Helper()
		return launch(t, name, "synapse-scheduler", "--listen", "127.0.0.1:0", "--store", url, "--tls",
			filepath.Join(keys, "scheduler-"+name), "--data-dir", filepath.Join(dir, name),
			"--listen-file", filepath.Join(dir, name+".at"))
	}
	goes := func(p *process) {
		t.Helper()
		p.signal(syscall.SIGTERM)
		select {
		case <-p.ended:
		case <-time.After(pace.Of(time.Minute)):
			t.Fatalf("%s does not end: %s", p.name, p.said())
		}
	}
	first := seat("head1")
	first.says(t, "This scheduler leads now (epoch 1)")
	at, err := os.ReadFile(filepath.Join(dir, "head1.at"))
	if err != nil {
		t.Fatal(err)
	}
	second := seat("head2")
	cli("cancel", "j-none", "--server", strings.TrimSpace(string(at)), "--tls", filepath.Join(keys, "admin")).
		wants(t, 3, "", "j-none")
	goes(first)
	second.says(t, "This scheduler leads now (epoch 2)")
	goes(second)

	one, other := filepath.Join(dir, "head1", "audit"), filepath.Join(dir, "head2", "audit")
	cli("audit", other).wants(t, 0, "synapse://e2e/scheduler/head1 was at line", "")
	cli("audit", "verify", one, other).wants(t, 0, "(synapse://e2e/scheduler/head2): ", "")
	cli("audit", "verify", other).wants(t, 0, "all intact",
		"the account of synapse://e2e/scheduler/head1 is not here")
	text, err := os.ReadFile(filepath.Join(one, "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	cut := bytes.Join(lines[:len(lines)-1], nil)
	if err := os.WriteFile(filepath.Join(one, "audit.log"), cut, 0o600); err != nil {
		t.Fatal(err)
	}
	cli("audit", "verify", one).wants(t, 0, "", "") // the log alone does not show the gap
	cli("audit", "verify", one, other).wants(t, 4, "", "of synapse://e2e/scheduler/head1 is missing: line")
}
