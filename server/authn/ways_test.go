package authn

import (
	"crypto/x509"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
	testpace "github.com/yi-json/synapse/test/able/pace"
)

// This file tests the recovery steps of docs/operate/rotate-keys.md: an expired, lost or stolen authority, and the
// replacement of a root.

// rooted creates a cluster whose root key is available.
func rooted(t *testing.T, made time.Time) (root *identity.Folder, authority func(at time.Time) *identity.Folder) {
	t.Helper()
	pair := must(identity.NewRoot("c-a", made))
	root = &identity.Folder{Roots: pair.Chain, Pair: pair}
	return root, func(at time.Time) *identity.Folder {
		by := must(root.Certify(identity.RoleScheduler, "s1", at))
		by.Dir = filepath.Join(t.TempDir(), "scheduler")
		if err := by.Create(); err != nil {
			t.Fatal(err)
		}
		return by
	}
}

// believing returns a badge that trusts these roots.
func (s *rig) believing(b *credential.Badge, roots ...*x509.Certificate) *credential.Badge {
	s.t.Helper()
	b.Folder.Roots = roots
	return must(credential.New(b.Folder, s.clock))
}

// comesIn tries to connect with a badge, and returns the reason for a refusal.
func (s *rig) comesIn(b *credential.Badge) error {
	_, ask := s.open(b.Credentials(nil))
	return ask()
}

// TestAuthorityIsReplaced checks that the root can replace a lost or expiring authority under the same name. Nodes
// connect with certificates of the old authority, and get certificates of the new one with their next renewal.
func TestAuthorityIsReplaced(t *testing.T) {
	_, authority := rooted(t, today.Add(-48*time.Hour))
	before := rigOf(t, authority(today.Add(-48*time.Hour)), today)
	b := before.badge(before.by, identity.RoleNode, "n1")
	after := rigOf(t, authority(today), today)
	if err := after.comesIn(b); err != nil {
		t.Fatalf("with what the lost authority signed: %v", err)
	}
	if err := b.Renew(t.Context(), []string{after.address}); err != nil {
		t.Fatal(err)
	}
	if got, want := b.Shows().Chain[1], after.by.Pair.Leaf(); !got.Equal(want) {
		t.Error("the renewal is not of the new authority")
	}
	// A stolen authority is denied by its serial number, because the new one has the same name.
	after.deny(fmt.Sprintf("serial:%x\n", before.by.Pair.Leaf().SerialNumber))
	if err := after.comesIn(before.badge(before.by, identity.RoleNode, "n2")); err == nil {
		t.Error("what a stolen authority signed comes in")
	}
	if err := after.comesIn(b); err != nil {
		t.Errorf("what the new authority signed: %v", err)
	}
}

// TestAuthorityIsOver checks that certificates of an expired authority are refused, also for renewal. The root
// creates a new authority, and nodes join again with tokens under their old names.
func TestAuthorityIsOver(t *testing.T) {
	now := time.Now()
	_, authority := rooted(t, now.Add(-identity.LifeAuthority-48*time.Hour))
	old := authority(now.Add(-identity.LifeAuthority - time.Hour))
	if _, err := New(Options{Folder: old, Now: func() time.Time { return now }}); err == nil {
		t.Fatal("a scheduler starts with an authority that is over")
	}
	lapsed := must(old.Certify(identity.RoleNode, "n1", now.Add(-25*time.Hour)))
	s := rigOf(t, authority(now), now)
	b := must(credential.New(lapsed, s.clock))
	var late *identity.TimeError
	if err := b.Renew(t.Context(), []string{s.address}); err == nil || errors.As(err, &late) {
		t.Errorf("it renews: %v", err)
	}
	const words = "certificate of synapse://c-a/ca/s1 has expired"
	for limit := testpace.Until(10 * time.Second); s.tells(words) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) { // the TLS alert may arrive before the log line is written
			t.Fatal("nobody is told which certificate is over")
		}
	}
	if err := s.comesIn(s.joined(credential.Invitation{Name: "n1"}, credential.Joiner{})); err != nil {
		t.Errorf("by a token: %v", err)
	}
}

// TestRootIsReplaced checks a root replacement: first all trust both roots, then schedulers get authorities of the
// new root and nodes renew, then the old root is removed. No member loses access at any step.
func TestRootIsReplaced(t *testing.T) {
	first, ofFirst := rooted(t, today.Add(-48*time.Hour))
	second, ofSecond := rooted(t, today.Add(-time.Hour))
	both := []*x509.Certificate{first.Roots[0], second.Roots[0]}

	by := ofFirst(today.Add(-24 * time.Hour))
	s := rigOf(t, by, today)
	b := s.badge(by, identity.RoleNode, "n1")
	if err := s.comesIn(s.believing(b, both...)); err != nil {
		t.Fatalf("it believes both: %v", err)
	}
	by = ofSecond(today)
	by.Roots = both
	s = rigOf(t, by, today)
	b = s.believing(b, both...)
	if err := s.comesIn(b); err != nil {
		t.Fatalf("the scheduler has an authority of the new root: %v", err)
	}
	if err := b.Renew(t.Context(), []string{s.address}); err != nil {
		t.Fatal(err)
	}
	by = ofSecond(today)
	s = rigOf(t, by, today)
	b.Folder.Pair = b.Shows()
	if err := s.comesIn(s.believing(b, second.Roots...)); err != nil {
		t.Errorf("the old root is gone: %v", err)
	}
	last := s.badge(ofFirst(today.Add(-time.Hour)), identity.RoleNode, "n2")
	if err := s.comesIn(s.believing(last, both...)); err == nil {
		t.Error("what the old root signed still comes in")
	}
}
