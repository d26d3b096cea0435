package mirror

import (
	"testing"

	"github.com/yi-json/synapse/goodput"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// TestVacatedUnsaid checks that a GPU which the node reports as free counts for no allocation. An older agent may still
// report an allocation whose end it cannot write. Other allocations on the same device still count.
func TestVacatedUnsaid(t *testing.T) {
	slice := func(state messages.SliceState, gpus ...*messages.GpuShare) *messages.SliceReport {
		return &messages.SliceReport{State: state, Grants: []*messages.Grant{{Gpus: gpus}}}
	}
	const half = topology.WholeGPU / 2
	gone := slice(messages.SliceState_SLICE_STATE_STOPPING, &messages.GpuShare{GpuId: "g0", Milli: topology.WholeGPU},
		&messages.GpuShare{GpuId: "g1", Milli: half})
	stays := slice(messages.SliceState_SLICE_STATE_COMMITTED, &messages.GpuShare{GpuId: "g1", Milli: half},
		&messages.GpuShare{GpuId: "g2", Milli: topology.WholeGPU})
	n := shownNode{NodeStatus: &messages.NodeStatus{
		Phase: messages.NodeUp,
		Record: &messages.NodeRecord{Id: "n1", Announcement: &messages.Announcement{
			Total: &messages.Resources{MilliGpu: 3 * topology.WholeGPU},
			Gpus:  []*messages.Gpu{{Id: "g0"}, {Id: "g1"}, {Id: "g2"}},
		}},
		Ledger: &messages.LedgerReport{
			Free:     &messages.Resources{MilliGpu: topology.WholeGPU + half},
			FreeGpus: []*messages.GpuShare{{GpuId: "g0", Milli: topology.WholeGPU}, {GpuId: "g1", Milli: half}},
			Slices:   []*messages.SliceReport{stays, gone},
		},
	}, free: goodput.Unwanted}
	m := &Mirror{picture: newPicture([]string{"rack"})}
	u := m.unitOf(&n)
	if len(u.Shares) != 1 || u.Shares[0].Milli != topology.WholeGPU+half || u.Idle != topology.WholeGPU+half {
		t.Errorf("it is divided as %+v", u)
	}
	n.Ledger.WithdrawnGpus = []string{"g2"}
	if u = m.unitOf(&n); len(u.Shares) != 2 || u.Shares[0].Class != goodput.Broken || u.Shares[1].Milli != half {
		t.Errorf("with a device out of service it is divided as %+v", u)
	}
}
