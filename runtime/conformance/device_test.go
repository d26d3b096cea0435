//go:build linux

package conformance

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/account"
	"github.com/yi-json/synapse/runtime/hostpolicy"
	"github.com/yi-json/synapse/runtime/supervisor"
	"github.com/yi-json/synapse/test/able"
)

// fuse is a device that any process with access to its node can open. To open it has no effect.
var fuse = int(unix.Mkdev(10, 229))

// deviceOf makes another node of it for the time of a test.
func deviceOf(t *testing.T, name string, mode uint32) string {
	t.Helper()
	path := fmt.Sprintf("/dev/synapse-%d-%s", os.Getpid(), name)
	if err := unix.Mknod(path, unix.S_IFCHR|mode, fuse); err != nil {
		t.Skipf("no device can be made here: %v", err)
	}
	t.Cleanup(func() { _ = os.Remove(path) })
	if err := os.Chmod(path, os.FileMode(mode)); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Skipf("this kernel has no fuse: %v", err)
	}
	file.Close()
	return path
}

// TestDoorDevices checks that a job gets the devices that it names, if the node's policy permits them and its user
// could open them on the host. It gets no other devices, and none without a policy.
func TestDoorDevices(t *testing.T) {
	able.Need(t, able.Root, able.Containers)
	if missing := able.Busybox(); missing != "" || testing.Short() {
		t.Skip("-short, or " + missing)
	}
	listed, closed, other := deviceOf(t, "listed", 0o666), deviceOf(t, "closed", 0o600), deviceOf(t, "other", 0o666)
	policy := hostpolicy.Policy{Devices: []string{listed, closed}}
	for name, made := range map[string]func(*testing.T, ...hostpolicy.Policy) *stack{
		"carapace": func(t *testing.T, p ...hostpolicy.Policy) *stack { return containersFor(t, account.Rules{}, p...) },
		"process":  func(t *testing.T, p ...hostpolicy.Policy) *stack { return processesFor(t, account.Rules{}, p...) },
		"runc":     func(t *testing.T, p ...hostpolicy.Policy) *stack { return ociFor(t, "runc", account.Rules{}, p...) },
		"crun":     func(t *testing.T, p ...hostpolicy.Policy) *stack { return ociFor(t, "crun", account.Rules{}, p...) },
	} {
		t.Run(name, func(t *testing.T) {
			s := made(t, policy)
			Guard(t, s.leavings)
			devices(t, s, name, listed, closed, other)
			if r := made(t).try(t, able.MakeRootfs(t), "exit 0", mounting(listed, listed)); !strings.HasPrefix(r.exit.Detail,
				"mounts[0].source: ") {
				t.Errorf("without a policy: %v", r.exit)
			}
		})
	}
}

func devices(t *testing.T, s *stack, driver, listed, closed, other string) {
	try := func(path string) string { return fmt.Sprintf("( : <>%s ) 2>/dev/null && echo open;", path) }
	root := able.MakeRootfs(t)
	if r := s.try(t, root, try(listed)+"exit 0", mounting(listed, listed)); r.said != "open\n" {
		t.Errorf("one that is listed: %v %q", r.exit, r.said)
	}
	if _, err := supervisor.Landlock(); driver != "process" || err == nil {
		if r := s.try(t, root, try(listed)+"exit 0", nil); r.said != "" {
			t.Errorf("one that is listed, and not named: %v %q", r.exit, r.said)
		}
		if r := s.try(t, root, try(other)+"exit 0", mounting(listed, listed)); r.said != "" {
			t.Errorf("another one: %v %q", r.exit, r.said)
		}
	}
	for _, source := range []string{closed, other, "/dev/null"} {
		r := s.try(t, root, "exit 0", mounting(source, source))
		if r.exit.Kind != messages.ExitKind_EXIT_KIND_PREPARE_FAILED || r.exit.Fault != messages.Fault_FAULT_UNKNOWN ||
			!strings.HasPrefix(r.exit.Detail, "mounts[0].source: ") {
			t.Errorf("%s: %v", source, r.exit)
		}
	}
	if driver == "process" {
		return // it refuses a mount elsewhere for every source
	}
	for name, change := range map[string]func(*messages.JobSpec){
		"elsewhere": mounting(listed, "/dev/else"),
		"read-only": func(j *messages.JobSpec) {
			j.Mounts = []*messages.Mount{{Source: listed, Target: listed, ReadOnly: true}}
		},
	} {
		if r := s.try(t, root, "exit 0", change); !strings.HasPrefix(r.exit.Detail, "mounts[0].target: ") ||
			r.exit.Fault != messages.Fault_FAULT_JOB {
			t.Errorf("%s: %v", name, r.exit)
		}
	}
	// A mount next to a device works as usual.
	data := place(t, "data", 0o777, 0)
	if r := s.try(t, root, try(listed)+"echo >/x/file && echo written",
		mounting(listed, listed, data, "/x")); r.said != "open\nwritten\n" {
		t.Errorf("next to a mount: %v %q", r.exit, r.said)
	}
}
