//go:build linux

// This file tests jobs that name root on a usual node, which become root inside their containers.
package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/account"
	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/runtime/hostpolicy"
	"github.com/yi-json/synapse/runtime/oci"
	"github.com/yi-json/synapse/test/able"
	"github.com/yi-json/synapse/topology"
)

// withRoots returns rules of a node with id ranges for this many root tasks.
func withRoots(t testing.TB, tasks uint32) account.Rules {
	t.Helper()
	all := topology.UIDRange{First: ownFirst, Last: ownFirst + tasks*carapace.IDsLen - 1}
	roots, err := account.OpenRoots(t.TempDir(), all, carapace.IDsLen)
	if err != nil {
		t.Fatal(err)
	}
	return account.Rules{UIDs: withUIDs.UIDs, Roots: roots}
}

// imagesAnywhere permits images in all directories of the tests.
func imagesAnywhere() hostpolicy.Policy { return hostpolicy.Policy{Images: []string{os.TempDir()}} }

// rootedStack is a node on which the suite's tasks are root inside their containers.
type rootedStack struct{ *stack }

func (s rootedStack) Start(task Task) (Running, error) {
	for _, source := range task.Mounts { // so that the container's root may read and write there
		for _, err := range []error{os.Chown(source, ofNobody, ofNobody), os.Chmod(filepath.Dir(source), 0o711)} {
			if err != nil {
				return nil, err
			}
		}
	}
	return s.stack.Start(task)
}

// onRootMachines runs a test on nodes of each kind that support this many root tasks.
func onRootMachines(t *testing.T, tasks uint32, test func(t *testing.T, s *stack, driver string)) {
	able.Need(t, able.OwnRoot)
	if missing := able.Busybox(); missing != "" || testing.Short() {
		t.Skip("-short, or " + missing)
	}
	for _, driver := range append([]string{"carapace"}, oci.Runtimes...) {
		t.Run(driver, func(t *testing.T) {
			var s *stack
			if driver == "carapace" {
				s = containersFor(t, withRoots(t, tasks), imagesAnywhere())
			} else {
				s = ociFor(t, driver, withRoots(t, tasks), imagesAnywhere())
			}
			Guard(t, s.leavings)
			test(t, s, driver)
		})
	}
}

// TestOwnRootOfAMachine runs the suite on launcher, supervisor and each container runtime, as root inside the
// containers.
func TestOwnRootOfAMachine(t *testing.T) {
	onRootMachines(t, 256, func(t *testing.T, s *stack, _ string) { Run(t, rootedStack{s}) })
}

// asRoot makes a job name root.
func asRoot(j *messages.JobSpec) { j.User = "root" }

// TestRootOfJobs checks that a job that names root is root in its image. In its scratch directory, it has the job's uid
// on the host.
func TestRootOfJobs(t *testing.T) {
	onRootMachines(t, 2, testRootOfJobs)
}

func testRootOfJobs(t *testing.T, s *stack, _ string) {
	const script = "id -u; id -g; pwd; stat -c %u .; echo > made; chown 33 made 2>/dev/null || echo kept; " +
		"echo > /etc/new && chown 33 /etc/new && echo free"
	for uid, owner := range map[uint32]uint32{0: ofNobody, mine: mine} {
		p := s.begin("job", uid, able.MakeRootfs(t), script, asRoot)
		<-p.gone
		info, err := os.Stat(filepath.Join(s.dir, "scratch", filepath.Base(p.home()), "made"))
		if p.said() != "0\n0\n/scratch\n0\nkept\nfree\n" || err != nil || info.Sys().(*syscall.Stat_t).Uid != owner {
			t.Errorf("%v: it said %q and made %v (%v), to be of %d", p.exit, p.said(), info, err, owner)
		}
		p.forgotten(t)
	}
	if r := s.try(t, "", "id -u; cat /etc/shadow; test -w /usr && echo open; exit 0", func(j *messages.JobSpec) {
		asRoot(j)
		j.Image = "host"
	}); r.said != "0\n" {
		t.Errorf("on the host view: %v %q", r.exit, r.said)
	}
}

// TestRootsApart checks that no two living tasks share an id range, and that a freed range is reused last. A node
// without free ranges reports that. A next agent knows the holders.
func TestRootsApart(t *testing.T) {
	onRootMachines(t, 2, testRootsApart)
}

func testRootsApart(t *testing.T, s *stack, _ string) {
	root := able.MakeRootfs(t)
	begin := func() *staged { return s.begin("job", 0, root, "cat /proc/self/uid_map; sleep 600", asRoot) }
	numbers := func(p *staged) (first int) {
		until(t, "it does not run", func() bool { return strings.HasSuffix(p.said(), "\n") })
		if _, err := fmt.Sscan(strings.TrimPrefix(strings.TrimSpace(p.said()), "0"), &first); err != nil {
			t.Errorf("%v: %q", err, p.said())
		}
		return first
	}
	end := func(p *staged) {
		s.launcher.Tell(&messages.StopTask{Id: p.id, Signal: int32(syscall.SIGKILL)}, s.pid)
		p.forgotten(t)
	}
	one := begin()
	first := numbers(one)
	s.restart(t, func() {})
	two := begin()
	second := numbers(two)
	if first == second {
		t.Errorf("two tasks have the numbers from %d on", first)
	}
	three := begin()
	if <-three.gone; !strings.Contains(three.exit.Detail, "--root-uids 400000000-400131071 are in use") ||
		three.exit.Fault != messages.Fault_FAULT_UNKNOWN {
		t.Errorf("a third: %v", three.exit)
	}
	three.forgotten(t)
	end(one)
	four := begin()
	if numbers(four) != first {
		t.Errorf("a fourth has the numbers from %d on, and those from %d on are free", numbers(four), first)
	}
	end(two)
	end(four)
}

// TestRootRefused checks that a job is refused with the field's name if the container's root could get more rights, or
// is not supported.
func TestRootRefused(t *testing.T) {
	able.Need(t, able.OwnRoot)
	if missing := able.Busybox(); missing != "" || testing.Short() {
		t.Skip("-short, or " + missing)
	}
	root, merged := able.MakeRootfs(t), place(t, "merged", 0o755, 0)
	layers := t.TempDir()
	for _, name := range []string{"lower", "upper", "work"} {
		if err := os.Mkdir(filepath.Join(layers, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// A file system that never supports idmapped mounts.
	options := fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", layers)
	if err := unix.Mount("overlay", merged, "overlay", 0, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(merged, 0) })
	s := containersFor(t, withRoots(t, 2), imagesAnywhere())
	Guard(t, s.leavings)
	plain := containersFor(t, withRoots(t, 2))
	none := containersFor(t, account.Rules{})
	for name, c := range map[string]struct {
		of     *stack
		change func(*messages.JobSpec)
		says   string
	}{
		"a mount that cannot be shown":           {s, mounting(merged, "/x"), "mounts[0].source: "},
		"an image that cannot be shown":          {s, func(j *messages.JobSpec) { j.Image = merged }, "image: "},
		"a directory that is not meant as image": {plain, func(*messages.JobSpec) {}, "image: "},
		"a group":                                {s, func(j *messages.JobSpec) { j.User = "root:6" }, "user: "},
		"a machine without numbers":              {none, func(*messages.JobSpec) {}, "user: "},
	} {
		r := c.of.try(t, root, "exit 0", func(j *messages.JobSpec) { asRoot(j); c.change(j) })
		if r.exit.Kind != messages.ExitKind_EXIT_KIND_PREPARE_FAILED || !strings.HasPrefix(r.exit.Detail, c.says) {
			t.Errorf("%s: %v", name, r.exit)
		}
	}
}

// TestRootElsewhere checks that a driver without containers refuses root.
func TestRootElsewhere(t *testing.T) {
	able.Need(t, able.OwnRoot)
	onMachinesOf(t, withRoots(t, 2), func(t *testing.T, s *stack, driver string) {
		if driver != "process" {
			return
		}
		r := s.try(t, able.MakeRootfs(t), "id -u", asRoot)
		if r.exit.Kind != messages.ExitKind_EXIT_KIND_PREPARE_FAILED || !strings.HasPrefix(r.exit.Detail, "user: ") {
			t.Errorf("%v %q", r.exit, r.said)
		}
	})
}

// TestNullStays checks that the /dev/null for a task's input is not the host's, so its owner does not change.
func TestNullStays(t *testing.T) {
	owner := func() uint32 {
		info, err := os.Stat(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		return info.Sys().(*syscall.Stat_t).Uid
	}
	t.Cleanup(func() { _ = os.Chown(os.DevNull, 0, 0) }) // restores the owner, so that a failure affects only this test
	onMachinesOf(t, withRoots(t, 2), func(t *testing.T, s *stack, driver string) {
		p := s.of("mine", mine, "host", "cat; echo x > /dev/stdin && echo ended")
		if <-p.gone; p.said() != "ended\n" || owner() == mine {
			t.Errorf("%v %q; the host's /dev/null belongs to %d", p.exit, p.said(), owner())
		}
		p.forgotten(t)
		if driver == "process" {
			return
		}
		t.Run("as root", func(t *testing.T) {
			able.Need(t, able.OwnRoot)
			p := s.begin("mine", mine, "host", "cat; echo x > /dev/stdin && echo ended", asRoot)
			if <-p.gone; p.said() != "ended\n" || owner() >= ownFirst {
				t.Errorf("%v %q; the host's /dev/null belongs to %d", p.exit, p.said(), owner())
			}
			p.forgotten(t)
		})
	})
}
