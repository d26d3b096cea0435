package worker

import (
	"slices"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the way of a device back into service. It is short, because the watch decides whether a device is
// well, and for how long it must have been; the Node only keeps it from coming back too early.

// onGpuRecovered takes a withdrawn device back. One that a slice still holds stays withdrawn: its gang is just being
// ended for the fault, and a report without the withdrawal would leave the gang on it. The watch sends the message
// again.
func (n *Node) onGpuRecovered(m *messages.GpuRecovered) {
	id := topology.GPUID(m.GpuId)
	held := func(s *topology.Slice) bool { return s.HoldsGPU(id) }
	switch {
	case !slices.Contains(n.ledger.WithdrawnGPUs(), id): // it is well, as nearly all are
	case slices.ContainsFunc(n.ledger.Slices(), held):
		n.p.Host.Count("node.gpu_in_use", 1)
	case n.ledger.Restore(id):
		n.p.Log.Info("GPU %s is back in service", id)
		n.change()
	}
}
