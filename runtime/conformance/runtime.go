//go:build linux

// OCI runtimes, as tests find them.
package conformance

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Runtime answers an OCI runtime's path, and skips where there is none. crun refuses machines whose cgroups are hybrid; on
// such it is shown an empty folder instead of their v2 tree, in which no controller is then anyway.
func Runtime(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("this machine has no %s", name)
	}
	if root := unifiedRoot(); name == "crun" && root != "" && os.Geteuid() == 0 {
		wrapper := filepath.Join(t.TempDir(), name)
		write(t, wrapper, "#!/bin/sh\nexec unshare -m sh -c 'mount -t tmpfs none "+root+" && exec "+path+" \"$@\"' "+name+" \"$@\"\n", 0o755)
		return wrapper
	}
	return path
}

func unifiedRoot() string {
	const root = "/sys/fs/cgroup/unified"
	if _, err := os.Stat(root + "/cgroup.controllers"); err != nil {
		return ""
	}
	return root
}
