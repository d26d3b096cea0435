package worker

import (
	"slices"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the return of a device to service. The device watch decides whether a device is healthy and for how
// long it must have been. The Node only prevents that the device returns too early.

// onGpuRecovered returns a withdrawn device to service. A device that an allocation still holds stays withdrawn,
// because the leader is ending its gang for the fault. If the node no longer reported the device as withdrawn,
// the leader would leave the gang on the device. The watch sends the message again.
func (n *Node) onGpuRecovered(m *messages.GpuRecovered) {
	id := topology.GPUID(m.GpuId)
	held := func(s *topology.Allocation) bool { return s.HoldsGPU(id) }
	switch {
	case !slices.Contains(n.ledger.WithdrawnGPUs(), id): // it is in service, like nearly all devices
	case slices.ContainsFunc(n.ledger.Allocations(), held):
		n.p.Host.Count("node.gpu_in_use", 1)
	case n.ledger.Restore(id):
		n.p.Log.Info("GPU %s is back in service", id)
		n.change()
	}
}
