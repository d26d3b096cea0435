package process

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/account"
	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/runtime/gpu"
	"github.com/yi-json/synapse/runtime/launcher"
	"github.com/yi-json/synapse/runtime/supervisor"
	"github.com/yi-json/synapse/test/able/pace"
	"github.com/yi-json/synapse/topology"
)

func taskOf(t *testing.T, spec *messages.JobSpec) *launcher.Task {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil { // like a data directory
		t.Fatal(err)
	}
	task := &launcher.Task{
		Key: topology.TaskKey{Token: topology.Token{Epoch: 1, Counter: 2}}, Job: "job", Spec: spec, Grant: &messages.Grant{},
		Dir: filepath.Join(dir, "driver"), Scratch: filepath.Join(dir, "scratch"),
	}
	for _, d := range []string{task.Dir, task.Scratch} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return task
}

func host(change func(*messages.JobSpec)) *messages.JobSpec {
	s := &messages.JobSpec{Image: "host", Command: []string{"true"}}
	if change != nil {
		change(s)
	}
	return s
}

// TestPrepare checks that unsupported requests are refused with the field's name and the fix.
func TestPrepare(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*messages.JobSpec)
		says   string
	}{
		{"host", nil, ""},
		{"image", func(s *messages.JobSpec) { s.Image = "./rootfs" }, "image: "},
		{"limits", func(s *messages.JobSpec) { s.LimitsRequired = true }, "limits: "},
		{"network", func(s *messages.JobSpec) { s.Network = messages.Network_NETWORK_NONE }, "network: "},
		{"the machine's network", func(s *messages.JobSpec) { s.Network = messages.Network_NETWORK_HOST }, ""},
		{"no command", func(s *messages.JobSpec) { s.Command = nil }, "command: "},
		{"no workdir", func(s *messages.JobSpec) { s.Workdir = "/no/such" }, "workdir: "},
		{"file as workdir", func(s *messages.JobSpec) { s.Workdir = "/etc/passwd" }, "workdir: "},
		{"mount elsewhere",
			func(s *messages.JobSpec) { s.Mounts = []*messages.Mount{{Source: "/etc", Target: "/x"}} }, "mounts[0]"},
		{"mount read only", func(s *messages.JobSpec) {
			s.Mounts = []*messages.Mount{{Source: "/etc", Target: "/etc", ReadOnly: true}}
		}, "mounts[0]"},
		{"mount of itself", func(s *messages.JobSpec) { s.Mounts = []*messages.Mount{{Source: "/etc", Target: "/etc"}} }, ""},
		{"mount of nothing", func(s *messages.JobSpec) { s.Mounts = []*messages.Mount{{Source: "/no", Target: "/no"}} },
			"mounts[0].source"},
		{"stranger", func(s *messages.JobSpec) { s.User = "no-such-user" }, "user: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := New(Options{}).Prepare(context.Background(), taskOf(t, host(c.change)))
			if (err == nil) != (c.says == "") || err != nil && !strings.HasPrefix(err.Error(), c.says) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestUserAsRoot checks that a job runs as a user, and as root only if that is permitted.
func TestUserAsRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can act as another user")
	}
	for _, c := range []struct {
		rules account.Rules
		user  string
		uid   uint32
		says  string
	}{
		{account.Rules{}, "", 65534, ""},
		{account.Rules{}, "root", 0, "user: root is root"},
		{account.Rules{}, "0", 0, "user: 0 is root"},
		{account.Rules{}, "0:5", 0, "user: 0:5 is root"},
		{account.Rules{AllowRoot: true}, "root", 0, ""},
		{account.Rules{Default: "61234"}, "", 61234, ""},
		{account.Rules{}, "61234:61234", 61234, ""},
		{account.Rules{}, "61234:61235", 0, "user: 61234 is not in the group 61235"},
		{account.Rules{}, "nobody:42", 0, "user: nobody is not in the group 42"},
		{account.Rules{}, "nobody:0", 0, "user: nobody is not in the group 0"},
		{account.Rules{}, "daemon", 0, "user: daemon has the uid 1, "},
		{account.Rules{}, "2", 0, "user: 2 has the uid 2, "},
		{account.Rules{}, "61234:x", 0, "user: the group"},
		{account.Rules{}, "-1", 0, "user: "},
	} {
		got, err := New(Options{Users: c.rules}).user(taskOf(t, host(func(s *messages.JobSpec) { s.User = c.user })))
		if c.says != "" {
			if err == nil || !strings.HasPrefix(err.Error(), c.says) {
				t.Errorf("%q: %v", c.user, err)
			}
			continue
		}
		if err != nil || got.UID != c.uid || c.uid != 0 && got.GID == 0 {
			t.Errorf("%q: %+v, %v", c.user, got, err)
		}
	}
	task := taskOf(t, host(nil))
	if err := os.Chmod(filepath.Dir(task.Scratch), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := New(Options{}).Prepare(context.Background(), task); err == nil ||
		!strings.Contains(err.Error(), "cannot pass through "+filepath.Dir(task.Scratch)) {
		t.Errorf("%v", err)
	}
}

// TestUserNotRoot checks that an agent without root runs only the jobs of its own user. If the tests run as root, the
// test becomes nobody.
func TestUserNotRoot(t *testing.T) {
	if os.Geteuid() == 0 {
		again := exec.Command("/proc/self/exe", "-test.run=^TestUserNotRoot$", "-test.v")
		again.Dir, again.SysProcAttr = "/", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if text, err := again.CombinedOutput(); err != nil || !strings.Contains(string(text), "--- PASS: TestUserNotRoot") {
			t.Errorf("%v:\n%s", err, text)
		}
		return
	}
	me, err := user.Current()
	if err != nil {
		t.Skip("this user has no name here: ", err)
	}
	for _, name := range []string{"", me.Username, me.Uid} {
		if a, err := New(Options{}).user(taskOf(t, host(func(s *messages.JobSpec) { s.User = name }))); err != nil ||
			!a.Self {
			t.Errorf("%q: %+v, %v", name, a, err)
		}
	}
	if _, err := New(Options{}).user(taskOf(t, host(func(s *messages.JobSpec) { s.User = "root" }))); err == nil ||
		!strings.HasPrefix(err.Error(), "user: root is not available") {
		t.Errorf("%v", err)
	}
}

// TestCommand checks that the task has the usual environment, and that its own variables have priority.
func TestCommand(t *testing.T) {
	d := New(Options{Env: []string{"PATH=/opt/bin:/bin", "TZ=UTC"}})
	task := taskOf(t, host(nil))
	spec, err := d.Command(task, nil, []string{"A=1", "TZ=CET"})
	if err != nil || spec.Dir != task.Scratch || spec.Path != "true" {
		t.Fatal(spec, err)
	}
	env := strings.Join(spec.Env, "\n")
	for _, want := range []string{"PATH=/opt/bin:/bin", "A=1", "TZ=CET", "HOME=", "USER="} {
		if strings.Count("\n"+env, "\n"+want) != 1 {
			t.Errorf("%s in\n%s", want, env)
		}
	}
	if strings.Contains(env, "TZ=UTC") {
		t.Error(env)
	}
}

// TestConfinement checks that a task may use only the nodes of its own GPUs and write only where its job says. The
// nodes of a declared device are unknown. Without Landlock, no confinement is claimed.
func TestConfinement(t *testing.T) {
	known := []gpu.Device{
		{Gpu: &messages.Gpu{Id: "GPU-0"}, Nodes: []string{"/dev/nvidia0"}},
		{Gpu: &messages.Gpu{Id: "GPU-1"}, Nodes: []string{"/dev/nvidia1"}},
	}
	o := Options{Hide: []string{"/srv/agent"}, Gpus: gpu.NewHardware(t.TempDir(), known), Landlock: func() (int,
		error) {
		return 4, nil
	}, Users: account.Rules{AllowRoot: true}}
	given, work := t.TempDir(), t.TempDir()
	if err := os.Chmod(filepath.Dir(given), 0o711); err != nil {
		t.Fatal(err)
	}
	task := taskOf(t, host(func(s *messages.JobSpec) {
		s.Workdir, s.Mounts = work, []*messages.Mount{{Source: given, Target: given}}
	}))
	task.Gpus = []*messages.Gpu{known[0].Gpu}
	task.Grant.Gpus = []*messages.GpuShare{{GpuId: "GPU-0"}}
	confine := func(o Options) *supervisor.Confinement {
		t.Helper()
		spec, err := New(o).Command(task, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return spec.Confine
	}
	c := confine(o)
	for _, want := range []struct {
		in   []string
		path string
		has  bool
	}{
		{c.Use, "/dev/nvidia0", true}, {c.Use, "/dev/nvidia1", false}, {c.Use, "/dev", false}, {c.Use, "/dev/null", true},
		{c.Hide, "/srv/agent", true},
		{c.Write, "/tmp", true}, {named(c), strconv.Quote(work), true}, {named(c), strconv.Quote(given), true},
		{c.Write, "/", false}, {c.Write, task.Scratch, false},
	} {
		if slices.Contains(want.in, want.path) != want.has {
			t.Errorf("%s is in %v: %v", want.path, want.in, !want.has)
		}
	}
	if len(c.Named) != 2 || c.Own != task.Scratch || c.Landlock != 4 || c.Bound {
		t.Errorf("%+v", c)
	}
	if os.Geteuid() == 0 {
		task.Spec.User = "0"
		if c := confine(o); !c.Bound || slices.Contains(c.Use, "/proc") || !slices.Contains(c.Hide, "/etc/synapse") {
			t.Errorf("as root: %+v", c)
		}
	}
	task.Gpus = []*messages.Gpu{{Id: "GPU-0", Declared: true}}
	if c := confine(o); !slices.Contains(c.Use, "/dev") {
		t.Errorf("declared: %v", c.Use)
	}
	task.Gpus = nil
	if _, err := New(o).Command(task, nil, nil); err == nil || !strings.Contains(err.Error(), "GPU-0 was granted") {
		t.Errorf("a device that is gone: %v", err)
	}
	task.Grant.Gpus = nil
	o.Landlock = func() (int, error) { return 0, errors.New("none here") }
	if d := New(o); confine(o) != nil || d.Confined() || !strings.Contains(strings.Join(d.Lacks(), ", "), "none here") ||
		len(d.Barred()) > 0 {
		t.Errorf("without: %v %v", d.Lacks(), d.Barred())
	}
}

// TestAgentsOwn checks that no job may mount or work in the agent's hidden directories. A task gets another directory
// for temporary files if the usual one is barred for that reason.
func TestAgentsOwn(t *testing.T) {
	dir := t.TempDir()
	agents := filepath.Join(dir, "agent")
	inside := filepath.Join(agents, "inside")
	link := filepath.Join(dir, "link")
	if err := os.MkdirAll(inside, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(inside, link); err != nil {
		t.Fatal(err)
	}
	d := New(Options{Hide: []string{agents}, Landlock: func() (int, error) { return 1, nil }})
	for _, path := range []string{dir, agents, inside, link} {
		task := taskOf(t, host(func(s *messages.JobSpec) { s.Mounts = []*messages.Mount{{Source: path, Target: path}} }))
		if err := d.Prepare(context.Background(), task); err == nil || !strings.HasPrefix(err.Error(), "mounts[0].source: ") {
			t.Errorf("mount of %s: %v", path, err)
		}
		task = taskOf(t, host(func(s *messages.JobSpec) { s.Workdir = path }))
		if err := d.Prepare(context.Background(), task); path != dir &&
			(err == nil || !strings.HasPrefix(err.Error(), "workdir: ")) {
			t.Errorf("workdir %s: %v", path, err)
		}
	}
	task := taskOf(t, host(nil))
	spec, err := d.Command(task, nil, []string{"A=1"})
	below := carapace.Within(dir, "/tmp")
	if err != nil || slices.Contains(spec.Env, "TMPDIR="+task.Scratch) != below ||
		slices.Contains(d.Barred(), "/tmp") != below {
		t.Errorf("%v, %v, %v", spec, err, d.Barred())
	}
}

// cgroups returns a folder for leaves that is removed with the test.
func cgroups(t *testing.T) string {
	t.Helper()
	own := ownCgroups()
	if own == "" {
		t.Skip("no unified cgroup hierarchy that this user may write")
	}
	dir := filepath.Join(own, "test-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skip("no cgroup can be made: ", err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
		_ = os.Remove(own) // another test on this host may still use it
	})
	return dir
}

// TestCgroup checks that a task starts in its leaf, that all its processes are killed through the leaf, and that the
// leaf is removed with the task.
func TestCgroup(t *testing.T) {
	d := New(Options{Cgroups: cgroups(t)})
	task := taskOf(t, host(func(s *messages.JobSpec) {
		s.Command = []string{"/bin/sh", "-c", `cat /proc/self/cgroup; (env -i setsid /bin/sleep 60 &); sleep 60`}
	}))
	if err := d.Prepare(context.Background(), task); err != nil {
		t.Fatal(err)
	}
	spec, err := d.Command(task, nil, []string{"SYNAPSE_HOSTFILE=" + launcher.Hostfile(task.Scratch)})
	if err != nil || spec.Cgroup == "" {
		t.Fatal(spec, err)
	}
	link, err := supervisor.Start(task.Dir, spec, []string{"/proc/self/exe", supervisor.SubCommand})
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	if e := link.Next(); !e.Started {
		t.Fatalf("%+v", e)
	}
	state, err := supervisor.ReadState(task.Dir)
	if err != nil {
		t.Fatal(err)
	}
	leader, _ := supervisor.ReadProcess(state.PID)
	keeper, _ := supervisor.ReadProcess(leader.Parent)
	for end := pace.Until(10 * time.Second); ; time.Sleep(time.Millisecond) { // until both processes have been forked
		procs, _ := os.ReadFile(filepath.Join(spec.Cgroup, "cgroup.procs"))
		if _, out, _, _ := supervisor.ReadLog(task.Dir, supervisor.Stdout, 0, 1); len(bytes.Fields(procs)) >= 3 &&
			len(out) > 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("in the leaf are %s", procs)
		}
	}
	_ = keeper.Send(9)
	if e := link.Next(); !e.Closed {
		t.Fatalf("%+v", e)
	}
	if err := d.Sweep(context.Background(), task, state); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(spec.Cgroup); !os.IsNotExist(err) {
		t.Errorf("the leaf is still there: %v", err)
	}
	_, out, _, _ := supervisor.ReadLog(task.Dir, supervisor.Stdout, 0, 4096)
	if !strings.Contains(string(out), filepath.Base(spec.Cgroup)) {
		t.Errorf("it ran in %s", out)
	}
}

// TestUnifiedRoot checks that the mount with the whole hierarchy is found.
func TestUnifiedRoot(t *testing.T) {
	if got := unifiedRoot("30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"); got != "/sys/fs/cgroup" {
		t.Error(got)
	}
	if got := unifiedRoot("30 1 0:26 /deep /x rw - cgroup2 cgroup2 rw\nbroken\n" +
		"31 1 0:1 / /y rw - tmpfs t rw\n"); got != "" {
		t.Error(got)
	}
}

// TestInSession checks that a process with a reused pid is not in the task's session.
func TestInSession(t *testing.T) {
	state := &supervisor.State{PID: 50, Start: 1000}
	for _, c := range []struct {
		p    supervisor.Process
		want bool
	}{
		{supervisor.Process{PID: 50, Session: 50, Start: 1000}, true},
		{supervisor.Process{PID: 51, Session: 50, Start: 1001}, true},
		{supervisor.Process{PID: 50, Session: 50, Start: 2000}, false},
		{supervisor.Process{PID: 51, Session: 50, Start: 999}, false},
		{supervisor.Process{PID: 51, Session: 49, Start: 1001}, false},
	} {
		if got := inSession(c.p, state); got != c.want {
			t.Errorf("%+v: %v", c.p, got)
		}
	}
	if inSession(supervisor.Process{PID: 1, Session: 0}, &supervisor.State{}) {
		t.Error("without a session everything is in it")
	}
}

// TestMain runs this test binary as the supervisor, if its arguments say so.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == supervisor.SubCommand {
		syscall.Exit(supervisor.Main(os.Args[2:])) // With the race detector, os.Exit waits for a second.
	}
	os.Exit(m.Run())
}

// named returns the job's paths that a confinement opens.
func named(c *supervisor.Confinement) (paths []string) {
	for _, ticket := range c.Named {
		paths = append(paths, ticket.Path.String())
	}
	return paths
}
