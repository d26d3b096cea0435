package authn

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/spiffe"
)

// This file tests the recovery steps of docs/operate/spiffe.md for outside issuers. The steps replace files and
// restart nothing.

// signed replaces a member's files by certificates of an issuer. The member trusts the roots of by and others.
func (o outsider) signed(by *spiffe.Issuer, others ...*spiffe.Issuer) {
	by.Write(o.dir, by.Sign(o.id, nil))
	bundle := by.Bundle()
	for _, other := range others {
		bundle = slices.Concat(bundle, other.Bundle())
	}
	by.Put(o.dir, "bundle.pem", bundle)
}

// TestExternalRootIsReplaced checks a root replacement: first all trust both roots, then all get certificates of
// the new root, then the old root is removed. No member loses access, and open connections stay until the last
// step.
func TestExternalRootIsReplaced(t *testing.T) {
	s, first, head := newOutside(t)
	node := newOutsider(t, first, "node/n1")
	badge := node.badge(s)
	_, stays := s.open(badge.Credentials(nil))
	comesIn := func(step string) {
		t.Helper()
		s.gate.recheck()
		if err := s.comesIn(badge); err != nil {
			t.Fatalf("%s: %v", step, err)
		}
		if err := stays(); err != nil || s.said("Closed") != 0 {
			t.Fatalf("%s: what is open: %v; the log has %q", step, err, s.lines)
		}
	}
	second := spiffe.New(t, "a.example", today)
	comesIn("before")
	head.signed(first, second)
	comesIn("the scheduler believes both")
	node.signed(first, second)
	comesIn("all believe both")
	head.signed(second, first)
	comesIn("the scheduler is signed by the new one")
	node.signed(second, first)
	comesIn("all are")
	node.signed(second)
	comesIn("the machine believes the new one alone")
	head.signed(second)
	s.gate.recheck()
	if err := s.comesIn(badge); err != nil {
		t.Errorf("the old one is gone: %v", err)
	}
	if s.tells("its issuer is no longer in the bundle") == 0 {
		t.Errorf("what began under the old root stays open: %q", s.lines)
	}
	old := newOutsider(t, first, "node/n2")
	old.signed(first, second)
	if err := s.comesIn(old.badge(s)); err == nil {
		t.Error("what the old root signed comes in")
	}
}

// TestExternalIssuerIsOver checks that certificates of expired authorities are refused with a reason. After the
// issuer signs with a new root, all members connect again.
func TestExternalIssuerIsOver(t *testing.T) {
	s, _, head := newOutside(t)
	node := newOutsider(t, head.by, "node/n1")
	s.pass(spiffe.Lasts + time.Minute)
	for _, o := range []outsider{head, node} { // its helper still signs with the expired authority
		o.lasting(spiffe.Lasts + time.Hour)
	}
	s.gate.recheck()
	if err := s.comesIn(node.badge(s)); err == nil || !strings.Contains(err.Error(), "has expired") {
		t.Fatalf("by an authority that is over: %v", err)
	}
	next := spiffe.New(t, "a.example", s.clock())
	head.signed(next)
	node.signed(next)
	s.gate.recheck()
	if err := s.comesIn(node.badge(s)); err != nil {
		t.Errorf("by the issuer's next root: %v; the log has %q", err, s.lines)
	}
}

// TestExternalAuthorityIsLost checks that a new authority below the same root is accepted together with the old
// one. A stolen authority is denied by its serial number, together with all its certificates.
func TestExternalAuthorityIsLost(t *testing.T) {
	s, by, head := newOutside(t)
	late, soon := newOutsider(t, by, "node/n1"), newOutsider(t, by, "node/n2")
	lost := by.Again()
	soon.signed(by)
	for _, o := range []outsider{late, soon} {
		if err := s.comesIn(o.badge(s)); err != nil {
			t.Errorf("%s: %v", o.id, err)
		}
	}
	head.signed(by)
	s.gate.recheck()
	for _, o := range []outsider{late, soon} {
		if err := s.comesIn(o.badge(s)); err != nil {
			t.Errorf("%s, and the scheduler is signed by the new one: %v", o.id, err)
		}
	}
	s.deny(fmt.Sprintf("serial:%x\n", lost.SerialNumber))
	if err := s.comesIn(late.badge(s)); err == nil {
		t.Error("what a stolen authority signed comes in")
	}
	if err := s.comesIn(soon.badge(s)); err != nil {
		t.Errorf("what the new one signed: %v", err)
	}
}
