package actors

import (
	"slices"

	"github.com/yi-json/synapse/messages"
)

// This file owns which devices of a node count.

// OutOfService counts the announced devices that are withdrawn. A ledger may list one more withdrawn device, which the
// node lost while an allocation from before the agent's restart held it. The node no longer announces that device.
// Subtracting it again would hide a healthy device.
func OutOfService(a *messages.Announcement, l *messages.LedgerReport) (n int) {
	for _, id := range l.GetWithdrawnGpus() {
		if Announces(a, id) {
			n++
		}
	}
	return n
}

// Announces reports whether a node announces a device.
func Announces(a *messages.Announcement, gpu string) bool {
	return slices.ContainsFunc(a.GetGpus(), func(g *messages.Gpu) bool { return g.Id == gpu })
}
