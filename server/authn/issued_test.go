package authn

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file tests authentication with tokens of an issuer: the user, and the expiry.

// issuer is a fake issuer of tokens "ROLE.NAME.x" that expire in an hour.
type issuer struct {
	*rig
	mu   sync.Mutex
	away bool
	name string // user name of all tokens; empty: from the token
}

func (s *rig) believeAnIssuer() *issuer {
	i := &issuer{rig: s}
	until := s.clock().Add(time.Hour)
	s.gate.o.Issued = func(token string) (Issued, error) {
		i.mu.Lock()
		defer i.mu.Unlock()
		role, rest, _ := strings.Cut(token, ".")
		name, _, _ := strings.Cut(rest, ".")
		switch {
		case i.away:
			return Issued{}, fmt.Errorf("%w: at a secret address", credential.ErrLater)
		case role == "nobody":
			return Issued{}, errors.New("token is for [\"wiki\"], not for synapse")
		case i.name != "":
			name = i.name
		}
		return Issued{Role: identity.Role(role), Name: name, Until: until}, nil
	}
	return i
}

// shows returns the credentials of a user with a token of the issuer.
func (s *rig) shows(token string) *credential.Bearer {
	s.t.Helper()
	return s.read(credential.WithRoot("c-a", sha256.Sum256(s.by.Roots[0].Raw), token))
}

// TestIssued checks that a token of the issuer authenticates its user without the store. When the token expires,
// open connections are closed. The audit log and the scheduler's log contain an ID of the token, not the token.
func TestIssued(t *testing.T) {
	s, _, read := audited(t)
	s.believeAnIssuer()
	const token = "submitter.ann.c2lnbmF0dXJl"
	conn, ask := s.open(s.shows(token).Credentials(nil))
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	_, _ = api.NewSynapseClient(conn).Submit(t.Context(), &messages.Submit{RequestId: "r1", Spec: &messages.JobSpec{}})
	s.gate.mu.Lock()
	for c := range s.gate.open { //order: there is only one
		if c.peer.String() != "synapse://c-a/submitter/ann" || !strings.HasPrefix(c.peer.Pass, "oidc-") {
			t.Errorf("it is taken for %s, with token %s", c.peer.Identity, c.peer.Pass)
		}
	}
	s.gate.mu.Unlock()
	all := strings.Join(s.lines, "\n") + read()
	if strings.Contains(all, "c2lnbmF0dXJl") || !strings.Contains(all, "submitter/ann|/synapse.v1.Synapse/Submit|") {
		t.Errorf("the token is told, or the call is not: %s", all)
	}
	for range 3 { // the store does not know the token and is not asked
		s.later(recheckEvery)
	}
	if err := ask(); err != nil {
		t.Errorf("before its time: %v", err)
	}
	s.later(time.Hour)
	if err := ask(); err == nil || s.tells("Closed the connection of synapse://c-a/submitter/ann") != 1 {
		t.Errorf("a token that is over goes on: %v, %q", err, s.lines)
	}
}

// TestIssuedRefused checks the refused tokens: not allowed by the configuration, on the denylist, with invalid
// names or roles, or without a configured issuer. If a token cannot be checked now, the client is asked to retry.
func TestIssuedRefused(t *testing.T) {
	s := newRig(t)
	_, ask := s.open(s.shows("submitter.ann.x").Credentials(nil))
	if err := ask(); err == nil || !strings.Contains(err.Error(), "the scheduler has no --oidc") {
		t.Errorf("where no issuer is believed: %v", err)
	}
	i := s.believeAnIssuer()
	s.deny("synapse://c-a/admin/eve\n")
	for token, words := range map[string]string{
		"nobody.ann.x": "is for [\"wiki\"], not for synapse", "admin.eve.x": "on the denylist",
		"node.n1.x": "tokens are for users", "scheduler.s1.x": "tokens are for users", "king.ann.x": "unknown role \"king\"",
		"admin.anonymous.x": "use another name", "admin.a@b.x": "must have letters",
	} {
		var last *credential.Refused
		_, ask := s.open(s.shows(token).Credentials(func(r *credential.Refused) { last = r }))
		if err := ask(); err == nil || last == nil || !strings.Contains(last.Error(), words) {
			t.Errorf("%s: %v, refused for good: %v, want %q", token, err, last, words)
		}
	}
	i.mu.Lock()
	i.away = true
	i.mu.Unlock()
	var last *credential.Refused
	_, ask = s.open(s.shows("submitter.ann.x").Credentials(func(r *credential.Refused) { last = r }))
	err := ask()
	if err == nil || last != nil || !strings.Contains(err.Error(), errIssuerAway) ||
		strings.Contains(err.Error(), "secret") {
		t.Errorf("while the issuer is away: %v, refused for good: %v", err, last)
	}
}

// TestIssuedDenied checks that a user who is denied by name loses an open connection.
func TestIssuedDenied(t *testing.T) {
	s := newRig(t)
	s.believeAnIssuer()
	_, ask := s.open(s.shows("admin.eve.x").Credentials(nil))
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	s.deny("synapse://c-a/admin/eve\n")
	s.later(recheckEvery)
	if err := ask(); err == nil || s.tells("Closed the connection of synapse://c-a/admin/eve") != 1 {
		t.Errorf("who is denied goes on: %v, %q", err, s.lines)
	}
}

// TestIssuedText checks that the text contains the cluster, its root and the token, and that errors contain none of
// them.
func TestIssuedText(t *testing.T) {
	b, err := credential.ReadBearer(credential.WithRoot("c-a", identity.Digest{1}, " a.b.c\n"))
	if err != nil || b.Cluster() != "c-a" || b.Root() != (identity.Digest{1}) || string(b.Secret()) != "a.b.c" {
		t.Fatalf("%+v, %v", b, err)
	}
	for _, text := range []string{
		credential.IssuedPrefix + ".c-a", credential.IssuedPrefix + ".c-a.00.hush.b.c",
		credential.IssuedPrefix + "./.00.hush.b.c",
		credential.WithRoot("c-a", identity.Digest{1}, "hush"), credential.WithRoot("c-a", identity.Digest{1}, "hush.b.c.d"),
		credential.WithRoot("c-a", identity.Digest{1}, "hush b.c.d"),
		credential.WithRoot("c-a", identity.Digest{1}, strings.Repeat("hush.b.c", credential.MaxFrame)),
	} {
		if _, err := credential.ReadBearer(text); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%.100q: %v", text, err)
		}
	}
	here, there := net.Pipe()
	defer here.Close()
	s := newRig(t)
	heard := make(chan []byte, 1)
	machine := must(s.by.Certify(identity.RoleNode, "n1", today)).Pair
	go func() { heard <- overhear(there, machine, s.by) }()
	_, _, err = s.shows("admin.ada.hush").Credentials(nil).ClientHandshake(t.Context(), "", here)
	here.Close()
	if got := <-heard; err == nil || len(got) > 0 {
		t.Errorf("a machine that poses as a scheduler hears %d bytes: %v", len(got), err)
	}
}

// TestLocalUser checks when a user name counts as an account name on the nodes. A certificate or token of the
// cluster always proves this. For an issuer, the configuration decides. Only an issuer sets groups.
func TestLocalUser(t *testing.T) {
	member := []string{"zeta", "ml", "ml", "odd\u202e"}
	for _, c := range []struct {
		how   string
		local bool // setting of the issuer's configuration
		creds func(*rig) credentials.TransportCredentials
		want  bool
	}{
		{"certificate", false, func(s *rig) credentials.TransportCredentials {
			return s.badge(s.by, identity.RoleSubmitter, "ann").Credentials(nil)
		}, true},
		{"token", false, func(s *rig) credentials.TransportCredentials {
			return s.bearer(identity.RoleSubmitter, "ann", time.Hour).Credentials(nil)
		}, true},
		{"issuer", false, func(s *rig) credentials.TransportCredentials {
			return s.shows("submitter.ann.x").Credentials(nil)
		}, false},
		{"issuer with localUsers", true, func(s *rig) credentials.TransportCredentials {
			return s.shows("submitter.ann.x").Credentials(nil)
		}, true},
	} {
		s := newRig(t)
		s.keepPasses()
		s.gate.o.Issued = func(string) (Issued, error) {
			return Issued{
				Role: identity.RoleSubmitter, Name: "ann", Until: s.clock().Add(time.Hour), LocalUser: c.local, Groups: member,
			}, nil
		}
		if _, ask := s.open(c.creds(s)); ask() != nil {
			t.Fatalf("%s is not let in", c.how)
		}
		s.gate.mu.Lock()
		for open := range s.gate.open { //order: there is only one
			ctx := peer.NewContext(t.Context(), &peer.Peer{AuthInfo: proved(open.peer)})
			if p := Principal(ctx); p.Name != "ann" || p.Proven != c.want {
				t.Errorf("%s: %v, want proven: %v", c.how, p, c.want)
			}
			groups := strings.Join(WhoAmI(ctx).Groups, " ")
			if issued := strings.HasPrefix(c.how, "issuer"); issued && groups != "ml zeta" || !issued && groups != "" {
				t.Errorf("%s: in the groups %s", c.how, groups)
			}
		}
		s.gate.mu.Unlock()
	}
}
