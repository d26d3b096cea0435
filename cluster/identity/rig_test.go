package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/able/pace"
)

// This file owns the test setup: clusters with roots and authorities, and a real handshake on loopback.

// today is the default time of certificates in the tests.
var today = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// realm is a cluster: its root, and the authority of its scheduler s1.
type realm struct {
	t         *testing.T
	name      string
	root      *Pair
	authority *Pair
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func newRealm(t *testing.T, name string) *realm {
	r := &realm{t: t, name: name, root: must(NewRoot(name, today))}
	r.authority = must(r.root.NewAuthority(Identity{name, RoleAuthority, "s1"}, today))
	return r
}

func (r *realm) pair(role Role, name string) *Pair {
	return must(r.authority.IssuePair(Identity{r.name, role, name}, today))
}

func (r *realm) trust() *Trust {
	return &Trust{Cluster: r.name, Roots: r.root.Chain, Now: func() time.Time { return today }}
}

// forge signs any certificate by an authority that checks nothing.
func forge(t *testing.T, by *Pair, change func(*x509.Certificate), names ...string) *Pair {
	t.Helper()
	template := window(today, LifeDaily)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = usages[RoleScheduler]
	for _, name := range names {
		template.URIs = append(template.URIs, must(url.Parse(name)))
	}
	if change != nil {
		change(template)
	}
	key := must(NewKey())
	return must(signed(template, key, &key.PublicKey, by))
}

// met is the result of a handshake at each end.
type met struct {
	server, client         error
	seenServer, seenClient Peer
	heard                  int // bytes of application data that the server received
}

// meet lets a client send one byte to a server.
func meet(t *testing.T, server, client *tls.Config) met {
	t.Helper()
	listener := must(net.Listen("tcp", "127.0.0.1:0")) // with an in-memory pipe, both ends could block while writing
	b := must(net.Dial("tcp", listener.Addr().String()))
	a := must(listener.Accept())
	listener.Close()
	defer a.Close()
	defer b.Close()
	ctx, cancel := context.WithTimeout(t.Context(), pace.Of(10*time.Second))
	defer cancel()
	var m met
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer a.Close()
		conn := tls.Server(a, server)
		if m.server = conn.HandshakeContext(ctx); m.server == nil {
			m.heard, _ = conn.Read(make([]byte, 1))
		}
	}()
	conn := tls.Client(b, client)
	if m.client = conn.HandshakeContext(ctx); m.client == nil {
		_, _ = conn.Write([]byte("x"))
	}
	b.Close()
	<-ended
	return m
}

// ends returns the two configurations of a cluster for a scheduler and a client.
func ends(server *Trust, serves *Pair, client *Trust, dials *Pair, m *met) (*tls.Config, *tls.Config) {
	return server.ServerConfig(func() *Pair { return serves }, func(p Peer) { m.seenClient = p }),
		client.ClientConfig(func() *Pair { return dials }, func(p Peer) { m.seenServer = p })
}

// between performs a handshake by the rules of one cluster.
func (r *realm) between(t *testing.T, serves, dials *Pair) met {
	t.Helper()
	var m met
	server, client := ends(r.trust(), serves, r.trust(), dials, &m)
	got := meet(t, server, client)
	got.seenServer, got.seenClient = m.seenServer, m.seenClient
	return got
}
