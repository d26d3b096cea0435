package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yi-json/synapse/cluster/host"
	"github.com/yi-json/synapse/runtime/machine"
)

// This file tests how an agent joins.

// TestReadableTokenIsWarnedOf checks that an agent logs a warning with a fix if others can read its join token.
func TestReadableTokenIsWarnedOf(t *testing.T) {
	for mode, want := range map[os.FileMode]bool{0o600: false, 0o644: true} {
		dir := t.TempDir()
		o := options{tls: filepath.Join(dir, "tls"), token: filepath.Join(dir, "token"), join: []string{"127.0.0.1:1"}}
		if err := os.WriteFile(o.token, []byte("no token"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(o.token, mode); err != nil { // independent of the umask
			t.Fatal(err)
		}
		me, err := machine.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		if err := o.enter(me, host.NewLog(&log, false)); err == nil {
			t.Error("it joined with what is no token")
		}
		me.Close()
		if got := strings.Contains(log.String(), "chmod 0600 "+o.token); got != want {
			t.Errorf("mode %04o: it logged %q", mode, log.String())
		}
	}
}
