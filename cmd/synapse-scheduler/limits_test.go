package main

import (
	"testing"

	"github.com/yi-json/synapse/actors/leader"
	"github.com/yi-json/synapse/server/authn"
)

// TestOwnersSection checks that the section, or without it the defaults, reach the leader and the Authenticator.
func TestOwnersSection(t *testing.T) {
	o := defaultOwners()
	if o.limits() != leader.DefaultOwnerLimits() || o.allowance() != authn.DefaultAllowance() {
		t.Errorf("without a section: %+v, %+v", o.limits(), o.allowance())
	}
	o, text := defaultOwners(), "perOwner: {waiting: 7, waitingMiB: 3, submits: 2, burst: 9, uidPercent: 0}\n"
	if err := readSection(t, text, ownersSection(&o)); err != nil {
		t.Fatal(err)
	}
	if want := (leader.OwnerLimits{Waiting: 7, Bytes: 3 << 20}); o.limits() != want {
		t.Errorf("the leader has %+v, want %+v", o.limits(), want)
	}
	if want := (authn.Rate{PerSecond: 2, Burst: 9}); o.allowance().Submits != want {
		t.Errorf("the gate has %+v, want %+v", o.allowance().Submits, want)
	}
	if err := readSection(t, "perOwner: {uidPercent: 101}\n", ownersSection(&o)); err == nil {
		t.Error("101% is taken")
	}
}
