package authn

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
	testpace "github.com/yi-json/synapse/test/able/pace"
)

// newRigNow returns a rig with the clock of the host, because a joining node uses this clock.
func newRigNow(t *testing.T) *rig {
	t.Helper()
	return newStageAt(t, time.Now())
}

func (s *rig) invite(i credential.Invitation, uses int) string {
	s.t.Helper()
	if i.Until.IsZero() {
		i.Until = s.clock().Add(time.Hour)
	}
	return must(credential.Invite(s.by, i, uses))
}

// TestJoin checks that a node creates a key, gets a certificate with its token, and connects. The token is then
// used up.
func TestJoin(t *testing.T) {
	s := newRigNow(t)
	token := s.invite(credential.Invitation{}, 1)
	folder := must(credential.Join(t.Context(), token+"\n", []string{"127.0.0.1:1", s.address},
		credential.Joiner{Otherwise: "m1"}))
	if who := must(folder.Identity()); who.String() != "synapse://c-a/node/m1" {
		t.Errorf("it became %s", who)
	}
	folder.Dir = filepath.Join(t.TempDir(), "m1")
	if err := folder.Create(); err != nil {
		t.Fatal(err)
	}
	if _, ask := s.open(must(credential.OpenBadge(folder.Dir, identity.RoleNode)).Credentials(nil)); ask() != nil {
		t.Error("it is not let in with what it got")
	}
	for range 2 {
		_, err := credential.Join(t.Context(), token, []string{s.address}, credential.Joiner{Otherwise: "m2"})
		var r *credential.Refused
		if !errors.As(err, &r) || !strings.Contains(err.Error(), "it is used up") {
			t.Errorf("the token again: %v", err)
		}
	}
	if n := s.tells("Refused to let a node join from 127.0.0.1: join token is unknown to this scheduler"); n != 1 {
		t.Errorf("the log has %q", s.lines)
	}
	if strings.Contains(strings.Join(s.lines, "\n"), strings.Split(token, ".")[3]) {
		t.Error("the secret is in the log")
	}
}

// TestTokensOnDisk checks that only a hash of a token's secret is stored.
func TestTokensOnDisk(t *testing.T) {
	s := newRigNow(t)
	secret := strings.Split(s.invite(credential.Invitation{Name: "m1"}, 1), ".")[3]
	files := must(filepath.Glob(filepath.Join(s.by.Dir, "invitations", "*")))
	if len(files) != 1 {
		t.Fatalf("%d files are kept", len(files))
	}
	if info := must(os.Stat(files[0])); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %o", info.Mode().Perm())
	}
	if text := string(must(os.ReadFile(files[0]))); strings.Contains(text+files[0], secret) {
		t.Errorf("%s has the secret: %s", files[0], text)
	}
}

// TestTokensRefused checks the refused join tokens: expired, for another node, for a name in use, changed, or with
// an invalid name.
func TestTokensRefused(t *testing.T) {
	s := newRigNow(t)
	join := func(token, name string) error {
		_, err := credential.Join(t.Context(), token, []string{s.address}, credential.Joiner{Name: name, Otherwise: "made"})
		return err
	}
	if err := join(s.invite(credential.Invitation{}, 1), "m1"); err != nil {
		t.Fatal(err)
	}
	good := s.invite(credential.Invitation{Name: "m2"}, 1)
	parts := strings.Split(good, ".")
	zeros := strings.Repeat("0", 64)
	for name, refused := range map[string]struct{ token, name, words string }{
		"over":              {s.invite(credential.Invitation{Until: s.clock().Add(-time.Second)}, 1), "m3", "has expired"},
		"another machine's": {good, "m3", "for another node name"},
		"a taken name":      {s.invite(credential.Invitation{}, 1), "m1", "node name is used by another node"},
		"no name":           {s.invite(credential.Invitation{}, 1), "../m1", "must have letters"},
		"another secret":    {strings.Join([]string{parts[0], parts[1], parts[2], zeros}, "."), "m2", "is unknown to"},
		"another root":      {strings.Join([]string{parts[0], parts[1], zeros, parts[3]}, "."), "m2", "not a scheduler"},
		"another cluster":   {strings.Join([]string{parts[0], "c-b", parts[2], parts[3]}, "."), "m2", "not a scheduler"},
		"nothing":           {"", "m2", "is malformed"},
		"half of it":        {good[:len(good)/2], "m2", "is malformed"},
	} {
		if err := join(refused.token, refused.name); err == nil || !strings.Contains(err.Error(), refused.words) {
			t.Errorf("%s: %v, want %q", name, err, refused.words)
		}
	}
	if err := join(good, ""); err != nil {
		t.Errorf("what was refused has spent it: %v", err)
	}
	if err := join(s.invite(credential.Invitation{Name: "m1"}, 1), ""); err != nil {
		t.Errorf("an operator's word replaces a machine: %v", err)
	}
	for _, uses := range []int{0, -1, credential.MaxUses + 1} {
		if _, err := credential.Invite(s.by, credential.Invitation{}, uses); err == nil {
			t.Errorf("%d uses", uses)
		}
	}
}

// TestUses checks that of many concurrent joins exactly as many succeed as the token allows.
func TestUses(t *testing.T) {
	s := newRigNow(t)
	token := s.invite(credential.Invitation{}, 3)
	var joined atomic.Int32
	var all sync.WaitGroup
	for _, name := range strings.Split("abcdefgh", "") {
		all.Go(func() {
			if _, err := credential.Join(t.Context(), token, []string{s.address}, credential.Joiner{Name: name}); err == nil {
				joined.Add(1)
			}
		})
	}
	all.Wait()
	if joined.Load() != 3 {
		t.Errorf("%d joined with a token for 3", joined.Load())
	}
}

// TestSecretStays checks that a fake scheduler never receives the secret of a token.
func TestSecretStays(t *testing.T) {
	s, other := newRigNow(t), authority(t, "c-a", time.Now())
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	defer listener.Close()
	posing := identity.Identity{Cluster: "c-a", Role: identity.RoleScheduler, Name: "s1"}
	thief := must(other.Pair.IssuePair(posing, time.Now()))
	heard := make(chan int, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		secure := tls.Server(conn, &tls.Config{
			Certificates: []tls.Certificate{*thief.TLS()}, NextProtos: []string{credential.ProtocolJoin},
		})
		n, _ := secure.Read(make([]byte, 1))
		heard <- n
	}()
	at := []string{listener.Addr().String()}
	token := s.invite(credential.Invitation{}, 1)
	if _, err := credential.Join(t.Context(), token, at, credential.Joiner{Name: "m1"}); err == nil {
		t.Error("it joined a thief")
	}
	if n := <-heard; n != 0 {
		t.Error("the thief heard something")
	}
}

// TestNothingButJoining checks that a peer without a certificate can make one join request and no call.
func TestNothingButJoining(t *testing.T) {
	s := newRigNow(t)
	both := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{credential.ProtocolJoin, credential.ProtocolHTTP2}}
	conn := must(tls.Dial("tcp", s.address, both))
	defer conn.Close()
	_ = conn.SetDeadline(testpace.Until(10 * time.Second))
	if got := conn.ConnectionState().NegotiatedProtocol; got != credential.ProtocolJoin {
		t.Fatalf("it speaks %q", got)
	}
	_, _ = conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	if n, err := conn.Read(make([]byte, 1)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("it answered %d bytes (%v)", n, err)
	}
}
