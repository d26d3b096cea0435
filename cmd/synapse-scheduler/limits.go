package main

import (
	"github.com/yi-json/synapse/actors/leader"
	"github.com/yi-json/synapse/cmd/internal/settings"
	"github.com/yi-json/synapse/server/authn"
)

// This file reads the section `perOwner` of the settings file: the limits of one owner in all queues together.

// ownerSettings holds the values of the section; 0 means no limit.
type ownerSettings struct {
	waiting, waitingMiB, submits, burst, uids int64
}

const (
	mostWaiting = 10_000_000
	mostMiB     = 1 << 20
	mostSubmits = 1_000_000
)

func defaultOwners() ownerSettings {
	limits, submits := leader.DefaultOwnerLimits(), authn.DefaultSubmits()
	return ownerSettings{
		waiting: limits.Waiting, waitingMiB: limits.Bytes >> 20, uids: limits.UIDPercent,
		submits: int64(submits.PerSecond), burst: int64(submits.Burst),
	}
}

func ownersSection(to *ownerSettings) settings.Section {
	return settings.Section{Name: "perOwner", Check: func(string) error { return nil }, Keys: []settings.Key{
		numberIn("waiting", &to.waiting, 0, mostWaiting), numberIn("waitingMiB", &to.waitingMiB, 0, mostMiB),
		numberIn("submits", &to.submits, 0, mostSubmits), numberIn("burst", &to.burst, 1, mostSubmits),
		numberIn("uidPercent", &to.uids, 0, 100),
	}}
}

// limits returns the limits that the leader enforces.
func (o *ownerSettings) limits() leader.OwnerLimits {
	return leader.OwnerLimits{Waiting: o.waiting, Bytes: o.waitingMiB << 20, UIDPercent: o.uids}
}

// allowance returns the limits that the Authenticator enforces.
func (o *ownerSettings) allowance() authn.Allowance {
	a := authn.DefaultAllowance()
	a.Submits = authn.Rate{PerSecond: int(o.submits), Burst: int(o.burst)}
	return a
}
