package coordinator

import (
	"fmt"
	"slices"
	"strings"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the checks of a node's answer to Reserve. The grant of a node goes unchanged into COMMIT and to all
// other members. A port of 0 or a missing rank would therefore be permanent. An answer that differs from the request
// counts as a refusal.

// unversed reports whether a node's agent is too old for a feature that the job uses, such as its script or its
// network. Such an agent would ignore the feature and run the job without it.
func (w *party) unversed(spec *messages.JobSpec) bool {
	return w.Vocabulary < messages.VocabularyOf(spec)
}

// allGone reports whether all members of the attempt on this node have ended. After a takeover, a node repeats exits
// that are already on disk. Those ranks are no longer members and do not count.
func (w *party) allGone() bool {
	return !slices.ContainsFunc(w.Members, func(m *messages.Member) bool { return !w.gone[m.Rank] })
}

// misgranted returns how a grant differs from the request. It returns the empty string if they match.
func (w *party) misgranted(m *messages.Reserved, gpuType string) string {
	if len(m.Grants) != len(w.Members) {
		return fmt.Sprintf("granted %d ranks, but %d were requested", len(m.Grants), len(w.Members))
	}
	taken := map[string]int64{}
	for i, g := range m.Grants {
		asked := w.Members[i]
		switch {
		case g.Rank != asked.Rank:
			return fmt.Sprintf("granted rank %d instead of rank %d", g.Rank, asked.Rank)
		case messages.FromResources(g.Amount) != messages.FromResources(asked.Amount):
			return fmt.Sprintf("granted rank %d another amount than requested", g.Rank)
		}
		for _, s := range g.Gpus {
			taken[s.GpuId] += s.Milli
			if why := w.wrongShare(s, asked.Amount.MilliGpu, taken[s.GpuId], gpuType); why != "" {
				return fmt.Sprintf("granted rank %d device %s, %s", g.Rank, s.GpuId, why)
			}
		}
		if want := (asked.Amount.MilliGpu + topology.WholeGPU - 1) / topology.WholeGPU; int64(len(g.Gpus)) != want {
			return fmt.Sprintf("granted rank %d %d devices, but %d were requested", g.Rank, len(g.Gpus), want)
		}
	}
	return w.misplaced(m)
}

// wrongShare returns what is wrong with one device of a grant. The argument sum is the amount that this answer has
// granted of the device so far.
func (w *party) wrongShare(s *messages.GpuShare, asked, sum int64, gpuType string) string {
	gpu := w.gpu(s.GpuId)
	switch {
	case gpu == nil:
		return "which the node never announced"
	case gpuType != "" && gpu.Type != gpuType:
		return fmt.Sprintf("of type %s, but %s was requested", gpu.Type, gpuType)
	case s.Milli <= 0 || sum > topology.WholeGPU:
		return "more than the device has"
	case s.Milli != min(asked, topology.WholeGPU):
		return fmt.Sprintf("%d thousandths of it, but %d were requested", s.Milli, min(asked, topology.WholeGPU))
	}
	return ""
}

// gpu finds a device that the node announced.
func (w *party) gpu(id string) *messages.Gpu {
	for _, g := range w.Announced.GetGpus() {
		if g.Id == id {
			return g
		}
	}
	return nil
}

// misplaced returns what is wrong with the rendezvous address or port of an answer. Only rank 0's node must name them.
// An address of any other node goes into the members' environment too.
func (w *party) misplaced(m *messages.Reserved) string {
	meets := w.Members[0].Rank == 0
	switch {
	case meets && (m.RendezvousPort < 1 || m.RendezvousPort > 65_535):
		return fmt.Sprintf("rendezvous port %d is outside 1 to 65535", m.RendezvousPort)
	case meets && m.Address == "":
		return "rendezvous address is missing"
	case !reachable(m.Address):
		return fmt.Sprintf("address %q is neither a host name nor an IP address", m.Address)
	}
	return ""
}

// reachable reports whether an address could be a host name or an IP address. Only the members find out whether the
// host answers.
func reachable(address string) bool {
	return !strings.ContainsFunc(address, func(r rune) bool {
		switch {
		case '0' <= r && r <= '9', 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', strings.ContainsRune("-_.:%[]", r):
			return false
		}
		return true
	})
}
