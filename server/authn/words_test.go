package authn

import (
	"crypto/x509"
	"net/url"
	"testing"
	"time"

	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/server/connlimit"
)

// TestRefusedAgain checks that repeated attempts with the same expired certificate are logged once, although the
// text contains the time. Another certificate is logged, and the same one again after a while.
func TestRefusedAgain(t *testing.T) {
	var said connlimit.Repeats
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	refused := func(who string, later time.Duration) bool {
		at := now.Add(later)
		over := &identity.TimeError{Now: at, Certificate: &x509.Certificate{
			URIs: []*url.URL{{Scheme: "synapse", Host: "c", Path: "/node/" + who}}, NotAfter: now.Add(-time.Hour),
		}}
		return said.First("Refused a connection from 10.0.0.1: "+over.Error(), at)
	}
	for _, c := range []struct {
		who   string
		later time.Duration
		told  bool
	}{
		{"n1", 0, true}, {"n1", time.Second, false}, {"n1", 9 * time.Second, false}, {"n2", 9 * time.Second, true},
		{"n1", connlimit.QuietFor, true}, {"n1", connlimit.QuietFor + time.Second, false},
	} {
		if told := refused(c.who, c.later); told != c.told {
			t.Errorf("%s after %v: told %v", c.who, c.later, told)
		}
	}
}
