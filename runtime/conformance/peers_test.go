//go:build linux

// This file defines the work of other runtimes in a comparison with carapace: either the minimum that the suite needs,
// or a container equal to carapace's. The first favours them.
package conformance

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/test/able"
)

// peerOnce runs a bundle of the same root and limits with another runtime.
func peerOnce(b *testing.B, binary, rootfs string, bundled func(Task, string) object) func() error {
	state, bundle, parent := b.TempDir(), b.TempDir(), "/"+NewID()
	b.Cleanup(func() {
		for _, folder := range parents(parent) {
			_ = os.Remove(folder)
		}
	})
	enter := where(b, binary)
	return inThread(func() error {
		id := NewID()
		folder := filepath.Join(bundle, id)
		text, err := json.Marshal(bundled(Task{
			ID: id, Rootfs: rootfs, Command: []string{"/bin/true"}, MemoryBytes: 256 << 20, Pids: 64,
		}, parent+"/"+id))
		if err == nil {
			err = os.Mkdir(folder, 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, "config.json"), text, 0o600)
		}
		if err != nil {
			return err
		}
		defer os.RemoveAll(folder)
		if err := enter(); err != nil {
			return err
		}
		said, err := exec.Command(binary, "--root", state, "run", "--bundle", folder, id).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%v: %s", err, strings.TrimSpace(string(said)))
		}
		return nil
	})
}

// inThread runs a function on a thread that ends with it.
func inThread(once func() error) func() error {
	return func() error {
		done := make(chan error)
		go func() {
			runtime.LockOSThread()
			done <- once()
		}()
		return <-done
	}
}

// where moves a thread to the environment that a runtime needs. crun refuses hosts with hybrid cgroups, so it runs
// without the v2 tree. The runtime's wrapper would do the same but takes additional time.
func where(b *testing.B, binary string) (enter func() error) {
	root := able.UnifiedRoot()
	if filepath.Base(binary) != "crun" || root == "" || os.Geteuid() != 0 {
		return func() error { return nil }
	}
	made := make(chan int)
	go func() {
		defer close(made)
		runtime.LockOSThread()
		if unix.Unshare(unix.CLONE_NEWNS) != nil || unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") != nil ||
			unix.Mount("none", root, "tmpfs", 0, "") != nil {
			return
		}
		if fd, err := unix.Open("/proc/thread-self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
			made <- fd
		}
	}()
	fd, ok := <-made
	if !ok {
		b.Fatal("no mount namespace without the v2 tree")
	}
	b.Cleanup(func() { unix.Close(fd) })
	return func() error {
		if err := unix.Unshare(unix.CLONE_FS); err != nil { // the kernel requires it
			return err
		}
		return unix.Setns(fd, unix.CLONE_NEWNS)
	}
}

// bundleLikeOurs returns a bundle with the mounts, masks, filter and namespaces of carapace's containers.
func bundleLikeOurs(task Task, cgroup string) object {
	bundle := bundleOf(task, cgroup)
	mount := func(kind, target string, options ...string) object {
		return object{
			"destination": target, "type": kind, "source": kind, "options": append([]string{"nosuid", "noexec"}, options...),
		}
	}
	bundle["mounts"] = []object{
		mount("proc", "/proc", "nodev"),
		mount("tmpfs", "/dev", "mode=755", "size=64m"),
		mount("devpts", "/dev/pts", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"),
		mount("tmpfs", "/dev/shm", "nodev", "mode=1777", "size=64m"),
		mount("mqueue", "/dev/mqueue", "nodev"),
		mount("sysfs", "/sys", "nodev", "ro"),
		mount("cgroup", "/sys/fs/cgroup", "nodev", "ro"),
	}
	linux := bundle["linux"].(object)
	linux["namespaces"] = append(linux["namespaces"].([]object), object{"type": "cgroup"})
	linux["maskedPaths"] = []string{
		"/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug", "/proc/scsi",
		"/proc/timer_list", "/proc/timer_stats", "/sys/firmware", "/sys/devices/virtual/powercap",
	}
	linux["readonlyPaths"] = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
	linux["seccomp"] = object{
		"defaultAction": "SCMP_ACT_ALLOW",
		"syscalls": []object{{"action": "SCMP_ACT_ERRNO", "errnoRet": 1, "names": []string{
			"acct", "add_key", "bpf", "clock_adjtime", "clock_settime", "delete_module", "finit_module", "fsconfig", "fsmount",
			"fsopen", "fspick",
			"init_module", "kcmp", "kexec_file_load", "kexec_load", "keyctl", "mount", "mount_setattr",
			"move_mount", "nfsservctl",
			"open_by_handle_at", "open_tree", "perf_event_open", "pivot_root", "quotactl", "quotactl_fd", "reboot",
			"request_key", "setns", "settimeofday", "swapoff", "swapon", "syslog", "umount2", "userfaultfd", "vhangup",
		}}},
	}
	return bundle
}
