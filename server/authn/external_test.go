package authn

import (
	"crypto/x509"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
	testpace "github.com/yi-json/synapse/test/able/pace"
	"github.com/yi-json/synapse/test/spiffe"
)

// outsider is a member with certificates of an outside issuer: their folder and the member's ID.
type outsider struct {
	by      *spiffe.Issuer
	dir, id string
}

const configOfOutsiders = `
cluster: c-a
cert: svid.pem
key: svid_key.pem
bundle: bundle.pem
ids:
- {id: "spiffe://a.example/scheduler/{name}", role: scheduler}
- {id: "spiffe://a.example/node/{name}", role: node}
- {id: "spiffe://a.example/admin/{name}", role: admin}
`

func newOutsider(t *testing.T, by *spiffe.Issuer, id string) outsider {
	t.Helper()
	o := outsider{by: by, dir: t.TempDir(), id: "spiffe://a.example/" + id}
	by.Write(o.dir, by.Sign(o.id, nil))
	by.Put(o.dir, "tls.yaml", []byte(configOfOutsiders))
	return o
}

func (o outsider) config() string { return filepath.Join(o.dir, "tls.yaml") }

func (o outsider) badge(s *rig) *credential.Badge {
	s.t.Helper()
	return must(credential.OpenExternal(o.config(), s.clock))
}

// newOutside returns a rig whose certificates an outside issuer signs.
func newOutside(t *testing.T) (*rig, *spiffe.Issuer, outsider) {
	t.Helper()
	by := spiffe.New(t, "a.example", today)
	head := newOutsider(t, by, "scheduler/s1")
	s := &rig{t: t, now: today, by: &identity.Folder{Dir: head.dir}} // the folder of its denylist
	return s.begin(Options{External: must(credential.ReadExternal(head.config()))}), by, head
}

// lasting replaces the member's certificate by one that is valid for a limited time from now.
func (o outsider) lasting(life time.Duration) {
	o.by.Write(o.dir, o.by.Sign(o.id, func(c *x509.Certificate) { c.NotAfter = today.Add(life) }))
}

// TestExternal checks that a certificate of the issuer gets the role from the configuration file. A connection ends
// when its certificate expires, and the next connection uses the issuer's current files.
func TestExternal(t *testing.T) {
	s, by, head := newOutside(t)
	node, admin := newOutsider(t, by, "node/n1"), newOutsider(t, by, "admin/ann")
	asNode, askNode := s.open(node.badge(s).Credentials(nil))
	asAdmin, askAdmin := s.open(admin.badge(s).Credentials(nil))
	if err := errors.Join(askNode(), askAdmin(), reflects(t, asAdmin)); err != nil {
		t.Fatal(err)
	}
	if err := reflects(t, asNode); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a machine makes calls of people: %v", err)
	}

	s.pass(40 * time.Minute)
	node.lasting(3 * time.Hour)
	head.lasting(3 * time.Hour)
	s.gate.recheck()
	if s.tells("This scheduler uses a new certificate") != 1 || s.said("Closed") != 0 {
		t.Errorf("the log has %q", s.lines)
	}
	s.pass(30 * time.Minute) // the first certificates have expired
	s.gate.recheck()
	if n := s.tells("Closed the connection of synapse://c-a/node/n1"); n != 1 {
		t.Errorf("the log has %q", s.lines)
	}
	for limit := testpace.Until(time.Minute); askNode() != nil; {
		if time.Now().After(limit) {
			t.Fatal("the machine does not come back by its new certificate")
		}
	}
	if _, ask := s.open(admin.badge(s).Credentials(nil)); ask() == nil {
		t.Error("who has no new one comes in")
	}
	s.deny("synapse://c-a/node/n1\n")
	if n := s.said("Closed the connection of synapse://c-a/node/n1"); n != 2 {
		t.Errorf("who is denied stays: %q", s.lines)
	}
	if _, ask := s.open(node.badge(s).Credentials(nil)); ask() == nil {
		t.Error("who is denied comes in")
	}
}

// TestExternalSignsNothing checks that with an outside issuer no node can join, nothing is renewed, and no token is
// accepted. Certificates of the cluster's own kind are refused, regardless of who made them.
func TestExternalSignsNothing(t *testing.T) {
	s, by, _ := newOutside(t)
	ours := authority(t, "c-a", today)
	node := s.badge(ours, identity.RoleNode, "n1")
	token, _ := must2(credential.NewPass("c-a", node.Root()))
	for name, open := range map[string]func() error{
		"join": func() error {
			token := must(credential.Invite(ours, credential.Invitation{Until: today.Add(time.Hour)}, 1))
			_, err := credential.Join(t.Context(), token,
				[]string{s.address}, credential.Joiner{Otherwise: "m1"})
			return err
		},
		"renew": func() error { return newOutsider(t, by, "node/n1").badge(s).Renew(t.Context(), []string{s.address}) },
		"token": func() error { _, ask := s.open(s.read(token).Credentials(nil)); return ask() },
		"a certificate of our own kind": func() error {
			return s.intrude(showing(node.Shows()))
		},
	} {
		if open() == nil {
			t.Errorf("%s is let in", name)
		}
	}
	if n := s.tells(errExternal.Error()); n != 1 {
		t.Errorf("%d lines say that nobody joins here: %q", n, s.lines)
	}
	if node.External() || !newOutsider(t, by, "node/n1").badge(s).External() {
		t.Error("whose certificates they are is told wrongly")
	}
}

// TestExternalRoles checks that a program cannot start with a role that the configuration file does not give it.
func TestExternalRoles(t *testing.T) {
	s, by, head := newOutside(t)
	node := newOutsider(t, by, "node/n1")
	_, err := New(Options{External: must(credential.ReadExternal(node.config())), Now: s.clock})
	if err == nil || !strings.Contains(err.Error(), "a scheduler needs one of role scheduler") {
		t.Errorf("a machine begins as a scheduler: %v", err)
	}
	_, err = credential.OpenBadge(head.config(), identity.RoleNode)
	if err == nil || !strings.Contains(err.Error(), "role node") {
		t.Errorf("a scheduler begins as a machine: %v", err)
	}
}
