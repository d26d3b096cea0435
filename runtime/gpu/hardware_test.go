package gpu

import (
	"slices"
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
	"pgregory.net/rapid"
)

// control returns the nodes that every task with an NVIDIA GPU sees in the rig.
func (r *rig) control() []string {
	nodes := []string{"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"}
	for _, node := range nodes {
		r.has(node, "")
	}
	return nodes
}

// TestGranted checks that a task sees the nodes of its devices and those that their driver needs, and that a declared
// device has none.
func TestGranted(t *testing.T) {
	r := migRig(t).amdNode("1", 7, 128, 0x100).has("dev/kfd", "")
	control := r.control()
	found := r.mustFind()
	h := NewHardware(r.root, found.Devices)
	gpus := found.Gpus()
	for _, c := range []struct {
		name string
		gpus []*messages.Gpu
		want []string
	}{
		{"none", nil, nil},
		{"a declared one", []*messages.Gpu{{Id: "declared-0", Declared: true}}, nil},
		{"a part", gpus[1:2],
			append([]string{"/dev/nvidia2", "/dev/nvidia-caps/nvidia-cap48", "/dev/nvidia-caps/nvidia-cap49"}, control...)},
		{"a whole one", gpus[3:4], append([]string{"/dev/nvidia3"}, control...)},
		{"AMD's", gpus[4:5], []string{"/dev/dri/renderD128", "/dev/kfd"}},
		{"both vendors'", gpus[3:5], append(append([]string{"/dev/nvidia3", "/dev/dri/renderD128"}, control...), "/dev/kfd")},
	} {
		view, err := h.Granted(c.gpus)
		if err != nil {
			t.Fatal(c.name, err)
		}
		expect(t, c.name, view.Nodes, c.want)
	}
	for _, h := range []*Hardware{h, nil} {
		if view, err := h.Granted([]*messages.Gpu{{Id: "GPU-of-another"}}); err == nil ||
			!strings.Contains(err.Error(), "GPU-of-another") {
			t.Error(view, err)
		}
	}
	expect(t, "no cards", h.Fabric(), nil)
	r.has("dev/infiniband/uverbs0", "").has("dev/infiniband/rdma_cm", "").has("dev/infiniband/by-path/x", "")
	expect(t, "network cards", h.Fabric(), []string{"/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs0"})
}

// TestApart checks every distribution of a node's devices over two tasks. Neither task sees a node that opens the
// other's devices, with or without a CDI file.
func TestApart(t *testing.T) {
	r := migRig(t).amdNode("1", 7, 128, 0x100).amdNode("2", 8, 129, 0x200).has("etc/cdi/nvidia.yaml", cdiText)
	r.control()
	for _, node := range []string{
		"nvidia0", "nvidia2", "nvidia3", "nvidia-caps/nvidia-cap1", "nvidia-caps/nvidia-cap12", "dri/renderD130",
	} {
		r.has("dev/"+node, "")
	}
	found := r.mustFind()
	h := NewHardware(r.root, found.Devices)
	owned := map[string][]string{} // by node: the devices that it opens
	for _, d := range found.Devices {
		for _, node := range d.Nodes {
			owned[node] = append(owned[node], d.Gpu.Id)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		var tasks [2][]*messages.Gpu
		for _, g := range found.Gpus() {
			if who := rapid.IntRange(0, 2).Draw(t, g.Id); who < 2 {
				tasks[who] = append(tasks[who], g)
			}
		}
		for _, see := range []func([]*messages.Gpu) (*View, error){h.Granted, h.GrantedImage} {
			for _, gpus := range tasks {
				view, err := see(gpus)
				if err != nil {
					t.Fatal(err)
				}
				for _, node := range view.Nodes {
					mine := slices.ContainsFunc(gpus, func(g *messages.Gpu) bool { return slices.Contains(owned[node], g.Id) })
					if len(owned[node]) > 0 && !mine || node == "/dev/nvidia0" || node == "/dev/nvidia-caps/nvidia-cap1" {
						t.Fatalf("%v sees %s", gpus, node)
					}
				}
				for _, g := range gpus {
					for node, of := range owned {
						if slices.Contains(of, g.Id) && !slices.Contains(view.Nodes, node) {
							t.Fatalf("%v does not see %s", g, node)
						}
					}
				}
			}
		}
	})
}
