package postgres

import (
	"testing"

	"github.com/yi-json/synapse/test/pgtest"
)

// This file owns the tests of the queries of schedulers before one of them leads.

func TestOneClusterForAll(t *testing.T) {
	url := database(t)
	a, b := opened(t, Options{URL: url}), opened(t, Options{URL: url})
	first, err := a.ClusterID("c-a")
	if err != nil || first != "c-a" {
		t.Fatalf("first ID is %q (%v)", first, err)
	}
	if second, err := b.ClusterID("c-b"); err != nil || second != first {
		t.Fatalf("second ID is %q and the first %q (%v)", second, first, err)
	}
}

func TestWhatTimeMayMend(t *testing.T) {
	own := pgtest.Start(t)
	url := own.Database(t)
	if _, err := Open(Options{URL: own.URL("nowhere")}); err == nil || Unreachable(err) {
		t.Errorf("a database that is not there: %v", err)
	}
	if err := own.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{URL: url}); err == nil || !Unreachable(err) {
		t.Errorf("a server that is away: %v", err)
	}
}

// TestEpochIsMovedOnByHand performs a restore as described in docs/operate/backup.md. The next leader's epoch must
// exceed all epochs after the backup.
func TestEpochIsMovedOnByHand(t *testing.T) {
	url := database(t)
	s := opened(t, Options{URL: url})
	before := mustLead(t, s, "a")
	server.Exec(t, url, "UPDATE synapse.lease SET epoch = epoch + 1000000")
	after := mustLead(t, s, "a")
	if after != before+1_000_001 {
		t.Fatalf("epoch %d after %d", after, before)
	}
	applied(t, s, after, three(after)...)
}
