package link

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/messages"
)

// This file owns the comparison of a node's announcement with its certificate. An announcement that exceeds the
// certificate is passed on with a doubt, and the leader gives the node no work. If the Hello were dropped, the node's
// tasks would have no leader, and operators would see no reason.

// doubts returns how an announcement exceeds the certificate. It returns the empty string if it does not.
func doubts(b identity.Bounds, a *messages.Announcement) string {
	said := func(what, says string, key identity.Bound) string {
		return fmt.Sprintf("it announces %s %.200s, but its certificate allows %.200q", what, says, b[key])
	}
	if most, ok := b[identity.BoundGPUs]; ok {
		if n, err := strconv.Atoi(most); err != nil || len(a.GetGpus()) > n {
			return said("GPU count", strconv.Itoa(len(a.GetGpus())), identity.BoundGPUs)
		}
	}
	if kind, ok := b[identity.BoundGPUType]; ok {
		for _, g := range a.GetGpus() {
			if g.GetType() != kind {
				return said("GPU type", strconv.Quote(g.GetType()), identity.BoundGPUType)
			}
		}
	}
	if list, ok := b[identity.BoundLabels]; ok {
		allowed := strings.Split(list, ",")
		for _, l := range a.GetLabels() {
			if text := l.GetKey() + "=" + l.GetValue(); !slices.Contains(allowed, text) {
				return said("label", text, identity.BoundLabels)
			}
		}
	}
	if place, ok := b[identity.BoundPlace]; ok {
		var stands []string
		for _, l := range a.GetPlace() {
			stands = append(stands, l.GetKey()+"="+l.GetValue())
		}
		if text := strings.Join(stands, ","); text != place {
			return said("topology domain", text, identity.BoundPlace)
		}
	}
	return ""
}
