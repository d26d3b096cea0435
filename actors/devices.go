package actors

import (
	"slices"

	"github.com/yi-json/synapse/messages"
)

// This file owns which of a machine's devices count.

// OutOfService counts the devices of an announcement that are withdrawn. Books may list one more, which
// the machine lost while a slice from before its agent's restart had it: nobody announces that one any
// more, and to leave it out once again would hide one that is well.
func OutOfService(a *messages.Announcement, l *messages.LedgerReport) (n int) {
	for _, id := range l.GetWithdrawnGpus() {
		if Announces(a, id) {
			n++
		}
	}
	return n
}

// Announces reports whether a machine says that it has a device.
func Announces(a *messages.Announcement, gpu string) bool {
	return slices.ContainsFunc(a.GetGpus(), func(g *messages.Gpu) bool { return g.Id == gpu })
}
