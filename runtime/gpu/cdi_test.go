package gpu

import (
	"os"
	"path/filepath"
	"testing"
)

// cdiText is a file in the form of NVIDIA's toolkit, for the rig of migRig. It has each GPU by its number, one part,
// all GPUs, and common edits.
const cdiText = `---
cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
    - name: "0:0"
      containerEdits:
        deviceNodes:
            - path: /dev/nvidia2
            - path: /dev/nvidia-caps/nvidia-cap13
            - path: /dev/nvidia-caps/nvidia-cap12
    - name: "1"
      containerEdits:
        deviceNodes:
            - path: /dev/nvidia3
            - path: /dev/dri/renderD130
              hostPath: /dev/dri/renderD130
        hooks:
            - hookName: createContainer
              path: /usr/bin/nvidia-cdi-hook
              args: [nvidia-cdi-hook, chmod, --mode, "755", --path, /dev/dri]
    - name: all
      containerEdits:
        deviceNodes:
            - path: /dev/nvidia2
            - path: /dev/nvidia3
containerEdits:
    env:
        - NVIDIA_VISIBLE_DEVICES=void
        - no variable
    deviceNodes:
        - path: /dev/nvidiactl
        - path: /dev/nvidia-uvm
        - path: /dev/nvidia-not-there
        - path: /dev/nvidia0
        - path: /dev/nvidia-caps/nvidia-cap1
        - path: /dev/../etc/passwd
        - path: /dev/elsewhere
          hostPath: /run/nvidia/driver/dev/nvidia3
    hooks:
        - hookName: createContainer
          path: /usr/bin/nvidia-cdi-hook
          args: [nvidia-cdi-hook, create-symlinks, --link, "libcuda.so.1::/usr/lib/x86_64-linux-gnu/libcuda.so", --link, "nothing::relative"]
        - hookName: createContainer
          path: /usr/bin/nvidia-ctk
          args: [nvidia-ctk, hook, update-ldcache, --folder, /usr/lib/x86_64-linux-gnu]
        - hookName: createContainer
          path: /usr/bin/nvidia-cdi-hook
          args: [nvidia-cdi-hook, enable-cuda-compat, --host-driver-version=535.183.06]
    mounts:
        - hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.535.183.06
          containerPath: /usr/lib/x86_64-linux-gnu/libcuda.so.535.183.06
          options: [ro, nosuid, nodev, bind]
        - hostPath: /usr/bin/nvidia-smi
          containerPath: /usr/bin/nvidia-smi
        - hostPath: /usr/lib/x86_64-linux-gnu/libgone.so.535.183.06
          containerPath: /usr/lib/x86_64-linux-gnu/libgone.so.535.183.06
        - hostPath: relative
          containerPath: /usr/lib/relative
        - hostPath: /usr/bin
          containerPath: /
`

// cdiRig returns the rig that matches cdiText.
func cdiRig(t *testing.T) *rig {
	r := migRig(t)
	r.control()
	for _, node := range []string{
		"nvidia0", "nvidia2", "nvidia3", "nvidia-caps/nvidia-cap1", "dri/renderD130", "elsewhere",
	} {
		r.has("dev/"+node, "")
	}
	const lib = "usr/lib/x86_64-linux-gnu/"
	r.has(lib+"libcuda.so.535.183.06", "library").has("usr/bin/nvidia-smi", "program").
		has(lib+"libcudadebugger.so.1", "another")
	if err := os.Symlink("libcuda.so.535.183.06", filepath.Join(r.root, lib, "libcuda.so.1")); err != nil {
		t.Fatal(err)
	}
	return r.has("etc/cdi/nvidia.yaml", cdiText)
}

// seen returns a view's mounts, one word each.
func seen(v *View) []string {
	var all []string
	for _, m := range v.Mounts {
		all = append(all, m.Source+"→"+m.Target)
	}
	return all
}

// TestImage checks that an image gets the driver's libraries under the names that programs use, and that the host view
// gets none.
func TestImage(t *testing.T) {
	r := cdiRig(t)
	found := r.mustFind()
	h := NewHardware(r.root, found.Devices)
	view, err := h.GrantedImage(found.Gpus()[3:4])
	if err != nil {
		t.Fatal(err)
	}
	const lib = "/usr/lib/x86_64-linux-gnu/"
	expect(t, "nodes", view.Nodes, []string{
		"/dev/nvidia3", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset",
		"/dev/dri/renderD130",
	})
	expect(t, "mounts", seen(view), []string{
		lib + "libcuda.so.535.183.06→" + lib + "libcuda.so.535.183.06", lib + "libcuda.so.535.183.06→" + lib + "libcuda.so.1",
		"/usr/bin/nvidia-smi→/usr/bin/nvidia-smi", lib + "libcuda.so.535.183.06→" + lib + "libcuda.so",
	})
	expect(t, "environment", view.Env, []string{"NVIDIA_VISIBLE_DEVICES=void"})
	expect(t, "folders", view.LibraryDirs, []string{"/usr/lib/x86_64-linux-gnu"})
	tells(t, h.Libraries(), "from /etc/cdi/nvidia.yaml; its hooks are not run: chmod, enable-cuda-compat")

	part, err := h.GrantedImage(found.Gpus()[:1])
	if err != nil || len(part.Mounts) != 4 || part.Nodes[0] != "/dev/nvidia2" {
		t.Error(part, err)
	}
	host, err := h.Granted(found.Gpus()[3:4])
	if err != nil || len(host.Mounts)+len(host.Env)+len(host.LibraryDirs) > 0 {
		t.Error(host, err)
	}
	none, err := h.GrantedImage(nil)
	if err != nil || len(none.Nodes)+len(none.Mounts) > 0 {
		t.Error(none, err)
	}
}

// TestWhichFile checks that a file that the host wrote at boot has priority over one that an operator wrote. An invalid
// file is reported and ignored.
func TestWhichFile(t *testing.T) {
	r := cdiRig(t).has("usr/lib/new.so.1", "library")
	r.has("var/run/cdi/nvidia.json", `{"kind": "nvidia.com/gpu", "devices": [{"name": "x", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia3"}],
		"mounts": [{"hostPath": "/usr/lib/new.so.1", "containerPath": "/usr/lib/new.so.1"}]}}]}`)
	r.has("etc/cdi/other.yaml", "kind: other.com/device\n").has("etc/cdi/notes.txt", "kind: nvidia.com/gpu\n").
		has("etc/cdi/broken.yaml", "kind: [\n")
	found := r.mustFind()
	h := NewHardware(r.root, found.Devices)
	view, err := h.GrantedImage(found.Gpus()[3:4])
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "mounts", seen(view), []string{"/usr/lib/new.so.1→/usr/lib/new.so.1"})
	tells(t, h.Libraries(), "/etc/cdi/broken.yaml is ignored", "from /var/run/cdi/nvidia.json",
		"from /etc/cdi/nvidia.yaml")
	if view, err = h.GrantedImage(found.Gpus()[:1]); err != nil || len(view.Mounts) != 4 {
		t.Error(view, err)
	}
}

// TestNoFile checks that without a CDI file the operator learns what images must contain, and that without such a GPU
// there is no note.
func TestNoFile(t *testing.T) {
	r := migRig(t)
	tells(t, NewHardware(r.root, r.mustFind().Devices).Libraries(),
		"images other than host must contain the driver's libraries")
	tells(t, NewHardware(r.root, nil).Libraries())
}

// FuzzCDI checks that any file can be read and applied safely, and never exposes another device's node.
func FuzzCDI(f *testing.F) {
	f.Add(cdiText)
	f.Add(`{"kind": "nvidia.com/gpu", "containerEdits": {"hooks": [{"args": ["--link"]}, {}], "mounts": [{}], "deviceNodes": [{}]}}`)
	f.Add("devices: [{}]")
	root := f.TempDir()
	h := NewHardware(root, nil)
	for _, node := range []string{"nvidia0", "nvidia3", "nvidiactl"} {
		if err := os.MkdirAll(filepath.Join(root, "dev"), 0o755); err != nil {
			f.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "dev", node), nil, 0o644); err != nil {
			f.Fatal(err)
		}
	}
	mine := []Device{{Nodes: []string{"/dev/nvidia3"}}}
	f.Fuzz(func(t *testing.T, text string) {
		file, err := parseCDI([]byte(text))
		if err != nil {
			return
		}
		view := &View{}
		for _, edits := range file.all() {
			h.apply(edits, mine, view)
		}
		file.device(mine[0])
		file.notRun()
		for _, node := range view.Nodes {
			if node != "/dev/nvidia3" && node != "/dev/nvidiactl" {
				t.Errorf("node %s", node)
			}
		}
		for _, m := range view.Mounts {
			if !filepath.IsAbs(m.Source) || !filepath.IsAbs(m.Target) || m.Target == "/" {
				t.Errorf("mount %+v", m)
			}
		}
	})
}

// FuzzListing checks that any output of `nvidia-smi -L` and `nvidia-smi topo -m` is parsed safely.
func FuzzListing(f *testing.F) {
	f.Add("GPU 0: NVIDIA A100 (UUID: GPU-1)\n  MIG 3g.40gb     Device  0: (UUID: MIG-1)\n")
	f.Add("\tGPU0\tGPU1\nGPU0\t X \tNV12\nGPU1\tNV12\t X \n")
	f.Fuzz(func(t *testing.T, text string) {
		for gpu, parts := range parseListing(text) {
			for _, part := range parts {
				if !isID(part.uuid, "MIG-") {
					t.Errorf("%q has the part %q", gpu, part.uuid)
				}
			}
		}
		all := parseMatrix(text)
		for gpu, first := range all {
			if first < -1 || first >= len(all) || first > gpu {
				t.Errorf("GPU %d of %d is in the island of %d", gpu, len(all), first)
			}
		}
	})
}
