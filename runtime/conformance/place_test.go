//go:build linux

// This file tests different locations of the state directory, including locations that the host view shows.
package conformance

import (
	"fmt"
	"os"
	"testing"

	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/test/able"
)

// TestHostViewIsNotInItself checks that the view does not contain itself a second time, without its covers.
func TestHostViewIsNotInItself(t *testing.T) {
	o := newOwn(t)
	folder, err := os.MkdirTemp("/var/lib", "carapace-test-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	o.options.StateDir = folder
	script := fmt.Sprintf("ls %[1]s; for f in %[1]s/seen/* %[1]s/seen/*/*; do test ! -e $f || echo $f; done", folder)
	for _, user := range []string{"0", "65534"} {
		text, exit := o.run(carapace.Spec{ID: "seen", Rootfs: "host", User: user, Command: []string{"sh", "-c", script}})
		if exit.Code != 0 || text != "seen\n" {
			t.Errorf("user %s: %+v\n%s", user, exit, text)
		}
	}
}

// TestStateDirectoryFromHere checks that a relative path refers to the caller's directory, although the container is
// made elsewhere.
func TestStateDirectoryFromHere(t *testing.T) {
	o := newOwn(t)
	t.Chdir(t.TempDir())
	o.options.StateDir = "state"
	text, exit := o.run(carapace.Spec{Rootfs: able.MakeRootfs(t), Command: []string{"/bin/echo", "here"}})
	if exit.Code != 0 || text != "here\n" {
		t.Errorf("%+v\n%s", exit, text)
	}
	if left, err := os.ReadDir("state"); err != nil || len(left) > 0 {
		t.Errorf("left are %v (%v)", left, err)
	}
}
