package authn

import (
	"context"
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
	testpace "github.com/yi-json/synapse/test/able/pace"
)

func (s *rig) deny(text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.by.Dir, "denylist"), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.gate.recheck()
}

// showing configures a handshake with a certificate that trusts any server.
func showing(pair *identity.Pair) func(*tls.Config) {
	return func(c *tls.Config) { c.Certificates = []tls.Certificate{*pair.TLS()} }
}

// TestRefusals checks that peers without a valid certificate are refused, with one log line even after repeated
// attempts.
func TestRefusals(t *testing.T) {
	s := newRig(t)
	of := func(by *identity.Folder, name string, at time.Time) *identity.Pair {
		return must(by.Certify(identity.RoleNode, name, at)).Pair
	}
	s.deny("synapse://c-a/node/thief\n")
	for name, refused := range map[string]struct {
		shows func(*tls.Config)
		words string
	}{
		"no certificate":  {func(*tls.Config) {}, "no certificate was presented"},
		"TLS 1.2":         {func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }, "client does not support TLS 1.3"},
		"another cluster": {showing(of(authority(t, "c-b", today), "n1", today)), "certificate is not from this cluster's"},
		"expired":         {showing(of(s.by, "old", today.Add(-25*time.Hour))), "node/old has expired: it is valid"},
		"not yet valid":   {showing(of(s.by, "new", today.Add(time.Hour))), "node/new is not valid yet: it is valid from"},
		"denied":          {showing(of(s.by, "thief", today)), "identity is on the denylist: synapse://c-a/node/thief"},
	} {
		for range 2 {
			if err := s.intrude(refused.shows); err == nil {
				t.Errorf("%s came in", name)
			}
		}
		if n := s.tells(refused.words); n != 1 {
			t.Errorf("%s: %d lines have %q, want 1: %q", name, n, refused.words, s.lines)
		}
	}
	if err := s.intrude(showing(of(s.by, "n1", today))); err != nil {
		t.Errorf("a machine of the cluster: %v", err)
	}
}

// TestClientsAreTold checks that a refused client gets the reason, and that it does not retry.
func TestClientsAreTold(t *testing.T) {
	s := newRig(t)
	fast := func() time.Time { return today.Add(25 * time.Hour) }
	late := must(credential.New(s.badge(s.by, identity.RoleNode, "late").Folder, fast))
	ahead := must(credential.New(must(s.by.Certify(identity.RoleNode, "ahead", fast())), fast))
	s.deny("synapse://c-a/node/thief\n")
	for name, refused := range map[string]struct {
		badge *credential.Badge
		words string
	}{
		"plaintext":         {nil, "scheduler requires TLS"},
		"another cluster's": {s.badge(authority(t, "c-b", today), identity.RoleNode, "n1"), "not a scheduler of"},
		"its own time":      {late, "own certificate: certificate of synapse://c-a/node/late has expired"},
		"our clock is fast": {ahead, "certificate of synapse://c-a/scheduler/s1 has expired"},
		"denied":            {s.badge(s.by, identity.RoleNode, "thief"), "scheduler refused this certificate"},
	} {
		var told *credential.Refused
		heard := make(chan *credential.Refused, 100)
		creds := credential.Plain(func(r *credential.Refused) { heard <- r })
		if refused.badge != nil {
			creds = refused.badge.Credentials(func(r *credential.Refused) { heard <- r })
		}
		_, ask := s.open(creds)
		err := ask()
		for len(heard) > 0 {
			if r := <-heard; r != nil {
				told = r
			}
		}
		if err == nil || told == nil || !strings.Contains(told.Error(), refused.words) {
			t.Errorf("%s: %v; told %v, want %q", name, err, told, refused.words)
		}
	}
	if s.tells("client does not use TLS") != 1 {
		t.Errorf("the log has %q", s.lines)
	}
}

// TestRights checks that a node can make the calls of nodes and an admin the calls of users.
func TestRights(t *testing.T) {
	s := newRig(t)
	for role, want := range map[identity.Role]codes.Code{
		identity.RoleNode: codes.PermissionDenied, identity.RoleAdmin: codes.OK,
		identity.RoleScheduler: codes.PermissionDenied,
	} {
		conn, ask := s.open(s.badge(s.by, role, "s1").Credentials(nil))
		if err := ask(); err != nil {
			t.Errorf("%s: health: %v", role, err)
		}
		if err := reflects(t, conn); status.Code(err) != want {
			t.Errorf("%s: reflection: %v, want %s", role, err, want)
		}
	}
}

// reflects lists the services, which only users may do.
func reflects(t *testing.T, conn *grpc.ClientConn) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testpace.Of(10*time.Second))
	defer cancel()
	stream := must(grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(ctx))
	_ = stream.Send(&grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{},
	})
	_, err := stream.Recv()
	return err
}

// TestRenewedConnectionStays checks that a connection outlives its first certificate only if the same key was
// renewed. Calls on the connection are not interrupted.
func TestRenewedConnectionStays(t *testing.T) {
	s := newRig(t)
	kept, lost := s.badge(s.by, identity.RoleNode, "kept"), s.badge(s.by, identity.RoleNode, "lost")
	_, askKept := s.open(kept.Credentials(nil))
	_, askLost := s.open(lost.Credentials(nil))
	twin := s.badge(s.by, identity.RoleNode, "lost") // the same name with another key
	if err := errors.Join(askKept(), askLost()); err != nil {
		t.Fatal(err)
	}
	s.pass(16 * time.Hour)
	for _, b := range []*credential.Badge{kept, twin} {
		if err := b.Renew(t.Context(), []string{"127.0.0.1:1", s.address}); err != nil {
			t.Fatal(err)
		}
	}
	if again := must(identity.OpenFolder(kept.Folder.Dir)); !again.Pair.Leaf().NotAfter.Equal(today.Add(40 * time.Hour)) {
		t.Errorf("on disk it is good until %s", again.Pair.Leaf().NotAfter)
	}
	s.pass(9 * time.Hour)
	s.gate.recheck()
	if err := askKept(); err != nil {
		t.Errorf("renewed: %v", err)
	}
	if err := askLost(); err == nil || s.tells("Closed the connection of synapse://c-a/node/lost") != 1 {
		t.Errorf("not renewed: %v, and the log has %q", err, s.lines)
	}
	if n := s.said("Closed the connection of synapse://c-a/node/kept"); n != 0 {
		t.Error("the renewed one was closed")
	}
}

// TestLapsedComesBack checks that a node that was offline for up to 30 days can renew, and cannot do anything else
// before.
func TestLapsedComesBack(t *testing.T) {
	s := newRig(t)
	b, person := s.badge(s.by, identity.RoleNode, "n1"), s.badge(s.by, identity.RoleAdmin, "ada")
	s.pass(29 * 24 * time.Hour)
	s.gate.recheck() // also renews the scheduler's certificate
	if _, ask := s.open(b.Credentials(nil)); ask() == nil {
		t.Error("it came in with a certificate that is over")
	}
	if err := s.intrude(showing(b.Shows())); err == nil {
		t.Error("it came in when it did not look at its own clock")
	}
	if err := b.Renew(t.Context(), []string{s.address}); err != nil {
		t.Fatal(err)
	}
	if _, ask := s.open(b.Credentials(nil)); ask() != nil {
		t.Error("renewed, it is not let in")
	}
	if err := person.Renew(t.Context(), []string{s.address}); err == nil {
		t.Error("a person's was renewed")
	}
	s.pass(32 * 24 * time.Hour)
	s.gate.recheck()
	if err := b.Renew(t.Context(), []string{s.address}); err == nil {
		t.Error("it was away for 31 days, and came back without an operator")
	}
}

// TestDeniedOnAnOpenConnection checks that a denied peer loses its open connection at the next check.
func TestDeniedOnAnOpenConnection(t *testing.T) {
	s := newRig(t)
	b := s.badge(s.by, identity.RoleNode, "thief")
	_, ask := s.open(b.Credentials(nil))
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	s.deny("synapse://c-a/node/thief # stolen\n")
	if n := s.tells("Closed the connection of synapse://c-a/node/thief"); n != 1 {
		t.Errorf("the log has %q", s.lines)
	}
	if err := ask(); err == nil {
		t.Error("it asks on")
	}
	if err := b.Renew(t.Context(), []string{s.address}); err == nil {
		t.Error("it renewed its certificate")
	}
	s.deny("a mistake\n")
	if err := ask(); err == nil || s.tells("The previous denylist stays in force") != 1 {
		t.Errorf("a mistake in the list let it in: %v, %q", err, s.lines)
	}
	if recheckEvery > 30*time.Second {
		t.Error("a denied machine must be out within a minute")
	}
}

// TestOnlyAnAuthority checks that a scheduler does not start with the keys of another role.
func TestOnlyAnAuthority(t *testing.T) {
	s := newRig(t)
	if _, err := New(Options{Folder: s.badge(s.by, identity.RoleNode, "n1").Folder, Now: s.clock}); err == nil {
		t.Error("a machine's folder made a scheduler")
	}
	if _, err := credential.OpenBadge(s.by.Dir, identity.RoleNode); err == nil {
		t.Error("a scheduler's folder made a machine")
	}
}

// TestPlainToPlain checks that plaintext works if neither end uses TLS.
func TestPlainToPlain(t *testing.T) {
	c, info, err := credential.Plain(nil).ClientHandshake(t.Context(), "x", nil)
	_, want, _ := insecure.NewCredentials().ClientHandshake(t.Context(), "x", nil)
	if err != nil || c == nil || info.AuthType() != want.AuthType() {
		t.Errorf("%v, %v", info, err)
	}
}
