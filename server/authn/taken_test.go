package authn

import (
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/cluster/identity"
)

// TestNamesThatAreTaken: a name is free for any key until a machine has joined under it, and then for that machine's
// key alone. A record that cannot be read leaves it to nobody.
func TestNamesThatAreTaken(t *testing.T) {
	by := &identity.Folder{Dir: t.TempDir()}
	own := identity.Digest{1, 2, 3}
	path := filepath.Join(by.Dir, machinesFolder, "n1")
	write := func(text string) func() error {
		return func() error { return os.WriteFile(path, []byte(text), 0o600) }
	}
	for _, c := range []struct {
		what  string
		have  func() error
		taken bool
	}{
		{"no record", func() error { return os.MkdirAll(filepath.Dir(path), 0o700) }, false},
		{"its own", func() error { return Bind(by, "n1", own) }, false},
		{"another key", func() error { return Bind(by, "n1", identity.Digest{1, 2, 4}) }, true},
		{"without a line's end", write(hex.EncodeToString(own[:])), false},
		{"half of its own", write(hex.EncodeToString(own[:16])), true},
		{"nothing", write(""), true},
		{"a record that cannot be read", func() error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) }, true},
	} {
		if err := c.have(); err != nil {
			t.Fatal(err)
		}
		if got := taken(by, "n1", own); got != c.taken {
			t.Errorf("%s: the name is taken: %v", c.what, got)
		}
	}
}

// TestOpenPageIsNotIdle: a session lasts while a request of its browser is open, as a page's stream is, and for a
// minute after the last one.
func TestOpenPageIsNotIdle(t *testing.T) {
	s := newDesk(t)
	cookie, _ := s.login(identity.RoleSubmitter, "ann", 10*time.Hour)
	session, done, err := s.gate.Resume(atPage, cookie, browser)
	if err != nil {
		t.Fatal(err)
	}
	_, another, err := s.gate.Resume(atPage, cookie, browser)
	if err != nil {
		t.Fatal(err)
	}
	s.later(2 * sessionIdle)
	another() // the first is open still
	s.later(2 * sessionIdle)
	if session.Until().Err() != nil {
		t.Fatal("an open page's session is closed as idle")
	}
	done()
	if s.later(sessionIdle - 1); session.Until().Err() != nil {
		t.Error("it is closed before it is idle for long")
	}
	if s.later(1); session.Until().Err() == nil {
		t.Error("it is remembered though nobody uses it")
	}
	if got := s.comes(cookie); !strings.HasPrefix(got, "synapse://c-a/submitter/ann") {
		t.Errorf("its cookie comes again: %s", got)
	}
}
