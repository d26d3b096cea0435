//go:build linux

package container

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/runtime/gpu"
	"github.com/yi-json/synapse/runtime/launcher"
	"github.com/yi-json/synapse/test/able"
	"github.com/yi-json/synapse/test/able/pace"
	"github.com/yi-json/synapse/topology"
)

// gpuMachine returns a driver on a node with two GPUs, network cards and the driver's libraries.
func gpuMachine(t *testing.T) (*Driver, []*messages.Gpu) {
	t.Helper()
	root := t.TempDir()
	files := map[string]string{"dev/nvidiactl": "", "dev/nvidia-uvm": "", "dev/infiniband/uverbs0": "",
		"usr/lib/libcuda.so.1": "", "etc/cdi/nvidia.yaml": `
kind: nvidia.com/gpu
containerEdits:
    env: [NVIDIA_VISIBLE_DEVICES=all, OF_CDI=yes]
    hooks: [{path: /usr/bin/nvidia-cdi-hook, args: [nvidia-cdi-hook, update-ldcache, --folder, /usr/lib]}]
    mounts: [{hostPath: /usr/lib/libcuda.so.1, containerPath: /usr/lib/libcuda.so.1}]
    deviceNodes: [{path: /dev/nvidia0}, {path: /dev/nvidia1}]
`}
	for path, text := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	gpus := []*messages.Gpu{{Id: "GPU-a", Minor: 0}, {Id: "GPU-b", Minor: 1}}
	hardware := gpu.NewHardware(root, []gpu.Device{
		{Gpu: gpus[0], Nodes: []string{"/dev/nvidia0"}}, {Gpu: gpus[1], Nodes: []string{"/dev/nvidia1"}},
	})
	return driverOf(t, func(o *Options) { o.Gpus = hardware }), gpus
}

// granted returns a task with these devices.
func granted(t *testing.T, change func(*messages.JobSpec), gpus ...*messages.Gpu) *launcher.Task {
	task := taskOf(t, change)
	task.Gpus = gpus
	for _, g := range gpus {
		task.Grant.Gpus = append(task.Grant.Gpus, &messages.GpuShare{GpuId: g.Id, Milli: 1000})
	}
	return task
}

// TestGPUsApart checks that the containers of two tasks have only their own devices and the common ones. A task without
// devices has none. Two tasks that share a device both have it.
func TestGPUsApart(t *testing.T) {
	d, gpus := gpuMachine(t)
	root := room(t)
	image := func(s *messages.JobSpec) { s.Image = root }
	for _, c := range []struct {
		name string
		task *launcher.Task
		want []string
	}{
		{"first", granted(t, nil, gpus[0]), []string{"/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"}},
		{"second", granted(t, nil, gpus[1]), []string{"/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm"}},
		{"second in an image", granted(t, image, gpus[1]), []string{"/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm"}},
		{"another share of the first", granted(t, nil, gpus[0]),
			[]string{"/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"}},
		{"both", granted(t, nil, gpus...), []string{"/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm"}},
		{"none", granted(t, nil), nil},
		{"none in an image", granted(t, image), nil},
	} {
		if spec := specOf(t, d, c.task, nil, nil); !slices.Equal(spec.Devices, c.want) {
			t.Errorf("%s: %q", c.name, spec.Devices)
		}
	}
}

// TestGang checks that only gangs on several nodes get the device nodes of the network cards. Memory can be locked
// without limit if the agent may grant that.
func TestGang(t *testing.T) {
	d, gpus := gpuMachine(t)
	for second, cards := range map[string]bool{"a": false, "b": true} {
		start := &messages.StartTask{
			Rendezvous: &messages.Rendezvous{Peers: []*messages.Peer{{Node: "a"}, {Rank: 1, Node: second}}},
		}
		spec := specOf(t, d, granted(t, nil, gpus[0]), start, nil)
		if slices.Contains(spec.Devices, "/dev/infiniband/uverbs0") != cards {
			t.Errorf("with %s: %q", second, spec.Devices)
		}
		locked := slices.ContainsFunc(spec.Rlimits,
			func(l carapace.Rlimit) bool { return l.Name == "memlock" && (l.Hard == -1 || !mayRaiseLimits()) })
		if !locked {
			t.Errorf("limits %+v", spec.Rlimits)
		}
	}
}

// TestDriverLibraries checks that an image gets the libraries read-only and below the user's own mounts. Device
// variables in the CDI file do not override the grant.
func TestDriverLibraries(t *testing.T) {
	d, gpus := gpuMachine(t)
	root := room(t)
	task := granted(t, func(s *messages.JobSpec) {
		s.Image, s.Mounts = root, []*messages.Mount{{Source: "/etc", Target: "/data"}}
	}, gpus[0])
	spec := specOf(t, d, task, nil, []string{"NVIDIA_VISIBLE_DEVICES=GPU-a", "LD_LIBRARY_PATH=/own"})
	if len(spec.Mounts) != 2 || spec.Mounts[0].Target != "/usr/lib/libcuda.so.1" || !spec.Mounts[0].ReadOnly ||
		spec.Mounts[1].Target != "/data" {
		t.Errorf("%+v", spec.Mounts)
	}
	for _, want := range []string{"NVIDIA_VISIBLE_DEVICES=GPU-a", "OF_CDI=yes", "LD_LIBRARY_PATH=/own:/usr/lib"} {
		if !slices.Contains(spec.Env, want) {
			t.Errorf("no %s in %q", want, spec.Env)
		}
	}
	if spec = specOf(t, d, granted(t, nil, gpus[0]), nil, nil); len(spec.Mounts) > 0 ||
		strings.Contains(strings.Join(spec.Env, " "), "OF_CDI") {
		t.Errorf("the host has them itself: %+v", spec)
	}
}

// TestGPUGone checks that a task is not started with fewer devices than it was granted.
func TestGPUGone(t *testing.T) {
	d, gpus := gpuMachine(t)
	task := granted(t, nil, gpus[0])
	task.Gpus = nil // the next agent does not announce it
	if err := d.Prepare(context.Background(), task); err == nil || !strings.Contains(err.Error(), "GPU-a was granted") {
		t.Error(err)
	}
	task.Gpus = []*messages.Gpu{{Id: "GPU-a"}}
	d.o.Gpus = gpu.NewHardware("", nil)
	if err := d.Prepare(context.Background(), task); err == nil || !strings.Contains(err.Error(), "GPU-a is not a GPU") {
		t.Error(err)
	}
}

// TestGPUsInContainers uses real containers, with other devices instead of GPUs. Each of two tasks has only its own
// device node, and a third task has none.
func TestGPUsInContainers(t *testing.T) {
	able.Need(t, able.Containers)
	var nodes []string
	for _, node := range []string{
		"/dev/kmsg", "/dev/fuse", "/dev/net/tun", "/dev/loop-control", "/dev/rtc0", "/dev/hpet",
	} {
		if info, err := os.Stat(node); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			nodes = append(nodes, node)
		}
	}
	if len(nodes) < 2 {
		t.Skipf("this host has only %q to use instead of GPUs", nodes)
	}
	binary := program(t)
	gpus := []*messages.Gpu{{Id: "GPU-a"}, {Id: "GPU-b"}}
	d := driverOf(t, func(o *Options) {
		o.Binary = binary
		o.Gpus = gpu.NewHardware("", []gpu.Device{{Gpu: gpus[0], Nodes: nodes[:1]}, {Gpu: gpus[1], Nodes: nodes[1:2]}})
	})
	ctx, cancel := context.WithTimeout(context.Background(), pace.Of(time.Minute))
	defer cancel()
	if err := d.Check(ctx); err != nil {
		t.Fatal(err)
	}
	if err := d.Try(ctx); err != nil {
		t.Fatal(err)
	}
	has, lacks := "[ -c %s ]", "[ ! -e %s ]"
	for i, c := range []struct {
		gpus          []*messages.Gpu
		first, second string
	}{{gpus[:1], has, lacks}, {gpus[1:], lacks, has}, {nil, lacks, lacks}, {gpus, has, has}} {
		script := fmt.Sprintf(c.first+" && "+c.second, nodes[0], nodes[1])
		task := granted(t, func(s *messages.JobSpec) { s.Command = []string{"/bin/sh", "-c", script} }, c.gpus...)
		task.Key.Rank = topology.Rank(i)
		file := filepath.Join(task.Dir, "spec.json")
		if err := writeJSON(file, specOf(t, d, task, nil, nil)); err != nil {
			t.Fatal(err)
		}
		run := exec.CommandContext(ctx, binary, append(append([]string{"run"}, d.place()...), "--spec", file)...)
		if text, err := run.CombinedOutput(); err != nil {
			t.Errorf("%v: %s: %v: %s", c.gpus, script, err, text)
		}
		if err := d.Cleanup(task); err != nil {
			t.Error(err)
		}
	}
}
