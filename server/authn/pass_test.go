package authn

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/store"
	testpace "github.com/yi-json/synapse/test/able/pace"
)

// This file tests authentication with user tokens: which tokens are accepted, and for how long.

// shelf is a fake store of tokens that a test can make unreachable.
type shelf struct {
	*store.Memory
	epoch uint64
	mu    sync.Mutex
	away  error
}

func (s *shelf) leave(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = err
}

func (s *shelf) pass(id string) (*messages.PassRecord, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away != nil {
		return nil, s.away
	}
	p, err := s.Pass(id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return p, err
}

// keepPasses gives the Authenticator a store of tokens.
func (s *rig) keepPasses() *shelf {
	s.shelf = &shelf{Memory: store.NewMemory()}
	s.shelf.epoch = must(s.shelf.Lead("tester"))
	s.gate.o.Pass = s.shelf.pass
	return s.shelf
}

// kept returns the text of a user's token that is in the store.
func (s *rig) kept(role identity.Role, name string, ttl time.Duration) (text, id string) {
	s.t.Helper()
	text, hash, err := credential.NewPass("c-a", sha256.Sum256(s.by.Roots[0].Raw))
	if err == nil {
		err = s.shelf.KeepPass(s.shelf.epoch, &messages.PassRecord{
			Id: messages.PassID(hash), Hash: hash, Role: string(role), Name: name, UntilUnixMs: s.clock().Add(ttl).UnixMilli(),
		})
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return text, messages.PassID(hash)
}

func (s *rig) bearer(role identity.Role, name string, ttl time.Duration) *credential.Bearer {
	s.t.Helper()
	text, _ := s.kept(role, name, ttl)
	return s.read(text)
}

func (s *rig) read(text string) *credential.Bearer {
	s.t.Helper()
	b := must(credential.ReadBearer(text + "\n"))
	b.Now = s.clock
	return b
}

// TestPass checks that a token authenticates its user until it expires, and that neither the log nor the store
// contains the secret.
func TestPass(t *testing.T) {
	s := newRig(t)
	shelf := s.keepPasses()
	text, id := s.kept(identity.RoleSubmitter, "ann", time.Hour)
	_, ask := s.open(s.read(text).Credentials(nil))
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	s.gate.mu.Lock()
	for c := range s.gate.open { //order: there is only one
		if c.peer.String() != "synapse://c-a/submitter/ann" || c.peer.Pass != id {
			t.Errorf("it is taken for %s, with token %s", c.peer.Identity, c.peer.Pass)
		}
	}
	s.gate.mu.Unlock()
	secret := strings.Split(text, ".")[3]
	kept := must(shelf.Pass(id)).String()
	log := strings.Join(s.lines, "\n")
	if strings.Contains(log+kept, secret) || strings.Contains(kept, string(s.read(text).Secret())) {
		t.Errorf("the secret is kept, or told: %s %s", log, kept)
	}
	s.later(time.Hour)
	if err := ask(); err == nil || s.tells("Closed the connection of synapse://c-a/submitter/ann") != 1 {
		t.Errorf("a token that is over goes on: %v, %q", err, s.lines)
	}
}

// later advances the clock and checks open connections.
func (s *rig) later(d time.Duration) {
	s.pass(d)
	s.gate.recheck()
}

// TestPassesRefused checks the refused tokens: unknown, deleted, of a denied user, or of another cluster.
func TestPassesRefused(t *testing.T) {
	s := newRig(t)
	shelf := s.keepPasses()
	unknown, _ := must2(credential.NewPass("c-a", sha256.Sum256(s.by.Roots[0].Raw)))
	elsewhere, _ := must2(credential.NewPass("c-a", sha256.Sum256(authority(t, "c-a", today).Roots[0].Raw)))
	misnamed, _ := must2(credential.NewPass("c-b", sha256.Sum256(s.by.Roots[0].Raw)))
	over, _ := s.kept(identity.RoleAdmin, "old", -time.Second)
	denied, _ := s.kept(identity.RoleAdmin, "eve", time.Hour)
	machine, _ := s.kept(identity.RoleNode, "n1", time.Hour)
	revoked, id := s.kept(identity.RoleAdmin, "bob", time.Hour)
	if err := shelf.DropPass(shelf.epoch, id); err != nil {
		t.Fatal(err)
	}
	begun, begunHash := must2(credential.NewPass("c-a", sha256.Sum256(s.by.Roots[0].Raw)))
	if err := shelf.KeepPass(shelf.epoch, &messages.PassRecord{
		Id: messages.PassID(begunHash), Hash: append(begunHash[:8:8], make([]byte, 24)...), Role: "admin", Name: "bea",
		UntilUnixMs: s.clock().Add(time.Hour).UnixMilli(),
	}); err != nil {
		t.Fatal(err)
	}
	s.deny("synapse://c-a/admin/eve\n")
	for name, c := range map[string]struct{ text, words string }{
		"unknown":         {unknown, "is unknown"},
		"one that begins": {begun, "is unknown"},
		"revoked":         {revoked, "is unknown"},
		"over":            {over, "token expired at"},
		"denied":          {denied, "identity is on the denylist: synapse://c-a/admin/eve"},
		"of a machine":    {machine, "tokens are for users"},
		"another root":    {elsewhere, "not a scheduler of this cluster"},
		"another cluster": {misnamed, "not a scheduler of this cluster"},
	} {
		var last *credential.Refused
		_, ask := s.open(s.read(c.text).Credentials(func(r *credential.Refused) { last = r }))
		if err := ask(); err == nil || last == nil || !strings.Contains(last.Error(), c.words) {
			t.Errorf("%s: %v, told %v", name, err, last)
		}
	}
	invited := must(credential.Invite(s.by, credential.Invitation{}, 1))
	for _, text := range []string{"", "x", revoked + "0", "synapselogin1.C.00.00", invited} {
		_, err := credential.ReadBearer(text)
		if err == nil || strings.Contains(err.Error(), text) && text != "" && text != "x" {
			t.Errorf("%q: %v", text, err)
		}
	}
	_, err := credential.Join(t.Context(), revoked, nil, credential.Joiner{})
	if err == nil || !strings.Contains(err.Error(), "a user's token") {
		t.Errorf("a machine with a person's token: %v", err)
	}
	s.gate.o.Pass = nil
	if _, ask := s.open(s.bearer(identity.RoleAdmin, "ada", time.Hour).Credentials(nil)); ask() == nil {
		t.Error("a scheduler without a store of tokens lets one in")
	}
}

// overhear makes a handshake with a certificate and the cluster's root, and returns the bytes that follow it.
func overhear(conn net.Conn, pair *identity.Pair, by *identity.Folder) []byte {
	shows := *pair.TLS()
	shows.Certificate = append(shows.Certificate, by.Roots[0].Raw)
	secure := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{shows},
		NextProtos: []string{credential.ProtocolPass}})
	_ = conn.SetDeadline(testpace.Until(10 * time.Second))
	got := make([]byte, 64)
	n, _ := secure.Read(got)
	return got[:n]
}

func must2(text string, hash []byte, err error) (string, []byte) {
	if err != nil {
		panic(err)
	}
	return text, hash
}

// TestRevokedOnAnOpenConnection checks that a revoked token loses its open connection at the next check. The same
// happens if the store does not answer for too long.
func TestRevokedOnAnOpenConnection(t *testing.T) {
	s := newRig(t)
	shelf := s.keepPasses()
	text, id := s.kept(identity.RoleSubmitter, "ann", 24*time.Hour)
	_, ask := s.open(s.read(text).Credentials(nil))
	_, other := s.open(s.bearer(identity.RoleSubmitter, "bob", 24*time.Hour).Credentials(nil))
	if err := errors.Join(ask(), other()); err != nil {
		t.Fatal(err)
	}
	shelf.leave(errors.New("the database is away"))
	s.later(recheckEvery)
	if n := s.said("Closed the connection"); n != 0 {
		t.Errorf("%d connections are closed at once: %q", n, s.lines)
	}
	shelf.leave(nil)
	if err := shelf.DropPass(shelf.epoch, id); err != nil {
		t.Fatal(err)
	}
	s.later(recheckEvery)
	if s.tells("Closed the connection of synapse://c-a/submitter/ann") != 1 || s.tells("Closed the connection of") != 1 {
		t.Errorf("the log has %q", s.lines)
	}
	if ask() == nil || other() != nil {
		t.Error("who is revoked asks on, or who is not does not")
	}
	shelf.leave(errors.New("the database is away"))
	for range int(maxUnasked/recheckEvery) + 1 {
		s.later(recheckEvery)
	}
	if s.tells("Closed the connection of synapse://c-a/submitter/bob") != 1 {
		t.Errorf("nobody knows whether bob is revoked, and he goes on: %q", s.lines)
	}
	var last *credential.Refused
	told := func(r *credential.Refused) { last = r }
	_, another := s.open(s.bearer(identity.RoleSubmitter, "cy", time.Hour).Credentials(told))
	if err := another(); err == nil || last != nil {
		t.Errorf("while the store is away: %v, refused for good: %v", err, last)
	}
	if 2*recheckEvery+maxUnasked > time.Minute {
		t.Error("who is revoked must be out within a minute")
	}
}

// TestStoreIsAwayAgain checks that the time without the store counts from the store's last answer, not from the
// start of the connection.
func TestStoreIsAwayAgain(t *testing.T) {
	s := newRig(t)
	shelf := s.keepPasses()
	_, ask := s.open(s.bearer(identity.RoleSubmitter, "ann", 24*time.Hour).Credentials(nil))
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	s.later(2 * maxUnasked)
	for range 3 {
		shelf.leave(errors.New("the database is away"))
		if s.later(maxUnasked); s.said("Closed the connection") > 0 || ask() != nil {
			t.Fatalf("the store was away for no longer than it may be, and the connection is closed: %q", s.lines)
		}
		shelf.leave(nil)
		s.later(0)
	}
	shelf.leave(errors.New("the database is away"))
	if s.later(maxUnasked + 1); s.tells("Closed the connection of synapse://c-a/submitter/ann") != 1 {
		t.Errorf("the store is away for too long: %q", s.lines)
	}
}

// TestPassIsSaidToSchedulersAlone checks that a client sends no part of a token before a scheduler of its cluster
// is authenticated.
func TestPassIsSaidToSchedulersAlone(t *testing.T) {
	s := newRig(t)
	s.keepPasses()
	b := s.bearer(identity.RoleAdmin, "ada", time.Hour)
	for name, pair := range map[string]*identity.Pair{
		"a machine":       must(s.by.Certify(identity.RoleNode, "n1", today)).Pair,
		"another cluster": must(authority(t, "c-a", today).Certify(identity.RoleScheduler, "s1", today)).Pair,
	} {
		here, there := net.Pipe()
		heard := make(chan []byte, 1)
		go func() { heard <- overhear(there, pair, s.by) }()
		ctx, cancel := context.WithTimeout(t.Context(), testpace.Of(10*time.Second))
		_, _, err := b.Credentials(nil).ClientHandshake(ctx, "", here)
		cancel()
		here.Close()
		var r *credential.Refused
		if got := <-heard; !errors.As(err, &r) || bytes.Contains(got, b.Secret()) || len(got) > 0 {
			t.Errorf("%s: %v, and heard %d bytes", name, err, len(got))
		}
	}
}
