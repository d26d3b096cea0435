package main

import (
	"testing"

	"github.com/yi-json/synapse/cluster/link"
	"github.com/yi-json/synapse/server/authn"
)

// TestPauseEndsInTime: whoever is left unread for too many large requests is not taken for dead meanwhile, which he was
// after 13 seconds of up to 33.
func TestPauseEndsInTime(t *testing.T) {
	if authn.BulkPause >= link.SilentFor {
		t.Errorf("a connection is left unread for %s, and ends after %s", authn.BulkPause, link.SilentFor)
	}
}
