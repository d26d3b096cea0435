package authn

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
)

// This file tests the limits in the certificate of a joined node.

// joined returns the badge of a node that joined with a token.
func (s *rig) joined(i credential.Invitation, me credential.Joiner) *credential.Badge {
	s.t.Helper()
	folder := must(credential.Join(s.t.Context(), s.invite(i, 1), []string{s.address}, me))
	folder.Dir = filepath.Join(s.t.TempDir(), "tls")
	if err := folder.Create(); err != nil {
		s.t.Fatal(err)
	}
	return must(credential.New(must(identity.OpenFolder(folder.Dir)), s.clock))
}

// peerOf returns the peer that the Authenticator found for a badge.
func (s *rig) peerOf(b *credential.Badge) (found identity.Peer) {
	s.t.Helper()
	_, ask := s.open(b.Credentials(nil))
	if err := ask(); err != nil {
		s.t.Fatal(err)
	}
	s.gate.mu.Lock()
	defer s.gate.mu.Unlock()
	for c := range s.gate.open { //order: only one has this name
		if c.peer.Name == b.Identity().Name {
			found = c.peer
		}
	}
	return found
}

// TestBoundAtJoin checks that the certificate contains the node's ID and the limits of its token, and that renewals
// keep them. A token with an unknown limit is refused.
func TestBoundAtJoin(t *testing.T) {
	s := newRigNow(t)
	allowed := identity.Bounds{
		identity.BoundGPUs: "8", identity.BoundGPUType: "h100", identity.BoundLabels: "", identity.BoundPlace: "rack=r7",
	}
	b := s.joined(credential.Invitation{Name: "n1", Bounds: allowed}, credential.Joiner{Machine: "machine-1"})
	want := "gpu-type=h100 gpus=8 labels= machine=machine-1 topology=rack=r7"
	for range 2 {
		p := s.peerOf(b)
		var got []string
		for _, key := range []identity.Bound{
			identity.BoundGPUType, identity.BoundGPUs, identity.BoundLabels, identity.BoundMachine, identity.BoundPlace,
		} {
			if value, ok := p.Bounds[key]; ok {
				got = append(got, string(key)+"="+value)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q", got)
		}
		if err := b.Renew(t.Context(), []string{s.address}); err != nil {
			t.Fatal(err)
		}
	}
	for _, bad := range []identity.Bounds{
		{"colour": "red"}, {identity.BoundGPUs: "many"}, {identity.BoundGPUs: "-1"}, {identity.BoundLabels: "a=\n"},
		{identity.BoundPlace: strings.Repeat("x", 2000)},
	} {
		i := credential.Invitation{Name: "n2", Until: s.clock().Add(time.Hour), Bounds: bad}
		if _, err := credential.Invite(s.by, i, 1); err == nil {
			t.Errorf("%v was taken", bad)
		}
	}
}

// TestReplacedKey checks the key of a node whose name another key has taken over, through a token or by hand. The
// old key cannot connect or renew, and loses its open connection.
func TestReplacedKey(t *testing.T) {
	s := newRigNow(t)
	old := s.joined(credential.Invitation{Name: "n1"}, credential.Joiner{})
	_, ask := s.open(old.Credentials(nil))
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	fresh := s.joined(credential.Invitation{Name: "n1"}, credential.Joiner{})
	s.gate.recheck()
	if err := ask(); err == nil {
		t.Error("the connection of the key that was replaced stays")
	}
	if s.tells("Closed the connection of synapse://c-a/node/n1") != 1 {
		t.Errorf("the log has %q", s.lines)
	}
	var r *credential.Refused
	if err := old.Renew(t.Context(), []string{s.address}); !errors.As(err, &r) ||
		!strings.Contains(err.Error(), "another key has taken over the name") {
		t.Errorf("it is renewed: %v", err)
	}
	if _, ask := s.open(fresh.Credentials(nil)); ask() != nil {
		t.Error("the key that has the name now is refused")
	}
	byHand := must(credential.New(must(s.by.Certify(identity.RoleNode, "n1", s.clock())), s.clock))
	if _, ask := s.open(byHand.Credentials(nil)); ask() == nil {
		t.Error("a third key comes in under the name")
	}
	if s.tells("Refused a connection of synapse://c-a/node/n1 from 127.0.0.1: another key has taken over") == 0 {
		t.Errorf("the log has %q", s.lines)
	}
	if err := credential.Bind(s.by, "n1", must(identity.DigestOf(byHand.Shows().Leaf().PublicKey))); err != nil {
		t.Fatal(err)
	}
	if _, ask := s.open(byHand.Credentials(nil)); ask() != nil {
		t.Error("the key that was bound by hand is refused")
	}
}
