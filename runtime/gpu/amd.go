package gpu

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/yi-json/synapse/messages"
)

// This file finds AMD's devices, which need no program. Each node of the compute driver's topology that has SIMD units
// is a GPU.

const (
	topologyDir = "sys/class/kfd/kfd/topology/nodes"
	renderNode  = "/dev/dri/renderD"
	amdVendor   = 0x1002
	firstRender = 128 // the smallest number of a render node
)

// readAMD adds the devices that have an identity and a separate device node.
func (f *Finder) readAMD(inventory *Inventory) {
	entries, err := os.ReadDir(f.path(topologyDir))
	if err != nil {
		return
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int {
		return cmp.Or(cmp.Compare(len(a.Name()), len(b.Name())), cmp.Compare(a.Name(), b.Name()))
	})
	var found []Device
	same := map[string]int{}
	for _, entry := range entries[:min(len(entries), maxReported)] {
		p := properties(f.readText(topologyDir, entry.Name(), "properties"))
		if p["simd_count"] == 0 || p["vendor_id"] != amdVendor {
			continue // a processor, or a node that the agent may not read
		}
		d, why := f.amdDevice(entry.Name(), p)
		if why != "" {
			inventory.note("the AMD GPU of topology node %s is omitted: %s", entry.Name(), why)
			continue
		}
		same[d.Gpu.Id]++
		found = append(found, d)
	}
	for _, d := range found {
		if n := same[d.Gpu.Id]; n > 1 {
			inventory.note("AMD GPU %s (%s) is omitted: it is partitioned, but its %d parts have the same identity; set it to "+
				"SPX, or declare the devices", d.Gpu.Id, d.Nodes[0], n)
			continue
		}
		inventory.Devices = append(inventory.Devices, d)
	}
}

// amdDevice makes a device from one topology node, or returns the reason why not. Its identity has the format of
// ROCR_VISIBLE_DEVICES.
func (f *Finder) amdDevice(node string, p map[string]uint64) (Device, string) {
	if p["unique_id"] == 0 {
		return Device{}, "the kernel reports no unique id; declare the devices"
	}
	render := p["drm_render_minor"]
	if render < firstRender || render > maxMinor {
		return Device{}, "the GPU has no render node"
	}
	own := renderNode + strconv.FormatUint(render, 10)
	if _, err := os.Stat(f.path(own)); err != nil {
		return Device{}, fmt.Sprintf("%s does not exist", own)
	}
	location := p["location_id"]
	bus := fmt.Sprintf("%04x:%02x:%02x.%d", p["domain"]&0xffffffff, location>>8&0xff, location>>3&0x1f, location&7)
	files := path.Join("sys/class/drm", "renderD"+strconv.FormatUint(render, 10), "device")
	name := f.readText(files, "product_name")
	d := Device{
		Gpu: &messages.Gpu{
			Id:          fmt.Sprintf("GPU-%016x", p["unique_id"]),
			Type:        kindOf(cmp.Or(knownText(name), gfxName(p["gfx_target_version"]))),
			MemoryBytes: f.amdMemory(node), BusId: bus, Minor: int32(render),
		},
		Nodes: []string{own}, NUMA: f.numaOf(bus),
		Use: useOf(f.readText(files, "gpu_busy_percent"), f.readText(files, "mem_info_vram_used")),
	}
	if hive := p["hive_id"]; hive != 0 {
		d.Gpu.FabricDomain = fmt.Sprintf("xgmi-%016x", hive)
	}
	return d, ""
}

// gfxName returns the compiler's name of an architecture: gfx942 for 90402.
func gfxName(version uint64) string {
	return fmt.Sprintf("gfx%d%x%x", version/10000, version/100%100, version%100)
}

// Heaps of memory on the device: the part that the processor can reach, and the part that it cannot.
const (
	heapPublic  = 1
	heapPrivate = 2
)

func (f *Finder) amdMemory(node string) int64 {
	banks, err := os.ReadDir(f.path(topologyDir, node, "mem_banks"))
	if err != nil {
		return 0
	}
	var sum uint64
	for _, bank := range banks[:min(len(banks), maxDepth)] {
		p := properties(f.readText(topologyDir, node, "mem_banks", bank.Name(), "properties"))
		if heap := p["heap_type"]; (heap == heapPublic || heap == heapPrivate) &&
			p["size_in_bytes"] <= messages.MaxMemoryBytes {
			sum += p["size_in_bytes"]
		}
	}
	return int64(min(sum, messages.MaxMemoryBytes))
}

// properties parses lines of "name number".
func properties(text string) map[string]uint64 {
	all := map[string]uint64{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseUint(value, 10, 64); err == nil {
			all[name] = n
		}
	}
	return all
}
