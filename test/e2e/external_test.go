package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/spiffe"
)

// This file tests a cluster whose certificates come from an external issuer, with real processes.

// outside holds the certificates of the tests' issuer, and the identities that they have in the cluster.
type outside struct {
	t   *testing.T
	by  *spiffe.Issuer
	dir string
}

const whoIsWho = `
cluster: e2e
cert: svid.pem
key: svid_key.pem
bundle: bundle.pem
ids:
- {id: "spiffe://example.org/people/ada", role: admin, name: ada}
- {id: "spiffe://example.org/people/{name}", role: viewer}
- {id: "spiffe://example.org/synapse/scheduler/{name}", role: scheduler}
- {id: "spiffe://example.org/synapse/node/{name}", role: node}
`

// of returns the --tls file for an ID.
func (o outside) of(id string) string {
	o.t.Helper()
	dir := filepath.Join(o.dir, filepath.Base(id))
	o.by.Write(dir, o.by.Sign("spiffe://example.org/"+id, nil))
	o.by.Put(dir, "tls.yaml", []byte(whoIsWho))
	return filepath.Join(dir, "tls.yaml")
}

// TestOutsideIssuer checks that a cluster with certificates of an external issuer runs a gang. A certificate of another
// identity, or of none, must be rejected with a clear error.
func TestOutsideIssuer(t *testing.T) {
	everywhere(t)
	keys, err := os.MkdirTemp("", "synapse-e2e-issuer-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(keys) })
	o := outside{t, spiffe.New(t, "example.org", time.Now()), keys}
	s := &secured{newCluster(t, "--tls", o.of("synapse/scheduler/head1")), keys}
	ada, eve := o.of("people/ada"), o.of("people/eve")
	s.tls = ada
	s.client = s.dial()
	for _, node := range []string{"n1", "n2"} {
		s.node(node, "r1", "--tls", o.of("synapse/node/"+node))
	}
	id := s.submit(gang(2, 8, "echo rank $SYNAPSE_RANK"))
	s.await(id, "succeeded")
	if got := s.logs(id); !strings.Contains(got, "rank 0") || !strings.Contains(got, "rank 1") {
		t.Errorf("the gang wrote %q", got)
	}
	s.as(ada, "whoami").wants(t, 0, "ada", "")
	s.as(ada, "submit", "--cpu", "1", "--image", "host", "--wait", "--", "true").wants(t, 0, "", "")
	s.as(eve, "get", "jobs", "--no-headers").wants(t, 0, "ada", "")
	s.as(eve, "cancel", id).wants(t, 5, "", "eve (viewer) may not")
	s.as(o.of("web/front"), "get", "jobs").wants(t, 2, "", "no entry under ids matches the ID")
	s.as(o.of("synapse/node/n3"), "get", "jobs").wants(t, 2, "", "but needs role admin")
	s.as("", "get", "jobs").wants(t, 5, "", "scheduler requires TLS")
	s.as(ada, "token", "create", "--user", "ann", "--role", "viewer").
		wants(t, 2, "", "user tokens require TLS and an admin's certificate or token of the cluster")

	// A node cannot act as a scheduler on any port.
	posing := launch(t, "n9 as a scheduler", "synapse-scheduler", "--listen", "127.0.0.1:0", "--store", "memory",
		"--data-dir", filepath.Join(s.dir, "posing"), "--tls", o.of("synapse/node/n9"))
	<-posing.silent
	if !strings.Contains(posing.said(), "a scheduler needs one of role scheduler") {
		t.Errorf("it said %q", posing.said())
	}
}
