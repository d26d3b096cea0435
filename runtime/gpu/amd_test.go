package gpu

import (
	"fmt"
	"testing"
)

// amdNode adds an AMD GPU to the rig.
func (r *rig) amdNode(node string, unique uint64, render, location int) *rig {
	dir := "sys/class/kfd/kfd/topology/nodes/" + node
	r.has(dir+"/properties",
		fmt.Sprintf("cpu_cores_count 0\nsimd_count 1216\nmem_banks_count 1\ngfx_target_version 90402\nvendor_id 4098\n"+
			"device_id 29857\nlocation_id %d\ndomain 0\ndrm_render_minor %d\nhive_id 10631624818852212319\nunique_id %d\n"+
			"num_xcc 8\n", location,
			render, unique))
	r.has(dir+"/mem_banks/0/properties",
		"heap_type 1\nsize_in_bytes 206141652992\nflags 0\nwidth 8192\nmem_clk_max 1300\n")
	return r.has(fmt.Sprintf("dev/dri/renderD%d", render), "")
}

// TestAMD checks that each computing node of the topology is a device with its ROCr identity.
func TestAMD(t *testing.T) {
	r := newRig(t).says("query", "No devices were found")
	r.has("sys/class/kfd/kfd/topology/nodes/0/properties", "cpu_cores_count 96\nsimd_count 0\nvendor_id 0\n")
	r.amdNode("2", 0x3cbe1f0e6c1b5a3d, 128, 0x4700).amdNode("10", 0x0bbe1f0e6c1b5a3e, 136, 0x6708)
	r.has("sys/class/drm/renderD128/device/product_name", "AMD Instinct MI300X OAM\n").
		has("sys/bus/pci/devices/0000:67:01.0/numa_node", "1\n")
	found := r.mustFind()
	expect(t, "devices", words(found.Devices), []string{
		"GPU-3cbe1f0e6c1b5a3d mi300x 196592MiB 0000:47:00.0 /dev/dri/renderD128 in xgmi-938b1e71a8e9ae5f",
		"GPU-0bbe1f0e6c1b5a3e gfx942 196592MiB 0000:67:01.0 /dev/dri/renderD136 in xgmi-938b1e71a8e9ae5f",
	})
	tells(t, found.Notes)
	if found.Devices[1].NUMA != 1 {
		t.Error(found.Devices[1])
	}
}

// TestAMDLeftOut checks that a device is omitted, with a note, if it cannot be identified, opened or distinguished.
func TestAMDLeftOut(t *testing.T) {
	r := newRig(t).says("query", "No devices were found")
	r.amdNode("1", 0, 128, 0x100).amdNode("2", 7, 129, 0x200).amdNode("3", 7, 130, 0x200).amdNode("4", 8, 20, 0x300)
	r.has("sys/class/kfd/kfd/topology/nodes/5/properties",
		"simd_count 4\nvendor_id 4098\nunique_id 9\ndrm_render_minor 140\n")
	found := r.mustFind()
	expect(t, "devices", words(found.Devices), nil)
	tells(t, found.Notes, "node 1 is omitted: the kernel reports no unique id",
		"node 4 is omitted: the GPU has no render node", "/dev/dri/renderD140 does not exist",
		"GPU-0000000000000007 (/dev/dri/renderD129) is omitted: it is partitioned", "(/dev/dri/renderD130)")
}
