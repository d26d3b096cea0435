package gpu

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/yi-json/synapse/messages"
)

// This file lists the files and nodes that a task with some of the GPUs sees. It never includes the nodes of a device
// that was not granted.

// Names of device nodes.
const (
	nvidiaNode = "/dev/nvidia"
	capsDir    = "/dev/nvidia-caps/"
)

// The nodes that every user of a vendor's devices needs, if they exist. None of them opens a device without the
// device's own node.
var (
	nvidiaShared = []string{"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"}
	amdShared    = []string{"/dev/kfd"}
)

// Hardware maps devices to their files and nodes.
type Hardware struct {
	root    string
	devices map[string]Device
	owner   map[string][]string // the devices to which a node belongs
}

// NewHardware returns the Hardware of the found devices; root is as in Options.
func NewHardware(root string, devices []Device) *Hardware {
	if root == "" {
		root = "/"
	}
	h := &Hardware{root: root, devices: map[string]Device{}, owner: map[string][]string{}}
	for _, d := range devices {
		h.devices[d.Gpu.Id] = d
		for _, node := range d.Nodes {
			h.owner[node] = append(h.owner[node], d.Gpu.Id)
		}
	}
	return h
}

// isNVIDIA reports whether a device's own node is NVIDIA's.
func isNVIDIA(d Device) bool { return len(d.Nodes) > 0 && strings.HasPrefix(d.Nodes[0], nvidiaNode) }

// View lists the nodes and mounts that a task sees.
type View struct {
	Nodes []string
	// Mounts, Env and LibraryDirs add the driver's libraries to an image that has none.
	Mounts      []Mount
	Env         []string
	LibraryDirs []string
}

// Mount shows a host file or directory, read-only.
type Mount struct{ Source, Target string }

// Granted returns the view of a task with these devices. It includes a device's own node even if the node is missing,
// because the task must not start without it.
func (h *Hardware) Granted(gpus []*messages.Gpu) (*View, error) {
	devices, err := h.find(gpus)
	if err != nil {
		return nil, err
	}
	view := &View{}
	var nvidia, amd bool
	for _, d := range devices {
		view.add(d.Nodes...)
		nvidia = nvidia || isNVIDIA(d)
		amd = amd || !isNVIDIA(d)
	}
	if nvidia {
		view.add(h.existing(nvidiaShared...)...)
	}
	if amd {
		view.add(h.existing(amdShared...)...)
	}
	return view, nil
}

// find returns the devices that have nodes. Declared devices have none.
func (h *Hardware) find(gpus []*messages.Gpu) ([]Device, error) {
	var devices []Device
	for _, g := range gpus {
		if g.GetDeclared() {
			continue
		}
		var d Device
		known := false
		if h != nil {
			d, known = h.devices[g.GetId()]
		}
		if !known || len(d.Nodes) == 0 {
			return nil, fmt.Errorf("GPU %s is not a GPU of this node", g.GetId())
		}
		devices = append(devices, d)
	}
	return devices, nil
}

func (v *View) add(nodes ...string) {
	for _, node := range nodes {
		if !slices.Contains(v.Nodes, node) {
			v.Nodes = append(v.Nodes, node)
		}
	}
}

func (h *Hardware) existing(nodes ...string) []string {
	return slices.DeleteFunc(slices.Clone(nodes), func(node string) bool {
		info, err := os.Stat(filepath.Join(h.root, node))
		return err != nil || info.IsDir()
	})
}

// Fabric returns the device nodes of network cards that can reach other nodes' GPUs without the processor. Gangs on
// several nodes use them.
func (h *Hardware) Fabric() []string {
	if h == nil {
		return nil
	}
	found, err := filepath.Glob(filepath.Join(h.root, "dev/infiniband/*"))
	if err != nil {
		return nil
	}
	for i := range found {
		found[i] = "/dev/infiniband/" + filepath.Base(found[i])
	}
	return h.existing(found...)
}

// foreign reports whether a node belongs to a device that is not in devices, by the known owner or by the node's name.
func (h *Hardware) foreign(node string, devices []Device) bool {
	for _, d := range devices {
		if slices.Contains(d.Nodes, node) {
			return false
		}
	}
	if len(h.owner[node]) > 0 || strings.HasPrefix(node, capsDir) {
		return true
	}
	number, isOwn := strings.CutPrefix(node, nvidiaNode)
	return isOwn && number != "" && strings.Trim(number, "0123456789") == ""
}
