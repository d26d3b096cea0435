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

// This file owns the ways out: an authority that is over, lost or stolen, and a root that is replaced. They are those
// of docs/operate/rotate-keys.md, each as it is described there.

// rooted is a cluster whose root is at hand.
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

// believing is a badge whose owner believes these roots.
func (s *rig) believing(b *credential.Badge, roots ...*x509.Certificate) *credential.Badge {
	s.t.Helper()
	b.Folder.Roots = roots
	return must(credential.New(b.Folder, s.clock))
}

// comesIn reports whether somebody is let in.
func (s *rig) comesIn(b *credential.Badge) error {
	_, ask := s.open(b.Credentials(nil))
	return ask()
}

// TestAuthorityIsReplaced: where the folder of a scheduler is lost, or its authority will soon be over, the root makes
// another of the same name; machines come in with what the one before signed, and have the new one's with their next
// renewal.
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
	// Was the one before stolen, it is denied by its serial: the new one has the same name.
	after.deny(fmt.Sprintf("serial:%x\n", before.by.Pair.Leaf().SerialNumber))
	if err := after.comesIn(before.badge(before.by, identity.RoleNode, "n2")); err == nil {
		t.Error("what a stolen authority signed comes in")
	}
	if err := after.comesIn(b); err != nil {
		t.Errorf("what the new authority signed: %v", err)
	}
}

// TestAuthorityIsOver: once an authority is over nobody comes in by it, also not to renew; the root makes another one,
// and machines join again by tokens, under their names.
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
	const words = "the certificate of synapse://c-a/ca/s1 is not good any more"
	for limit := testpace.Until(10 * time.Second); s.tells(words) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) { // the alert leaves before the line is written
			t.Fatal("nobody is told which certificate is over")
		}
	}
	if err := s.comesIn(s.joined(credential.Invitation{Name: "n1"}, credential.Joiner{})); err != nil {
		t.Errorf("by a token: %v", err)
	}
}

// TestRootIsReplaced: the new root is believed beside the old one first, everywhere; then schedulers get authorities of
// the new one, and machines renew; then the old one is believed no more. Nobody is shut out at any of these steps.
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
