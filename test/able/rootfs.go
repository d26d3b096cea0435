//go:build linux

package able

// This file provides the containers of tests: a root directory from the host's busybox, and the installed OCI runtimes.

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// busyboxPaths lists the possible paths of a static busybox. /bin is a link to /usr/bin on most hosts.
var busyboxPaths = []string{"/bin/busybox", "/usr/bin/busybox"}

// plainCommands lists the busybox commands of a root directory.
const plainCommands = "sh true false cat ls echo sleep id dd tail mknod kill mount umount unshare hostname grep " +
	"wc sed test readlink setsid env head od pwd mkdir rm cp chmod df stat yes ps"

// Busybox returns why there is no rootfs for tests, or an empty string.
func Busybox() string {
	for _, path := range busyboxPaths {
		// A dynamic one cannot run in an empty root.
		if exec.Command("ldd", path).Run() != nil && exec.Command(path, "true").Run() == nil {
			return ""
		}
	}
	return "no static busybox at " + strings.Join(busyboxPaths, " or ") + " (Debian: apt-get install busybox-static)"
}

// MakeRootfs creates a root from the host's busybox, with a shell and the plain commands and without any files of the
// host.
func MakeRootfs(t testing.TB) string {
	t.Helper()
	root := t.TempDir()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"bin", "etc", "proc", "sys", "dev", "tmp", "root"} {
		if err := os.Mkdir(filepath.Join(root, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var text []byte
	for _, path := range busyboxPaths {
		if content, err := os.ReadFile(path); err == nil {
			text = content
			break
		}
	}
	WriteFile(t, filepath.Join(root, "bin/busybox"), string(text), 0o755)
	for _, name := range strings.Fields(plainCommands) {
		if err := os.Symlink("busybox", filepath.Join(root, "bin", name)); err != nil {
			t.Fatal(err)
		}
	}
	WriteFile(t, filepath.Join(root, "etc/passwd"),
		"root:x:0:0:root:/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\n", 0o644)
	WriteFile(t, filepath.Join(root, "etc/group"), "root:x:0:\nalice:x:1000:\nvideo:x:44:alice\n", 0o644)
	return root
}

// WriteFile writes a file with exactly this mode.
func WriteFile(t testing.TB, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // regardless of the umask
		t.Fatal(err)
	}
}

// Runtime returns the path of an OCI runtime, or skips the test if there is none. crun rejects hosts with hybrid
// cgroups. There it sees an empty folder instead of their v2 tree, which has no controllers anyway.
func Runtime(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("this host has no %s", name)
	}
	if root := UnifiedRoot(); name == "crun" && root != "" && os.Geteuid() == 0 {
		wrapper := filepath.Join(t.TempDir(), name)
		WriteFile(t, wrapper,
			"#!/bin/sh\nexec unshare -m sh -c 'mount -t tmpfs none "+root+" && exec "+path+" \"$@\"' "+name+" \"$@\"\n", 0o755)
		return wrapper
	}
	return path
}

// Delegate makes the kernel enforce permissions at the borders of cgroup namespaces while a test runs. systemd mounts
// the v2 tree in this way on nearly every host. Without it a test would not show the resulting errors. Delegate logs if
// this is impossible.
func Delegate(t testing.TB) {
	t.Helper()
	root := UnifiedRoot()
	text, err := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(text)) {
		_, options, _ := strings.Cut(line, " - cgroup2 ")
		if _, options, _ = strings.Cut(options, " "); strings.Contains(line, " "+root+" ") && options != "" {
			options = strings.TrimSpace(options)
			if strings.Contains(options, "nsdelegate") {
				return
			}
			const keeps = syscall.MS_REMOUNT | syscall.MS_RELATIME
			if err = syscall.Mount("", root, "", keeps, "nsdelegate"); err == nil {
				t.Cleanup(func() { _ = syscall.Mount("", root, "", keeps, strings.Trim(strings.TrimPrefix(options, "rw"), ",")) })
				return
			}
		}
	}
	t.Logf("the v2 tree does not separate cgroup namespaces here, unlike on other hosts: %v", err)
}

// UnifiedRoot returns the path of the v2 tree on a host with hybrid cgroups, or an empty string.
func UnifiedRoot() string {
	const root = "/sys/fs/cgroup/unified"
	if _, err := os.Stat(root + "/cgroup.controllers"); err != nil {
		return ""
	}
	return root
}
