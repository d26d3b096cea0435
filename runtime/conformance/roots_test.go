//go:build linux

// A job that names root, on a machine as it is installed: it is root of a container of its own.
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

// withRoots is a machine that has numbers for this many tasks which are root of containers of their own.
func withRoots(t testing.TB, tasks uint32) account.Rules {
	t.Helper()
	all := topology.UIDRange{First: ownFirst, Last: ownFirst + tasks*carapace.IDsLen - 1}
	roots, err := account.OpenRoots(t.TempDir(), all, carapace.IDsLen)
	if err != nil {
		t.Fatal(err)
	}
	return account.Rules{UIDs: withUIDs.UIDs, Roots: roots}
}

// imagesAnywhere lets what a test makes be an image.
func imagesAnywhere() hostpolicy.Policy { return hostpolicy.Policy{Images: []string{os.TempDir()}} }

// rootedStack is a machine on which the suite's tasks are root of containers of their own.
type rootedStack struct{ *stack }

func (s rootedStack) Start(task Task) (Running, error) {
	for _, source := range task.Mounts { // root of the container goes and writes where nobody may
		for _, err := range []error{os.Chown(source, ofNobody, ofNobody), os.Chmod(filepath.Dir(source), 0o711)} {
			if err != nil {
				return nil, err
			}
		}
	}
	return s.stack.Start(task)
}

// onRootMachines runs a test on machines of each kind on which this many tasks can be root of containers of their
// own.
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

// TestOwnRootOfAMachine is the suite on launcher, supervisor and what makes containers, as root of containers of
// their own.
func TestOwnRootOfAMachine(t *testing.T) {
	onRootMachines(t, 256, func(t *testing.T, s *stack, _ string) { Run(t, rootedStack{s}) })
}

// asRoot changes a job to name root.
func asRoot(j *messages.JobSpec) { j.User = "root" }

// TestRootOfJobs: a job that names root is root of its image, and of its scratch directory what its uid is on the
// machine.
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

// TestRootsApart: no two tasks that live have the same numbers, none has those of one that was a moment ago while
// others are free, and a machine of which all are taken says so. A next agent knows whose they are.
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
	if <-three.gone; !strings.Contains(three.exit.Detail, "--root-uids 400000000-400131071 are taken") ||
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

// TestRootRefused: where root of a container could be more than that, or cannot be had, the job is refused by its
// field.
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
	// A file system that knows no other numbers than its own, whatever the kernel.
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

// TestRootElsewhere: what makes no containers refuses root as it ever did.
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

// TestNullStays: a task is started with a /dev/null as its input, and whoever starts it does not give it that of the
// machine.
func TestNullStays(t *testing.T) {
	owner := func() uint32 {
		info, err := os.Stat(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		return info.Sys().(*syscall.Stat_t).Uid
	}
	t.Cleanup(func() { _ = os.Chown(os.DevNull, 0, 0) }) // that a failure is of this test alone
	onMachinesOf(t, withRoots(t, 2), func(t *testing.T, s *stack, driver string) {
		p := s.of("mine", mine, "host", "cat; echo x > /dev/stdin && echo ended")
		if <-p.gone; p.said() != "ended\n" || owner() == mine {
			t.Errorf("%v %q; the machine's /dev/null is of %d", p.exit, p.said(), owner())
		}
		p.forgotten(t)
		if driver == "process" {
			return
		}
		t.Run("as root", func(t *testing.T) {
			able.Need(t, able.OwnRoot)
			p := s.begin("mine", mine, "host", "cat; echo x > /dev/stdin && echo ended", asRoot)
			if <-p.gone; p.said() != "ended\n" || owner() >= ownFirst {
				t.Errorf("%v %q; the machine's /dev/null is of %d", p.exit, p.said(), owner())
			}
			p.forgotten(t)
		})
	})
}
