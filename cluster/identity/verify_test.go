package identity

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestBothEndsLearnWho checks that a node and a user are admitted, and that each end identifies the other by its
// certificate.
func TestBothEndsLearnWho(t *testing.T) {
	r := newRealm(t, "c-a")
	for _, role := range []Role{RoleNode, RoleAdmin, RoleScheduler} {
		name := "s1"
		m := r.between(t, r.pair(RoleScheduler, "s1"), r.pair(role, name))
		if m.client != nil || m.server != nil || m.heard != 1 {
			t.Fatalf("%s: %v, %v, received %d", role, m.client, m.server, m.heard)
		}
		if got, want := m.seenClient.String(), "synapse://c-a/"+string(role)+"/s1"; got != want {
			t.Errorf("the server saw %s, want %s", got, want)
		}
		if got, want := m.seenServer.String(), "synapse://c-a/scheduler/s1"; got != want {
			t.Errorf("the client saw %s, want %s", got, want)
		}
	}
}

// TestServerRefuses checks that the server refuses strangers, and reads no application data from them.
func TestServerRefuses(t *testing.T) {
	r, other := newRealm(t, "c-a"), newRealm(t, "c-b")
	node := "synapse://c-a/node/n1"
	twin := newRealm(t, "c-a") // with the same name and another root
	second := must(r.root.NewAuthority(Identity{"c-a", RoleAuthority, "s2"}, today))
	foreign := must(r.root.NewAuthority(Identity{"c-a", RoleAuthority, "s1"}, today))
	for name, of := range map[string]struct {
		pair *Pair
		want error
	}{
		"another cluster":            {other.pair(RoleNode, "n1"), ErrUnknown},
		"another root of the name":   {twin.pair(RoleNode, "n1"), ErrUnknown},
		"two URIs":                   {forge(t, r.authority, nil, node, "synapse://c-a/node/n2"), errNames},
		"no URI":                     {forge(t, r.authority, nil), errNames},
		"signed by the root":         {forge(t, r.root, nil, node), ErrUnknown},
		"an authority":               {r.authority, ErrUnknown},
		"a role that is none":        {forge(t, r.authority, nil, "synapse://c-a/king/n1"), nil},
		"an authority's other name":  {forge(t, second, nil, "synapse://c-a/scheduler/s1"), ErrUnknown},
		"beyond the constraint":      {forge(t, r.authority, nil, "synapse://c-b/node/n1"), ErrUnknown},
		"a cluster below":            {forge(t, r.authority, nil, "synapse://b.c-a/node/n1"), nil},
		"another way to write it":    {forge(t, r.authority, nil, "synapse://c-a/node/n1?x=1"), nil},
		"escaped":                    {forge(t, r.authority, nil, "synapse://c-a/node/%6e1"), nil},
		"with a port":                {forge(t, r.authority, nil, "synapse://c-a:9/node/n1"), nil},
		"signed by a leaf":           {forge(t, r.pair(RoleNode, "n1"), nil, node), ErrUnknown},
		"its own authority":          {forge(t, &Pair{Key: must(NewKey())}, nil, node), ErrUnknown},
		"only for servers":           {forge(t, r.authority, forServers, node), ErrRole},
		"a second one of its signer": {must(foreign.IssuePair(Identity{"c-a", RoleNode, "n1"}, today)), errAccepted},
	} {
		m := r.between(t, r.pair(RoleScheduler, "s1"), of.pair)
		if errors.Is(of.want, errAccepted) {
			if m.server != nil {
				t.Errorf("%s: refused: %v", name, m.server)
			}
			continue
		}
		if m.server == nil || m.heard != 0 || of.want != nil && !errors.Is(m.server, of.want) {
			t.Errorf("%s: %v (received %d), want %v", name, m.server, m.heard, of.want)
		}
		if m.seenClient.Name != "" {
			t.Errorf("%s: it was seen as %s", name, m.seenClient)
		}
	}
}

// errAccepted marks a test row that must be accepted, which shows that the others fail for their own reasons.
var errAccepted = errors.New("it comes in")

func forServers(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }

// TestClientRefuses checks that a client sends neither data nor its certificate to a server that is not a scheduler of
// the cluster.
func TestClientRefuses(t *testing.T) {
	r, other := newRealm(t, "c-a"), newRealm(t, "c-b")
	for name, of := range map[string]struct {
		serves *Pair
		want   error
	}{
		"a machine":                     {r.pair(RoleNode, "n1"), ErrRole},
		"a person":                      {r.pair(RoleAdmin, "ada"), ErrRole},
		"a machine with all usages":     {forge(t, r.authority, nil, "synapse://c-a/node/n1"), ErrRole},
		"a scheduler without its usage": {forge(t, r.authority, forClients, "synapse://c-a/scheduler/s1"), ErrRole},
		"another cluster's scheduler":   {other.pair(RoleScheduler, "s1"), ErrUnknown},
		"the authority":                 {r.authority, ErrUnknown},
	} {
		shown := false
		loose := &tls.Config{
			Certificates: []tls.Certificate{*of.serves.TLS()}, ClientAuth: tls.RequestClientCert,
			VerifyPeerCertificate: func(raw [][]byte, _ [][]*x509.Certificate) error { shown = len(raw) > 0; return nil },
		}
		dials := r.pair(RoleNode, "n1")
		m := meet(t, loose, r.trust().ClientConfig(func() *Pair { return dials }, nil))
		if m.client == nil || m.heard != 0 || shown || !errors.Is(m.client, of.want) {
			t.Errorf("%s: %v (received %d, own certificate shown: %t), want %v", name, m.client, m.heard, shown, of.want)
		}
	}
}

func forClients(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }

// TestOtherWaysIn checks that an older TLS version and a client without a certificate are refused, and that no session
// ticket is issued.
func TestOtherWaysIn(t *testing.T) {
	r := newRealm(t, "c-a")
	server := r.trust().ServerConfig(func() *Pair { return r.authority }, nil)
	if !server.SessionTicketsDisabled || server.MinVersion != tls.VersionTLS13 {
		t.Error("a ticket would outlive the denylist")
	}
	node := r.pair(RoleNode, "n1")
	older := r.trust().ClientConfig(func() *Pair { return node }, nil)
	older.MinVersion, older.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	if m := meet(t, server, older); m.server == nil || !strings.Contains(m.server.Error(), "unsupported versions") {
		t.Errorf("TLS 1.2: %v", m.server)
	}
	bare := &tls.Config{InsecureSkipVerify: true}
	if m := meet(t, server, bare); m.server == nil || !strings.Contains(m.server.Error(), "didn't provide a certificate") {
		t.Errorf("no certificate: %v", m.server)
	}
	dials := r.trust().ClientConfig(func() *Pair { return node }, nil)
	old := &tls.Config{MaxVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*r.pair(RoleScheduler, "s1").TLS()}}
	if m := meet(t, old, dials); m.client == nil {
		t.Error("a client spoke TLS 1.2")
	}
}

// TestTimes checks that an error about time names both clocks, for any certificate of the chain.
func TestTimes(t *testing.T) {
	r := newRealm(t, "c-a")
	scheduler, node := r.pair(RoleScheduler, "s1"), r.pair(RoleNode, "n1")
	for _, at := range []struct {
		now   time.Time
		words string
	}{
		{today.Add(-11 * time.Minute), "of synapse://c-a/node/n1 is not valid yet: it is valid from 2026-11-23 11:50:00 " +
			"UTC to 2026-11-24 12:00:00 UTC, but the clock of this host shows 2026-11-23 11:49:00 UTC"},
		{today.Add(25 * time.Hour), "of synapse://c-a/node/n1 has expired: it is valid from 2026-11-23 " +
			"11:50:00 UTC to 2026-11-24 12:00:00 UTC, but the clock of this host shows 2026-11-24 13:00:00 UTC"},
		{today.Add(LifeAuthority + time.Hour), "has expired"},
		{today.Add(-9 * time.Minute), ""},
		{today.Add(23 * time.Hour), ""},
	} {
		trust := r.trust()
		trust.Now = func() time.Time { return at.now }
		var m met
		server, client := ends(trust, scheduler, r.trust(), node, &m)
		got := meet(t, server, client)
		var late *TimeError
		switch {
		case at.words == "" && got.server != nil:
			t.Errorf("at %s: %v", at.now, got.server)
		case at.words != "" && (!errors.As(got.server, &late) || !strings.Contains(got.server.Error(), at.words)):
			t.Errorf("at %s: %v, want %s", at.now, got.server, at.words)
		}
	}
}

// TestLapsed checks that a node may renew up to 30 days late. A user may not, and neither may a node under an expired
// authority.
func TestLapsed(t *testing.T) {
	r := newRealm(t, "c-a")
	const grace = 30 * 24 * time.Hour
	for _, of := range []struct {
		role Role
		late time.Duration
		good bool
	}{
		{RoleNode, 25 * time.Hour, true}, {RoleNode, grace, true}, {RoleNode, grace + 25*time.Hour, false},
		{RoleScheduler, 25 * time.Hour, false}, {RoleAdmin, LifePerson + time.Hour, false}, {RoleNode, 0, true},
	} {
		trust := r.trust()
		trust.Now = func() time.Time { return today.Add(of.late) }
		_, err := trust.verify(r.pair(of.role, "s1").Chain, x509.ExtKeyUsageClientAuth, grace)
		if (err == nil) != of.good {
			t.Errorf("%s after %s: %v", of.role, of.late, err)
		}
	}
	trust := r.trust()
	old := must(r.authority.IssuePair(Identity{"c-a", RoleNode, "n1"}, today.Add(LifeAuthority-time.Hour)))
	if !old.Leaf().NotAfter.Equal(r.authority.Leaf().NotAfter) {
		t.Errorf("a certificate outlives its authority: %s", old.Leaf().NotAfter)
	}
	trust.Now = func() time.Time { return today.Add(LifeAuthority + time.Hour) }
	if _, err := trust.verify(old.Chain, x509.ExtKeyUsageClientAuth, grace); err == nil {
		t.Error("an expired authority still admits a node")
	}
}

// TestConstraintInTheCertificate checks that the library alone, like any other verifier, refuses a certificate that an
// authority signed for another cluster.
func TestConstraintInTheCertificate(t *testing.T) {
	r := newRealm(t, "c-a")
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	roots.AddCert(r.root.Leaf())
	between.AddCert(r.authority.Leaf())
	o := x509.VerifyOptions{
		Roots: roots, Intermediates: between, CurrentTime: today, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	}
	for name, good := range map[string]bool{"synapse://c-a/node/n1": true, "synapse://c-b/node/n1": false} {
		_, err := forge(t, r.authority, nil, name).Leaf().Verify(o)
		var invalid x509.CertificateInvalidError
		constrained := errors.As(err, &invalid) && invalid.Reason == x509.CANotAuthorizedForThisName
		if (err == nil) != good || err != nil && !constrained {
			t.Errorf("%s: %v", name, err)
		}
	}
	asAuthority := func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true }
	below := forge(t, r.authority, asAuthority, "synapse://c-a/ca/s1")
	between.AddCert(below.Leaf())
	if _, err := forge(t, below, nil, "synapse://c-a/node/n1").Leaf().Verify(o); err == nil {
		t.Error("an authority made another authority")
	}
}

// FuzzDenylist checks that a list is accepted completely or not at all, and that each entry has only one written form.
func FuzzDenylist(f *testing.F) {
	f.Add("synapse://c-a/node/n1 # stolen\nserial:00:ff\n")
	f.Add("serial:\n")
	f.Fuzz(func(t *testing.T, text string) {
		d := &Denylist{}
		if err := d.take([]byte(text)); err != nil {
			if d.list.Load() != nil {
				t.Error("half a list is in force")
			}
			return
		}
		for entry := range *d.list.Load() { //order: each is looked at alone
			again := &Denylist{}
			if err := again.take([]byte(entry)); err != nil {
				t.Errorf("%q is denied, and cannot be read: %v", entry, err)
			} else if _, ok := (*again.list.Load())[entry]; !ok {
				t.Errorf("%q is another entry when it is read again", entry)
			}
		}
	})
}

// FuzzBounds checks that the bounds of a certificate are read back unchanged, or refused.
func FuzzBounds(f *testing.F) {
	f.Add("gpus=8", "labels=a=b,c=d")
	f.Add("gpus=8", "gpus=9")
	f.Fuzz(func(t *testing.T, one, two string) {
		c := &x509.Certificate{Subject: pkix.Name{OrganizationalUnit: []string{one, two}}}
		b, err := boundsOf(c)
		if err != nil {
			return
		}
		units := b.units()
		if slices.Sort(c.Subject.OrganizationalUnit); !slices.Equal(units, c.Subject.OrganizationalUnit) {
			t.Errorf("%q is read as %q", c.Subject.OrganizationalUnit, units)
		}
	})
}
