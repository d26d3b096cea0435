package coordinator

import (
	"fmt"
	"slices"
	"strings"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns what a Coordinator believes of a machine, and of its answer to Reserve above all. What a
// machine grants goes into COMMIT word for word, and from there to every other
// member: a port of 0 or a rank that is missing would be decided for good. So an
// answer says exactly what was asked for, or it is a refusal.

// unversed reports whether a machine's agent would pass over something that a job asks for, as its script, or its
// network, and run it without.
func (w *party) unversed(spec *messages.JobSpec) bool {
	return w.Vocabulary < messages.VocabularyOf(spec)
}

// allGone reports whether every member that an attempt has on a machine ended. After a takeover the machine tells
// again of ends that were on disk before: those ranks are no members any more, and count for nobody.
func (w *party) allGone() bool {
	return !slices.ContainsFunc(w.Members, func(m *messages.Member) bool { return !w.gone[m.Rank] })
}

// misgranted says in which way an answer is not what was asked for; empty: it is.
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

// wrongShare says what is wrong with one device of a grant. sum is what the whole
// answer has given of the device so far.
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

// gpu finds a device that the machine announced.
func (w *party) gpu(id string) *messages.Gpu {
	for _, g := range w.Announced.GetGpus() {
		if g.Id == id {
			return g
		}
	}
	return nil
}

// misplaced says what is wrong with where the members are to meet. Only rank 0's
// machine has to say; what another says goes into the members' environment too.
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

// reachable reports whether an address could be a host's name or an IP address.
// Whether anybody answers there, only the members find out.
func reachable(address string) bool {
	return !strings.ContainsFunc(address, func(r rune) bool {
		switch {
		case '0' <= r && r <= '9', 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', strings.ContainsRune("-_.:%[]", r):
			return false
		}
		return true
	})
}
