package identity

import (
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
)

// TestAuthoritySigns checks that an authority signs for its cluster and roles, and refuses everything else before
// signing.
func TestAuthoritySigns(t *testing.T) {
	r := newRealm(t, "c-a")
	key := must(NewKey())
	for _, of := range []struct {
		id   Identity
		good bool
	}{
		{Identity{"c-a", RoleNode, "n1"}, true}, {Identity{"c-a", RoleAdmin, "ada"}, true},
		{Identity{"c-a", RoleScheduler, "s1"}, true}, {Identity{"c-a", RoleScheduler, "s2"}, false},
		{Identity{"c-b", RoleNode, "n1"}, false}, {Identity{"c-a", RoleAuthority, "s1"}, false},
		{Identity{"c-a", "king", "n1"}, false}, {Identity{"c-a", RoleNode, "a/b"}, false},
		{Identity{"c-a", RoleNode, ""}, false},
		{Identity{"c-a", RoleSubmitter, "ada"}, true}, {Identity{"c-a", RoleViewer, messages.Anonymous}, false},
		{Identity{"c-a", RoleNode, ".."}, false}, {Identity{"c-a", RoleNode, strings.Repeat("n", 129)}, false},
	} {
		if _, err := r.authority.Issue(of.id, &key.PublicKey, today); (err == nil) != of.good {
			t.Errorf("%s: %v", of.id, err)
		}
	}
	if _, err := r.pair(RoleNode, "n1").Issue(Identity{"c-a", RoleNode, "n2"}, &key.PublicKey, today); err == nil {
		t.Error("a node signed for another one")
	}
	if _, err := r.root.NewAuthority(Identity{"c-a", RoleNode, "n1"}, today); err == nil {
		t.Error("the root made an authority of a machine")
	}
	for _, name := range []string{"", "a.b", "A", "a_b", "-a", "a-", strings.Repeat("a", 64), "a/b"} {
		if _, err := NewRoot(name, today); err == nil {
			t.Errorf("there is a cluster %q", name)
		}
	}
}

// TestLives checks that a node's certificate starts ten minutes in the past, ends in a day, and is renewed after 16
// hours.
func TestLives(t *testing.T) {
	c := newRealm(t, "c-a").pair(RoleNode, "n1").Leaf()
	if !c.NotBefore.Equal(today.Add(-10*time.Minute)) || !c.NotAfter.Equal(today.Add(24*time.Hour)) {
		t.Errorf("it is good from %s to %s", c.NotBefore, c.NotAfter)
	}
	if got := RenewAt(c); !got.Equal(today.Add(16 * time.Hour)) {
		t.Errorf("it is renewed at %s", got)
	}
}

// TestRenewalIsBoundToTheKey checks that a renewal keeps the identity and the key, and that the request proves the key.
func TestRenewalIsBoundToTheKey(t *testing.T) {
	r := newRealm(t, "c-a")
	node := r.pair(RoleNode, "n1")
	peer := must(r.trust().verify(node.Chain, x509.ExtKeyUsageClientAuth, 0))
	later := today.Add(16 * time.Hour)
	chain := must(r.authority.Renew(peer, must(Request(node.Key)), later))
	if got := must(named(chain[0])); got != peer.Identity || !chain[0].NotAfter.Equal(later.Add(LifeDaily)) {
		t.Errorf("renewed: %s until %s", got, chain[0].NotAfter)
	}
	trust := r.trust()
	trust.Now = func() time.Time { return today.Add(30 * time.Hour) } // the first one has expired
	if _, err := trust.verify(chain, x509.ExtKeyUsageClientAuth, 0); err != nil {
		t.Error(err)
	}
	if _, err := r.authority.Renew(peer, must(Request(must(NewKey()))), later); !errors.Is(err, errRequest) {
		t.Errorf("with another key: %v", err)
	}
	broken := must(Request(node.Key))
	broken[len(broken)-1] ^= 1
	for name, request := range map[string][]byte{"a broken signature": broken, "nothing": nil, "noise": []byte("noise")} {
		if _, err := r.authority.Renew(peer, request, later); !errors.Is(err, errRequest) {
			t.Errorf("with %s: %v", name, err)
		}
	}
	person := r.pair(RoleAdmin, "ada")
	peer = must(r.trust().verify(person.Chain, x509.ExtKeyUsageClientAuth, 0))
	if _, err := r.authority.Renew(peer, must(Request(person.Key)), later); !errors.Is(err, errRequest) {
		t.Errorf("a person: %v", err)
	}
}

// TestDenylist checks the denial of an identity, of a serial number, and of everything that a denied authority signed,
// at handshakes and later.
func TestDenylist(t *testing.T) {
	r := newRealm(t, "c-a")
	node := r.pair(RoleNode, "n1")
	peer := must(r.trust().verify(node.Chain, x509.ExtKeyUsageClientAuth, 0))
	serial := node.Leaf().SerialNumber.Text(16)
	for entry, denied := range map[string]bool{
		"synapse://c-a/node/n1": true, "  synapse://c-a/node/n1  # stolen": true, "serial:" + serial: true,
		"serial:00" + strings.ToUpper(serial): true, "synapse://c-a/ca/s1": true,
		"synapse://c-a/node/n2": false, "synapse://c-b/node/n1": false, "serial:1": false, "# synapse://c-a/node/n1": false,
	} {
		trust := r.trust()
		trust.Denied = must(NewDenylist(entry))
		var m met
		server, client := ends(trust, r.pair(RoleScheduler, "s1"), r.trust(), node, &m)
		if got := meet(t, server, client); errors.Is(got.server, ErrDenied) != denied {
			t.Errorf("%s: %v", entry, got.server)
		}
		if err := trust.Recheck(peer, peer.Until); errors.Is(err, ErrDenied) != denied {
			t.Errorf("%s, on an open stream: %v", entry, err)
		}
	}
	late := r.trust()
	late.Now = func() time.Time { return today.Add(25 * time.Hour) }
	if err := late.Recheck(peer, peer.Until); err == nil {
		t.Error("an open stream outlives its certificate")
	}
	if err := late.Recheck(peer, today.Add(26*time.Hour)); err != nil {
		t.Errorf("renewed certificate: %v", err)
	}
}

// TestRecheckOfTheWholeChain checks that an open connection ends with the earliest end of a certificate in its chain,
// to the second, even if its own certificate was renewed.
func TestRecheckOfTheWholeChain(t *testing.T) {
	r := newRealm(t, "c-a")
	peer := must(r.trust().verify(r.pair(RoleNode, "n1").Chain, x509.ExtKeyUsageClientAuth, 0))
	if len(peer.chain) != 3 {
		t.Fatalf("a chain of %d", len(peer.chain))
	}
	forEver := today.AddDate(1000, 0, 0)
	for i, c := range peer.chain {
		short := peer
		short.chain = slices.Clone(peer.chain)
		ended := *c
		ended.NotAfter = today.Add(time.Hour)
		short.chain[i] = &ended
		until := forEver
		if i == 0 {
			until = ended.NotAfter // the certificate's own end, unless it was renewed
		}
		trust := r.trust()
		trust.Now = func() time.Time { return ended.NotAfter }
		if err := trust.Recheck(short, until); err != nil {
			t.Errorf("certificate %d at its end: %v", i, err)
		}
		trust.Now = func() time.Time { return ended.NotAfter.Add(time.Second) }
		var late *TimeError
		if err := trust.Recheck(short, until); !errors.As(err, &late) || late.Certificate != &ended {
			t.Errorf("certificate %d a second after its end: %v", i, err)
		}
	}
}

// TestDenylistFile checks that a missing file denies nobody, and that an invalid file changes nothing.
func TestDenylistFile(t *testing.T) {
	r := newRealm(t, "c-a")
	chain := r.pair(RoleNode, "n1").Chain
	n1 := Identity{"c-a", RoleNode, "n1"}
	path := filepath.Join(t.TempDir(), "denylist")
	d := must(OpenDenylist(path))
	write := func(text string) error {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return d.Reload()
	}
	if d.finds(n1, chain) != "" {
		t.Error("a missing file denies an identity")
	}
	if err := write("synapse://c-a/node/n1\n"); err != nil || d.finds(n1, chain) == "" {
		t.Errorf("not denied (%v)", err)
	}
	for _, mistake := range []string{"synapse://c-a/node\n", "serial:xyz\n", "n1\n"} {
		if err := write(mistake); err == nil || d.finds(n1, chain) == "" {
			t.Errorf("%q: %v, and the earlier list no longer applies", mistake, err)
		}
	}
	if _, err := OpenDenylist(path); err == nil {
		t.Error("a scheduler would begin with a list that it cannot read")
	}
}

// TestFolder checks that a written folder is read back, that only its owner can read the key, and that an existing
// folder is not overwritten.
func TestFolder(t *testing.T) {
	r := newRealm(t, "c-a")
	dir := filepath.Join(t.TempDir(), "n1")
	f := &Folder{Dir: dir, Roots: r.root.Chain, Pair: r.pair(RoleNode, "n1")}
	if err := f.Create(); err != nil {
		t.Fatal(err)
	}
	if err := f.Create(); err == nil {
		t.Error("a key was overwritten")
	}
	for _, name := range []string{keyFile, chainFile, rootsFile} {
		if info := must(os.Stat(filepath.Join(dir, name))); info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o", name, info.Mode().Perm())
		}
	}
	got := must(OpenFolder(dir))
	trust := must(got.Trust())
	trust.Now = r.trust().Now
	p, err := trust.verify(got.Pair.Chain, x509.ExtKeyUsageClientAuth, 0)
	if err != nil || p.String() != "synapse://c-a/node/n1" {
		t.Errorf("%s: %v", p, err)
	}
	if entries := must(os.ReadDir(dir)); len(entries) != 3 {
		t.Errorf("something was left: %v", entries)
	}
	if err := os.Chmod(filepath.Join(dir, keyFile), 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFolder(dir); err == nil || !strings.Contains(err.Error(), "key can be read by others") {
		t.Errorf("a key that others can read: %v", err)
	}
	other := &Folder{Dir: dir, Roots: r.root.Chain, Pair: r.pair(RoleNode, "n1")}
	if err := errors.Join(os.Chmod(filepath.Join(dir, keyFile), 0o600), other.SaveChain()); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFolder(dir); err == nil || !strings.Contains(err.Error(), "key does not match the certificate") {
		t.Errorf("certificate of another key: %v", err)
	}
}

// FuzzParse checks that an identity has only one written form.
func FuzzParse(f *testing.F) {
	for _, path := range []string{"c-a/node/n1", "c-a/node/n1/", "c-a:1/node/n1", "/node/%2f"} {
		f.Add("synapse://" + path)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if i, err := Parse(text); err == nil {
			if uri, err := i.uri(); i.String() != text || err != nil || uri.String() != text {
				t.Errorf("%q is read as %q, and a certificate has %q (%v)", text, i, uri, err)
			}
		}
	})
}

// FuzzRequest checks that any bytes instead of a certificate request are refused without a panic.
func FuzzRequest(f *testing.F) {
	f.Add(must(Request(must(NewKey()))))
	f.Add([]byte("0"))
	f.Fuzz(func(t *testing.T, request []byte) {
		if key, err := requested(request); (err == nil) == (key == nil) {
			t.Errorf("%v, %v", key, err)
		}
	})
}
