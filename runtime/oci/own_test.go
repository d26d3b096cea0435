//go:build linux

package oci

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/account"
	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/runtime/container"
	"github.com/yi-json/synapse/runtime/launcher"
	"github.com/yi-json/synapse/test/able"
	"github.com/yi-json/synapse/topology"
)

const first = 300_000_000

// ownIDs returns ids that make the container's root the user nobody in host directories.
func ownIDs() *carapace.IDs { return &carapace.IDs{First: first, UID: 65534, GID: 65534} }

// onRuntimes runs a test with each runtime that works here.
func onRuntimes(t *testing.T, test func(t *testing.T, d *Driver)) {
	able.Need(t, able.OwnRoot)
	info, err := os.Stat(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	was := info.Sys().(*syscall.Stat_t)
	t.Cleanup(func() { _ = os.Chown(os.DevNull, int(was.Uid), int(was.Gid)) }) // for the other tests
	if missing := able.Busybox(); missing != "" || testing.Short() {
		t.Skip("-short, or " + missing)
	}
	for _, name := range Runtimes {
		t.Run(name, func(t *testing.T) {
			cgroups := carapace.Cgroups{Parent: "/oci-test-" + carapace.DrawID()}
			state := filepath.Join(t.TempDir(), "state")
			d, err := New(Options{Runtime: able.Runtime(t, name), StateDir: state, Cgroups: cgroups})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := able.Sweep(filepath.Join(t.TempDir(), "none"), cgroups); err != nil {
					t.Error(err)
				}
				all, _ := filepath.Glob("/sys/fs/cgroup/*" + cgroups.Parent) // hierarchies that only runtimes use
				for _, folder := range all {
					if err := os.Remove(folder); err != nil {
						t.Error(err)
					}
				}
			})
			if err := d.Try(t.Context()); err != nil {
				t.Skip(err)
			}
			if d.noRoot != nil {
				t.Fatal(d.noRoot)
			}
			test(t, d)
		})
	}
}

// says runs a script and returns its output.
func (d *Driver) says(t *testing.T, s carapace.Spec, script string) string {
	t.Helper()
	s.Command = []string{"/bin/sh", "-c", script}
	text, err := d.once(t.Context(), &s)
	if err != nil {
		t.Errorf("%v: %s", err, text)
	}
	return string(text)
}

// TestOwnRoot checks that the container's root is root in its image, and one plain user without files in host
// directories.
func TestOwnRoot(t *testing.T) {
	onRuntimes(t, func(t *testing.T, d *Driver) {
		root, layer, scratch, data := able.MakeRootfs(t), t.TempDir(), t.TempDir(), t.TempDir()
		for _, folder := range []string{scratch, data} {
			if err := os.Chmod(folder, 0o777); err != nil {
				t.Fatal(err)
			}
		}
		said := d.says(t, carapace.Spec{
			Rootfs: root, Layer: layer, Scratch: scratch, IDs: ownIDs(), User: "0:0",
			Mounts: []carapace.Mount{{Source: data, Target: "/data"}},
		}, `id -u; pwd; stat -c %u / /bin/busybox; echo > /mine; chown 33 /mine; stat -c %u /mine; echo > made; echo > /data/made
			chown 33 made 2>/dev/null || echo kept; cat /proc/self/uid_map; ls /sys/class/net | grep -c .; grep NoNewPrivs /proc/self/status`)
		interfaces, err := os.ReadDir("/sys/class/net")
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("0 /scratch 0 0 33 kept 0 %d 65536 %d NoNewPrivs: 0", first, len(interfaces))
		if strings.Join(strings.Fields(said), " ") != want {
			t.Errorf("it said %q, not %q", said, want)
		}
		for path, owner := range map[string]uint32{
			filepath.Join(scratch, "made"): 65534, filepath.Join(data, "made"): 65534,
			filepath.Join(layer, "upper/mine"): first + 33,
		} {
			info, err := os.Stat(path)
			if err != nil || info.Sys().(*syscall.Stat_t).Uid != owner {
				t.Errorf("%s: %v %v, and it is to be of %d", path, info, err, owner)
			}
		}
		if _, err := os.Stat(filepath.Join(root, "mine")); err == nil {
			t.Error("the image was written to")
		}
		if info, err := os.Stat(os.DevNull); err != nil || info.Sys().(*syscall.Stat_t).Uid >= first {
			t.Errorf("the host's /dev/null: %v, %v", info, err)
		}
	})
}

// TestOwnRootDevices checks that a granted device is open to all users of the container, although the host restricts
// it. No other device is open, through any node.
func TestOwnRootDevices(t *testing.T) {
	onRuntimes(t, func(t *testing.T, d *Driver) {
		node := filepath.Join("/dev", carapace.DrawID(), "granted")
		if err := os.Mkdir(filepath.Dir(node), 0o700); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(filepath.Dir(node)) })
		if err := syscall.Mknod(node, syscall.S_IFCHR|0o600, 1<<8|5); err != nil { // another zero device
			t.Fatal(err)
		}
		other := filepath.Join(filepath.Dir(node), "other")
		if err := syscall.Mknod(other, syscall.S_IFCHR|0o666, 1<<8|11); err != nil { // kmsg
			t.Fatal(err)
		}
		said := d.says(t, carapace.Spec{
			Rootfs: able.MakeRootfs(t), Layer: t.TempDir(), IDs: ownIDs(), User: "0:0", Devices: []string{node},
		}, fmt.Sprintf("head -c 2 %s | wc -c; stat -c %%a %[1]s; test -e %s || echo none; mknod /dev/x c 1 11 2>/dev/null "+
			"|| echo no node; ls /dev | wc -l", node, other))
		if !strings.HasPrefix(said, "2\n666\nnone\nno node\n") {
			t.Errorf("it said %q", said)
		}
		said = d.says(t, carapace.Spec{Rootfs: "host", IDs: ownIDs(), User: "0:0", Devices: []string{node}},
			"head -c 2 "+node+" | wc -c")
		if said != "2\n" {
			t.Errorf("on the host view it said %q", said)
		}
	})
}

// TestRootRefused checks that no job is root if the runtime makes no user namespace or if carapace is too old to
// compose roots. Other jobs run.
func TestRootRefused(t *testing.T) {
	able.Need(t, able.Root)
	roots, err := account.OpenRoots(t.TempDir(), topology.UIDRange{First: 400_000_000, Last: 400_065_535}, carapace.IDsLen)
	if err != nil {
		t.Fatal(err)
	}
	const own, composed = `{"name":"root of a container's own","ok":true}`, `{"name":"root of a container's own, by another program","ok":true}`
	for name, c := range map[string]struct {
		says   string
		noRoot error
		why    string
	}{
		"no user namespace":   {own + "," + composed, errors.New("no such namespace"), "no such namespace"},
		"an earlier carapace": {own, nil, "earlier version"},
		"neither":             {own + "," + composed, nil, ""},
	} {
		binary := filepath.Join(t.TempDir(), "carapace")
		if err := os.WriteFile(binary, []byte("#!/bin/sh\ncat <<'END'\n["+c.says+"]\nEND\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		around, err := container.New(container.Options{
			Binary: binary, StateDir: t.TempDir(), Users: account.Rules{Roots: roots},
		})
		if err == nil {
			err = around.Check(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		d := &Driver{around, Options{}, c.noRoot}
		task := &launcher.Task{
			Dir: t.TempDir(), Spec: &messages.JobSpec{User: "root", Image: container.HostImage, Command: []string{"x"}},
		}
		task.Scratch = task.Dir
		err = d.Prepare(t.Context(), task)
		if c.why == "" && err != nil ||
			c.why != "" && (err == nil || !strings.HasPrefix(err.Error(), "user: ") || !strings.Contains(err.Error(), c.why)) {
			t.Errorf("%s: %v", name, err)
		}
		task.Spec.User = "nobody"
		if err := d.Prepare(t.Context(), task); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
