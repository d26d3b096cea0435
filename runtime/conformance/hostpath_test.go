//go:build linux

// This file tests that the paths of a job are opened with the rights of its user, and never with those of the agent.
// Every case is an ordinary job on a usual node: the agent is root, without --allow-root.
package conformance

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/account"
	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/runtime/hostpolicy"
	"github.com/yi-json/synapse/test/able"
)

// onPlainMachines runs a test on nodes with the usual settings.
func onPlainMachines(t *testing.T, test func(t *testing.T, s *stack, driver string)) {
	onMachinesOf(t, account.Rules{}, test)
}

func onMachinesOf(t *testing.T, users account.Rules, test func(t *testing.T, s *stack, driver string)) {
	able.Need(t, able.Root) // otherwise the agent has no more rights than its jobs
	if testing.Short() {
		t.Skip("-short: builds a binary for each driver")
	}
	if missing := able.Busybox(); missing != "" {
		t.Skip(missing)
	}
	for name, made := range map[string]func(testing.TB) *stack{
		"carapace": func(t testing.TB) *stack { return containersFor(t, users) },
		"process":  func(t testing.TB) *stack { return processesFor(t, users) },
		"runc":     func(t testing.TB) *stack { return ociFor(t, "runc", users) },
		"crun":     func(t testing.TB) *stack { return ociFor(t, "crun", users) },
	} {
		t.Run(name, func(t *testing.T) {
			s := made(t)
			Guard(t, s.leavings)
			test(t, s, name)
		})
	}
}

// tried holds the exit and the output of a job that ran as nobody.
type tried struct {
	exit *messages.Exit
	said string
}

func (r tried) ran() bool {
	return r.exit.Kind == messages.ExitKind_EXIT_KIND_EXITED && r.exit.Code == 0
}

// try prepares and starts a job, and waits for its end.
func (s *stack) try(t testing.TB, root, script string, change func(*messages.JobSpec)) tried {
	t.Helper()
	counter := s.drawn.Add(1)
	p := &staged{
		of: s, id: &messages.TaskId{Token: &messages.Token{Epoch: 1, Counter: counter}},
		spec:     s.job(Task{Rootfs: root, Command: []string{"/bin/sh", "-c", script}, User: "nobody"}),
		grant:    &messages.Grant{Amount: &messages.Resources{}},
		prepared: make(chan struct{}), started: make(chan struct{}), gone: make(chan struct{}), done: make(chan struct{}),
	}
	if change != nil {
		change(p.spec)
	}
	s.runs.Store(counter, p)
	s.launcher.Tell(&messages.PrepareTask{Id: p.id, Job: "job", Spec: p.spec, Grant: p.grant}, s.pid)
	p.start()
	select {
	case <-p.gone:
	case <-time.After(limit):
		t.Fatal("it neither ends nor is refused")
	}
	r := tried{p.exit, p.said()}
	s.launcher.Tell(&messages.ForgetTask{Id: p.id}, nil)
	until(t, "it is not forgotten", func() bool { _, err := os.Stat(p.home()); return err != nil })
	s.runs.Delete(counter)
	return r
}

// place makes a directory in a folder that all users may pass through.
func place(t testing.TB, name string, mode os.FileMode, owner int) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, name)
	for _, err := range []error{
		os.Chmod(filepath.Dir(dir), 0o711), os.Mkdir(path, 0o755), os.Chmod(path, mode), os.Chown(path, owner, owner),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return path
}

const ofNobody = 65534

func mounting(pairs ...string) func(*messages.JobSpec) {
	return func(j *messages.JobSpec) {
		for i := 0; i < len(pairs); i += 2 {
			j.Mounts = append(j.Mounts, &messages.Mount{Source: pairs[i], Target: pairs[i+1]})
		}
	}
}

// TestDoorMakes checks that missing directories are made with the task's rights. A workdir or a mount point in a
// directory of root is not made.
func TestDoorMakes(t *testing.T) {
	onPlainMachines(t, func(t *testing.T, s *stack, driver string) {
		if driver == "process" {
			return // nothing is made for plain processes
		}
		root, shut, other := able.MakeRootfs(t), place(t, "etc", 0o755, 0), place(t, "opt", 0o755, 0)
		if err := os.Symlink("/x", filepath.Join(root, "link")); err != nil {
			t.Fatal(err)
		}
		for name, change := range map[string]func(*messages.JobSpec){
			"workdir":           func(j *messages.JobSpec) { mounting(shut, "/x")(j); j.Workdir = "/x/made/deep" },
			"workdir by a link": func(j *messages.JobSpec) { mounting(shut, "/x")(j); j.Workdir = "/link/made" },
			"target":            mounting(shut, "/x", other, "/x/made"),
			"target by a link":  mounting(shut, "/x", other, "/link/made"),
			"workdir on the host view": func(j *messages.JobSpec) {
				mounting(shut, "/tmp/x")(j)
				j.Image, j.Workdir = "host", "/tmp/x/made"
			},
			"target on the host view": func(j *messages.JobSpec) {
				mounting(shut, "/tmp/x", other, "/tmp/x/made")(j)
				j.Image = "host"
			},
			"target at a new top": func(j *messages.JobSpec) {
				mounting(shut, "/newtop/x", other, "/newtop/x/made")(j)
				j.Image = "host"
			},
			"target beside what exists": mounting(shut, "/x", other, "/x/./made/../made"),
		} {
			r := s.try(t, root, "exit 0", change)
			left, err := os.ReadDir(shut)
			if err != nil || len(left) > 0 {
				t.Errorf("%s: %v was made on the host; %v", name, left, r.exit)
			}
			for _, entry := range left {
				_ = os.RemoveAll(filepath.Join(shut, entry.Name()))
			}
			if r.ran() {
				t.Errorf("%s: it ran", name)
			}
		}
		own := place(t, "own", 0o755, ofNobody)
		r := s.try(t, root, "pwd; id -u", func(j *messages.JobSpec) { mounting(own, "/x")(j); j.Workdir = "/x/made" })
		if info, err := os.Stat(filepath.Join(own, "made")); driver == "carapace" &&
			(err != nil || info.Sys().(*syscall.Stat_t).Uid != ofNobody) {
			t.Errorf("a workdir in the user's own directory: %v %v %v", r.exit, info, err)
		}
		shown := map[bool]string{true: "/x/made", false: carapace.OtherWorkdir}[driver == "carapace"]
		if where, _, _ := strings.Cut(r.said, "\n"); where != shown {
			t.Errorf("a workdir in the user's own directory is shown as %q, not %q: %v", where, shown, r.exit)
		}
		if r := s.try(t, root, "pwd", func(j *messages.JobSpec) { j.Workdir = "/new/deep" }); r.said != "/new/deep\n" {
			t.Errorf("a workdir in the task's own layer: %v %q", r.exit, r.said)
		}
	})
}

// TestDoorGroups checks that a job has exactly the groups of its user, and cannot run as a service of the host.
func TestDoorGroups(t *testing.T) {
	onPlainMachines(t, func(t *testing.T, s *stack, _ string) {
		for _, user := range []string{
			"nobody:42", "nobody:0", "nobody:6", "65534:42", "61234:42", "daemon", "root", "0:0", "2",
		} {
			r := s.try(t, able.MakeRootfs(t), "id; cat /etc/shadow", func(j *messages.JobSpec) { j.User = user })
			if r.exit.Kind != messages.ExitKind_EXIT_KIND_PREPARE_FAILED || !strings.HasPrefix(r.exit.Detail, "user: ") {
				t.Errorf("%s: %v %q", user, r.exit, r.said)
			}
		}
	})
}

// TestDoorSources checks that kernel file systems, devices and sockets are refused as sources of mounts and as images.
func TestDoorSources(t *testing.T) {
	onPlainMachines(t, func(t *testing.T, s *stack, driver string) {
		socket := filepath.Join(place(t, "sockets", 0o755, 0), "engine.sock")
		listener, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		if err := os.Chmod(socket, 0o666); err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(place(t, "links", 0o755, 0), "link")
		if err := os.Symlink("/proc", link); err != nil {
			t.Fatal(err)
		}
		for _, source := range []string{
			"/proc", "/proc/1", "/proc/self/root", "/proc/self/cwd", "/sys", "/sys/fs/cgroup", "/dev", "/dev/pts", "/dev/null",
			socket, link, "/",
		} {
			target := "/p"
			if driver == "process" {
				target = source
			}
			r := s.try(t, able.MakeRootfs(t), "exit 0", mounting(source, target))
			if r.exit.Kind != messages.ExitKind_EXIT_KIND_PREPARE_FAILED ||
				!strings.HasPrefix(r.exit.Detail, "mounts[0].source: ") {
				t.Errorf("%s: %v", source, r.exit)
			}
		}
	})
}

// TestDoorTells checks that the errors for unreachable files and for missing files are the same.
func TestDoorTells(t *testing.T) {
	onPlainMachines(t, func(t *testing.T, s *stack, driver string) {
		closed, err := os.MkdirTemp("/srv", "closed-") // A host view has its own /tmp.
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(closed) })
		secret := filepath.Join(closed, "secret")
		if err := os.Mkdir(secret, 0o755); err != nil {
			t.Fatal(err)
		}
		fields := map[string]func(path string) func(*messages.JobSpec){
			"mount": func(path string) func(*messages.JobSpec) { return mounting(path, path) },
			"host workdir": func(path string) func(*messages.JobSpec) {
				return func(j *messages.JobSpec) { j.Image, j.Workdir = "host", path }
			},
		}
		if driver != "process" {
			fields["image"] = func(path string) func(*messages.JobSpec) { return func(j *messages.JobSpec) { j.Image = path } }
			fields["host target"] = func(path string) func(*messages.JobSpec) {
				return func(j *messages.JobSpec) { j.Image = "host"; mounting("/usr", path)(j) }
			}
		}
		for name, change := range fields {
			told := func(path string) string {
				r := s.try(t, able.MakeRootfs(t), "exit 0", change(path))
				if r.exit.Kind != messages.ExitKind_EXIT_KIND_PREPARE_FAILED {
					t.Errorf("%s: %v", name, r.exit)
				}
				return strings.ReplaceAll(r.exit.Detail, path, "PATH")
			}
			if there, not := told(secret), told(filepath.Join(closed, "nothing")); there != not {
				t.Errorf("%s: %q and %q", name, there, not)
			}
		}
	})
}

// TestDoorHostView checks that the host's root is read-only with the user's rights, in all runtimes.
func TestDoorHostView(t *testing.T) {
	onPlainMachines(t, func(t *testing.T, s *stack, driver string) {
		if driver == "process" {
			return // plain processes run on the host itself
		}
		own := place(t, "own", 0o755, ofNobody)
		script := "test -w /usr && echo usr; mkdir /new && echo top; ls /run /tmp /root; mkdir -p /tmp/mine && echo " +
			">/tmp/x/file && pwd; cat /etc/shadow; exit 0"
		r := s.try(t, "", script, func(j *messages.JobSpec) {
			j.Image, j.Workdir = "host", "/usr/bin"
			mounting(own, "/tmp/x")(j)
		})
		at := "/usr/bin"
		if driver != "carapace" {
			at = carapace.OtherWorkdir
		}
		if want := "/run:\n\n/tmp:\nx\n" + at + "\n"; r.said != want {
			t.Errorf("%v %q, not %q", r.exit, r.said, want)
		}
		if info, err := os.Stat(filepath.Join(own, "file")); err != nil || info.Sys().(*syscall.Stat_t).Uid != ofNobody {
			t.Errorf("%v %v", info, err)
		}
	})
}

// TestDoorPolicy checks that a path that the policy forbids is refused to every job, and that a read-only path cannot
// be written.
func TestDoorPolicy(t *testing.T) {
	able.Need(t, able.Root, able.Containers)
	if missing := able.Busybox(); missing != "" || testing.Short() {
		t.Skip("-short, or " + missing)
	}
	data, other, no := place(t, "data", 0o777, 0), place(t, "other", 0o777, 0), false
	root := able.MakeRootfs(t)
	mounts := []hostpolicy.Mount{{Path: data, ReadOnly: true}}
	policy := hostpolicy.Policy{Mounts: mounts, Images: []string{root}, HostView: &no}
	s := containersFor(t, account.Rules{From: 65534}, policy)
	for name, change := range map[string]func(*messages.JobSpec){
		"a mount elsewhere":      mounting(other, "/x"),
		"an image elsewhere":     func(j *messages.JobSpec) { j.Image = other },
		"the host view":          func(j *messages.JobSpec) { j.Image = "host" },
		"a user below the least": func(j *messages.JobSpec) { j.User = "61234" },
	} {
		r := s.try(t, root, "exit 0", change)
		if r.exit.Kind != messages.ExitKind_EXIT_KIND_PREPARE_FAILED || r.exit.Fault != messages.Fault_FAULT_JOB {
			t.Errorf("%s: %v", name, r.exit)
		}
	}
	if r := s.try(t, root, "echo >/x/file || echo closed", mounting(data, "/x")); r.said != "closed\n" {
		t.Errorf("%v %q", r.exit, r.said)
	}
}

// TestDoorFlips checks a link that continuously changes between the user's directory and a closed one. The closed one
// is never visible.
func TestDoorFlips(t *testing.T) {
	onPlainMachines(t, func(t *testing.T, s *stack, driver string) {
		closed, own := filepath.Join(place(t, "closed", 0o700, 0),
			"root"), filepath.Join(place(t, "own", 0o755, ofNobody), "root")
		for _, dir := range []string{closed, own} {
			if err := os.Rename(able.MakeRootfs(t), dir); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, "which"), filepath.Base(filepath.Dir(dir)), 0o644)
		}
		link := filepath.Join(place(t, "links", 0o755, 0), "link")
		flips, stop := flip(t, link, closed, own)
		defer stop()
		changes := []func(*messages.JobSpec){mounting(link, link)}
		if driver != "process" {
			changes = []func(*messages.JobSpec){mounting(link, "/x"), func(j *messages.JobSpec) { j.Image = link }}
		}
		for _, change := range changes {
			ran := 0
			for begun, first := time.Now(), flips.Load(); ran < 5 || flips.Load()-first < 10_000 ||
				time.Since(begun) < time.Second; {
				r := s.try(t, able.MakeRootfs(t), "cat /x/which || cat /which || cat "+link+"/which", change)
				if strings.Contains(r.said, "closed") {
					t.Fatalf("after %d flips the closed directory was shown", flips.Load())
				}
				if r.ran() {
					ran++
				}
			}
			t.Logf("%d flips, %d of the tasks ran", flips.Load(), ran)
		}
	})
}

// flip makes a link that changes between two targets until it is stopped.
func flip(t testing.TB, link, to, other string) (flips *atomic.Int64, stop func()) {
	t.Helper()
	twin := link + ".twin"
	// One call to the kernel exchanges the names of two links. A new link for each change would take most of the
	// time.
	turn := func() error { return unix.Renameat2(unix.AT_FDCWD, link, unix.AT_FDCWD, twin, unix.RENAME_EXCHANGE) }
	for _, err := range []error{os.Symlink(to, link), os.Symlink(other, twin), turn()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	flips = new(atomic.Int64)
	stopping, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stopping:
				return
			default:
			}
			if turn() == nil {
				flips.Add(1)
			}
			// If it changed faster, the first check would nearly always find the wrong target, and no task
			// would get to the later ones.
			time.Sleep(time.Microsecond)
		}
	}()
	return flips, func() {
		close(stopping)
		<-stopped
	}
}
