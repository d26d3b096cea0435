package gpu

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/able/pace"
)

// TestGenerations checks the devices for a document of each driver generation.
func TestGenerations(t *testing.T) {
	for _, c := range []struct {
		document string
		want     []string
		notes    []string
	}{
		{"390.xml", []string{
			"GPU-00000390-0000-4a00-8000-abcdef000000 p100 16280MiB 0000:04:00.0 /dev/nvidia0",
			"GPU-00000390-0001-4a00-8000-abcdef000001 geforce-gtx-1080-ti 11178MiB 0000:82:00.0 /dev/nvidia1",
		}, nil},
		{"418.xml", []string{
			"GPU-00000418-0000-4a00-8000-abcdef000000 v100 32480MiB 0000:15:00.0 /dev/nvidia1",
			"GPU-00000418-0001-4a00-8000-abcdef000001 v100 32480MiB 0000:16:00.0 /dev/nvidia0",
		}, nil},
		{"535.xml", []string{
			"GPU-00000535-0000-4a00-8000-abcdef000000 h100 81559MiB 0000:1b:00.0 /dev/nvidia0",
			"GPU-00000535-0001-4a00-8000-abcdef000001 h100 81559MiB 0000:43:00.0 /dev/nvidia1",
			"GPU-00000535-0002-4a00-8000-abcdef000002 h100 81559MiB 0000:52:00.0 /dev/nvidia2",
			"GPU-00000535-0003-4a00-8000-abcdef000003 h100 81559MiB 0000:61:00.0 /dev/nvidia3",
		}, nil},
		{"550-reset.xml", []string{
			"GPU-00000550-0000-4a00-8000-abcdef000000 l40s 46068MiB 0000:4f:00.0 /dev/nvidia0 fault: the driver reports " +
				"that the GPU requires a reset",
			"GPU-00000550-0001-4a00-8000-abcdef000001 l40s 46068MiB 0000:52:00.0 /dev/nvidia1",
			"GPU-00000550-0002-4a00-8000-abcdef000002 l40s 46068MiB 0000:53:00.0 /dev/nvidia2",
			"GPU-00000550-0003-4a00-8000-abcdef000003 l40s 46068MiB 0000:57:00.0 /dev/nvidia3",
		}, []string{
			"550-0002-4a00-8000-abcdef000002: the driver recommends to drain",
			"550-0003-4a00-8000-abcdef000003: a bad memory row",
		}},
		{"570.xml", []string{
			"GPU-00000570-0000-4a00-8000-abcdef000000 gb200 189471MiB 0008:01:00.0 /dev/nvidia0 in " +
				"5d6f0001-1111-4222-8333-444455556666.1",
			"GPU-00000570-0001-4a00-8000-abcdef000001 gb200 189471MiB 0009:01:00.0 /dev/nvidia1 in " +
				"5d6f0001-1111-4222-8333-444455556666.1 fault: the driver reports that the GPU must recover: Reset",
			"GPU-00000570-0002-4a00-8000-abcdef000002 gb200 189471MiB 0018:01:00.0 /dev/nvidia2 in " +
				"5d6f0001-1111-4222-8333-444455556666.1",
		}, []string{"the driver recommends to drain"}},
		{"580.xml", []string{"GPU-00000580-0000-4a00-8000-abcdef000000 h100 81559MiB 0000:00:06.0 /dev/nvidia0"}, nil},
	} {
		t.Run(c.document, func(t *testing.T) {
			found := newRig(t).says("query", c.document).mustFind()
			expect(t, "devices", words(found.Devices), c.want)
			tells(t, found.Notes, c.notes...)
		})
	}
}

// TestOdd checks that unknown values are not guessed. A GPU with an unknown number is omitted, unless /proc has the
// number.
func TestOdd(t *testing.T) {
	r := newRig(t).says("query", "510-odd.xml")
	first := "GPU-00000510-0000-4a00-8000-abcdef000000 gpu ? 0000:00:05.0 /dev/nvidia0"
	found := r.mustFind()
	expect(t, "devices", words(found.Devices), []string{first})
	tells(t, found.Notes, "GPU-00000510-0001-4a00-8000-abcdef000001 is omitted: its number",
		"GPU at 0000:00:07.0 is omitted: the driver reports no unique identity")
	r.met("0000:00:06.0", "NVIDIA GeForce RTX 4090", "GPU-00000510-0001-4a00-8000-abcdef000001", "5").
		has("sys/bus/pci/devices/0000:00:06.0/numa_node", "1\n")
	found = r.mustFind()
	expect(t, "devices", words(found.Devices), []string{
		first, "GPU-00000510-0001-4a00-8000-abcdef000001 nvidia-geforce-rtx-4090 24564MiB 0000:00:06.0 /dev/nvidia5",
	})
	if found.Devices[0].NUMA != -1 || found.Devices[1].NUMA != 1 {
		t.Error(found.Devices)
	}
}

// TestSameIdentity checks that two GPUs with one identity are omitted, because neither could be granted.
func TestSameIdentity(t *testing.T) {
	r := newRig(t).says("query", `<nvidia_smi_log>
		<gpu id="00000000:01:00.0"><uuid>GPU-1</uuid><minor_number>0</minor_number></gpu>
		<gpu id="00000000:02:00.0"><uuid>GPU-1</uuid><minor_number>1</minor_number></gpu>
		<gpu id="00000000:03:00.0"><uuid>GPU-2</uuid><minor_number>2</minor_number></gpu></nvidia_smi_log>`)
	found := r.mustFind()
	expect(t, "devices", words(found.Devices), []string{"GPU-2 gpu ? 0000:03:00.0 /dev/nvidia2"})
	tells(t, found.Notes, "0000:01:00.0", "0000:02:00.0")
}

// migRig returns a rig with one divided GPU and one whole GPU.
func migRig(t *testing.T) *rig {
	r := newRig(t).says("query", "470-mig.xml").says("list", "470-list.txt")
	for path, minor := range map[string]string{
		"gi1/access": "12", "gi1/ci0/access": "13", "gi5/access": "48", "gi5/ci0/access": "49", "gi13/access": "120",
		"gi13/ci0/access": "121",
	} {
		r.has("proc/driver/nvidia/capabilities/gpu2/mig/"+path,
			"DeviceFileMinor: "+minor+"\nDeviceFileMode: 292\nDeviceFileModify: 1\n")
	}
	return r
}

// TestParts checks that each part of a divided GPU is a device with its own identity, size and nodes, and that the
// whole GPU is no device.
func TestParts(t *testing.T) {
	r := migRig(t)
	const whole = "GPU-00000470-0000-4a00-8000-abcdef000000"
	want := []string{
		"MIG-3a7f0001-55d1-5c1e-9d0f-0a0b0c0d0e01 a100-mig-3g.40gb 40192MiB 0000:07:00.0 " +
			"/dev/nvidia2+/dev/nvidia-caps/nvidia-cap12+/dev/nvidia-caps/nvidia-cap13 of " + whole,
		"MIG-3a7f0002-55d1-5c1e-9d0f-0a0b0c0d0e02 a100-mig-2g.20gb 19968MiB 0000:07:00.0 " +
			"/dev/nvidia2+/dev/nvidia-caps/nvidia-cap48+/dev/nvidia-caps/nvidia-cap49 of " + whole,
		"MIG-3a7f0003-55d1-5c1e-9d0f-0a0b0c0d0e03 a100-mig-1g.10gb 9728MiB 0000:07:00.0 " +
			"/dev/nvidia2+/dev/nvidia-caps/nvidia-cap120+/dev/nvidia-caps/nvidia-cap121 of " + whole,
		"GPU-00000470-0001-4a00-8000-abcdef000001 a100 81251MiB 0000:0f:00.0 /dev/nvidia3",
	}
	found := r.mustFind()
	expect(t, "devices", words(found.Devices), want)
	tells(t, found.Notes)

	// A part that cannot be identified or opened is omitted with a note.
	r.has("proc/driver/nvidia/capabilities/gpu2/mig/gi5/access", "DeviceFileMode: 292\n")
	r.says("list", strings.Join([]string{
		"GPU 0: A100 (UUID: " + whole + ")", "  MIG 3g.40gb     Device  0: (UUID: MIG-3a7f0001-55d1-5c1e-9d0f-0a0b0c0d0e01)",
		"  MIG 2g.20gb     Device  1: (UUID: MIG-3a7f0002-55d1-5c1e-9d0f-0a0b0c0d0e02)",
	}, "\n"))
	found = r.mustFind()
	expect(t, "devices", words(found.Devices), []string{want[0], want[3]})
	tells(t, found.Notes, "part 2 of GPU "+whole, "MIG-3a7f0002-55d1-5c1e-9d0f-0a0b0c0d0e02 is omitted")
}

// TestNoParts checks the note about a divided GPU without parts.
func TestNoParts(t *testing.T) {
	found := newRig(t).says("query", `<nvidia_smi_log><gpu id="00000000:01:00.0"><mig_mode><current_mig>Enabled</current_mig></mig_mode>
		<mig_devices>None</mig_devices><uuid>GPU-1</uuid><minor_number>0</minor_number></gpu></nvidia_smi_log>`).mustFind()
	expect(t, "devices", words(found.Devices), nil)
	tells(t, found.Notes, "divided (MIG) and has no parts")
}

// TestIslands checks that devices connected by NVLink share an island, and that others have none.
func TestIslands(t *testing.T) {
	r := newRig(t).says("query", "535.xml").says("topo", "535-topo.txt")
	var domains []string
	for _, d := range r.mustFind().Devices {
		domains = append(domains, d.Gpu.FabricDomain)
	}
	const first, third = "nvlink-00000535-0000-4a00-8000-abcdef000000", "nvlink-00000535-0002-4a00-8000-abcdef000002"
	expect(t, "islands", domains, []string{first, first, third, third})
	for _, d := range newRig(t).says("query", "418.xml").says("topo", "418-topo.txt").mustFind().Devices {
		if d.Gpu.FabricDomain != "" {
			t.Error(d.Gpu)
		}
	}
	for _, strange := range []string{
		"", "GPU0\n", "GPU0 GPU1\nGPU0 X\n", "GPU0\nGPU7 NV1\n", "GPU0 GPU1\nGPU0 X NVX\nGPU1 NV X\n",
	} {
		for _, first := range parseMatrix(strange) {
			if first >= 0 {
				t.Errorf("%q: an island", strange)
			}
		}
	}
}

// TestLost checks that a GPU that fell off the bus is omitted with a note, and the other GPUs are found.
func TestLost(t *testing.T) {
	found := newRig(t).says("query", "535-lost.txt").mustFind()
	if len(found.Devices) != 3 || !strings.Contains(found.lost["0000:43:00.0"], "Unknown Error") {
		t.Error(words(found.Devices), found.lost)
	}
	tells(t, found.Notes, "counts 4 GPUs but describes 3", "GPU at 0000:43:00.0 is lost")
}

// TestLostAll checks that if the driver describes no GPU because one is lost, the others are found in /proc.
func TestLostAll(t *testing.T) {
	r := newRig(t).says("query", "418-lost.txt")
	if found, err := r.find(); err == nil || !strings.Contains(err.Error(), "GPU is lost") {
		t.Error(found, err)
	}
	r.met("0000:15:00.0", "Tesla V100-SXM2-32GB", "GPU-00000418-0000-4a00-8000-abcdef000000", "1")
	r.met("0000:16:00.0", "Tesla V100-SXM2-32GB", "GPU-00000418-0001-4a00-8000-abcdef000001", "0")
	found := r.mustFind()
	expect(t, "devices", words(found.Devices), []string{
		"GPU-00000418-0000-4a00-8000-abcdef000000 v100 ? 0000:15:00.0 /dev/nvidia1",
		"GPU-00000418-0001-4a00-8000-abcdef000001 v100 ? 0000:16:00.0 /dev/nvidia0 fault: the driver reports: GPU is lost. " +
			"Reboot the system to recover this GPU",
	})
	tells(t, found.Notes, "read from /proc/driver/nvidia instead")
}

// TestWithoutProgram checks that /proc is used if nvidia-smi is missing, except for GPUs without an identity there.
func TestWithoutProgram(t *testing.T) {
	r := newRig(t)
	r.met("0000:15:00.0", "NVIDIA A10", "GPU-1", "0").
		met("0000:16:00.0", "NVIDIA A10", "GPU-????????-????-????-????-????????????", "1")
	r.met("0000:17:00.0", "NVIDIA A100-SXM4-80GB", "GPU-3", "2").
		has("proc/driver/nvidia/capabilities/gpu2/mig/gi1/access", "DeviceFileMinor: 12")
	r.met("0000:18:00.0", "NVIDIA A100-SXM4-80GB", "GPU-4", "3").
		has("proc/driver/nvidia/capabilities/gpu3/mig/config", "DeviceFileMinor: 1")
	finder := New(Options{Root: r.root, Command: filepath.Join(r.root, "no-such")})
	found, err := finder.Find(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "devices", words(found.Devices), []string{
		"GPU-1 a10 ? 0000:15:00.0 /dev/nvidia0", "GPU-4 a100 ? 0000:18:00.0 /dev/nvidia3",
	})
	tells(t, found.Notes, "no-such is not installed", "GPU at 0000:16:00.0 is omitted",
		"GPU GPU-3 is omitted: it is divided")
}

// TestNone checks that a node without a driver or without a device has no GPUs.
func TestNone(t *testing.T) {
	nobody := New(Options{Root: t.TempDir(), Command: filepath.Join(t.TempDir(), "no-such")})
	for _, finder := range []*Finder{
		nobody, newRig(t).says("query", "No devices were found\n").finder(), newRig(t).says("query", "").finder(),
	} {
		if found, err := finder.Find(context.Background()); err != nil || len(found.Devices) > 0 || len(found.Notes) > 0 {
			t.Error(found, err)
		}
	}
}

// TestTrouble checks that the error about a broken driver quotes the driver.
func TestTrouble(t *testing.T) {
	for _, c := range []struct{ script, says string }{
		{`echo "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."; exit 9`, "couldn't communicate"},
		{`echo "Failed to initialize NVML: Driver/library version mismatch" >&2; exit 18`, "version mismatch"},
		{`echo "<nvidia_smi_log><gpu><uuid>GPU-1</uuid>"`, "truncated"},
		{`echo "<nvidia_smi_log><gpu></nvidia_smi_log"`, "truncated"},
		{`head -c 20000000 /dev/zero`, "more than 16 MiB"},
		{`kill -9 $$`, "exit -1"},
	} {
		r := newRig(t)
		r.program(c.script)
		if found, err := r.find(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, %v", c.script, found, err)
		}
	}
}

// TestHang checks that a hanging program is killed with its children, and that the devices are read from /proc.
func TestHang(t *testing.T) {
	r := newRig(t).met("0000:15:00.0", "NVIDIA A10", "GPU-1", "0")
	r.program(`sleep 1000 & echo $! > "$SAID/child"; sleep 1000`)
	finder := New(Options{Root: r.root, Command: r.smi(), Timeout: 10 * time.Second})
	begin := time.Now()
	found, err := finder.Find(context.Background())
	if err != nil || time.Since(begin) > pace.Of(time.Minute) {
		t.Fatal(err, time.Since(begin))
	}
	expect(t, "devices", words(found.Devices), []string{"GPU-1 a10 ? 0000:15:00.0 /dev/nvidia0"})
	tells(t, found.Notes, "did not answer within 10s")
	r.noneLeft()
}

// TestDeclared checks that devices declared by the operator are marked as such.
func TestDeclared(t *testing.T) {
	found, err := Declared(2, "h100")
	if err != nil || len(found.Devices) != 2 {
		t.Fatal(found, err)
	}
	if g := found.Gpus()[1]; g.Id != "declared-1" || g.Minor != 1 || !g.Declared || g.Type != "h100" ||
		len(found.Devices[1].Nodes) > 0 {
		t.Error(g)
	}
	for _, n := range []int{-1, maxDevices + 1} {
		if _, err := Declared(n, ""); err == nil {
			t.Error(n)
		}
	}
}
