package authn

import (
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/cluster/identity"
)

// TestOpenPageIsNotIdle checks that a session lasts while a request of its browser is open, such as the stream of a
// page, and for a minute after the last one.
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
	another() // the first request is still open
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
