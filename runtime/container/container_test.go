//go:build linux

package container

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/runtime/fault"
	"github.com/yi-json/synapse/runtime/gpu"
	"github.com/yi-json/synapse/runtime/hostpath"
	"github.com/yi-json/synapse/runtime/launcher"
	"github.com/yi-json/synapse/runtime/supervisor"
	"github.com/yi-json/synapse/test/able"
	"github.com/yi-json/synapse/test/able/pace"
	"github.com/yi-json/synapse/topology"
)

// room returns a folder that other users may pass through, like a data directory.
func room(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

func taskOf(t *testing.T, change func(*messages.JobSpec)) *launcher.Task {
	t.Helper()
	dir := room(t)
	spec := &messages.JobSpec{Image: "host", Command: []string{"true"}}
	if change != nil {
		change(spec)
	}
	task := &launcher.Task{
		Key: topology.TaskKey{Token: topology.Token{Epoch: 1, Counter: 2}}, Job: "job", Spec: spec,
		Grant: &messages.Grant{Amount: &messages.Resources{MilliCpu: 1, MemoryBytes: 64 << 20}},
		Dir:   filepath.Join(dir, "driver"), Scratch: filepath.Join(dir, "scratch"),
	}
	for _, d := range []string{task.Dir, task.Scratch} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return task
}

func driverOf(t *testing.T, change func(*Options)) *Driver {
	t.Helper()
	o := Options{
		Binary: "/no/carapace", StateDir: filepath.Join(t.TempDir(), "state"),
		Cgroups: carapace.Cgroups{Parent: fmt.Sprintf("/synapse-test-%d", os.Getpid())},
	}
	if change != nil {
		change(&o)
	}
	d, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // removes the parent groups, which stay for later containers
		if _, err := carapace.GC(o.StateDir, o.Cgroups); err != nil {
			t.Error(err)
		}
	})
	return d
}

// TestPrepare checks that an unusable job is refused before its start, with the name of the job's field.
func TestPrepare(t *testing.T) {
	own, shut := room(t), t.TempDir()
	if err := os.Chmod(shut, 0o700); err != nil {
		t.Fatal(err)
	}
	inside := filepath.Join(shut, "inside")
	if err := os.Mkdir(inside, 0o755); err != nil {
		t.Fatal(err)
	}
	mount := func(source, target string) func(*messages.JobSpec) {
		return func(s *messages.JobSpec) { s.Mounts = []*messages.Mount{{Source: source, Target: target}} }
	}
	image := func(name string) func(*messages.JobSpec) { return func(s *messages.JobSpec) { s.Image = name } }
	for _, c := range []struct {
		name   string
		change func(*messages.JobSpec)
		says   string
	}{
		{"host", nil, ""},
		{"registry", image("reg.example/train"), "image: "},
		{"archive", image("./image.tar"), "image: "},
		{"missing directory", image("/no/such"), "image: "},
		{"file", image("/etc/passwd"), "image: "},
		{"the host's root", image("/"), "image: "},
		{"the agent's own as an image", image(own), "image: "},
		{"network", func(s *messages.JobSpec) { s.Network = messages.Network_NETWORK_PRIVATE }, "network: "},
		{"no network", func(s *messages.JobSpec) { s.Network = messages.Network_NETWORK_NONE }, ""},
		{"no command", func(s *messages.JobSpec) { s.Command = nil }, "command: "},
		{"stranger", func(s *messages.JobSpec) { s.User = "no-such-user" }, "user: "},
		{"no workdir", func(s *messages.JobSpec) { s.Workdir = "/usr/no/such" }, "workdir: "},
		{"workdir in a mount", func(s *messages.JobSpec) { mount("/etc", "/data")(s); s.Workdir = "/data/x" }, ""},
		{"workdir in /tmp", func(s *messages.JobSpec) { s.Workdir = "/tmp/x" }, ""},
		{"mount of nothing", mount("/no/such", "/data"), "mounts[0].source: "},
		{"mount of what is no path", mount("no/such", "/data"), "mounts[0].source: "},
		{"mount of the agent's own", mount(own, "/data"), "mounts[0].source: "},
		{"mount of what is above it", mount(filepath.Dir(own), "/data"), "mounts[0].source: "},
		{"mount in a place that cannot be made", mount("/etc", "/usr/no/such"), "mounts[0].target: "},
		{"mount at a new top", mount("/etc", "/no-such-top"), ""},
		{"mount over the root", mount("/etc", "/"), "mounts[0].target: "},
		{"limits", func(s *messages.JobSpec) { s.LimitsRequired = true }, "limits: "},
		{"shm", func(s *messages.JobSpec) { s.ShmBytes = -1 }, "resources.shm: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := driverOf(t, func(o *Options) { o.Hide = []string{own} })
			d.lacks = map[string]string{"memory limit": "it has none"}
			err := d.Prepare(context.Background(), taskOf(t, c.change))
			if (err == nil) != (c.says == "") || err != nil && !strings.HasPrefix(err.Error(), c.says) {
				t.Errorf("%v", err)
			}
			want := fault.Unknown
			if slices.Contains([]string{"no command", "mount over the root", "mount of what is no path", "shm"}, c.name) {
				want = fault.Job
			}
			if got := fault.Of(err); got != want {
				t.Errorf("the fault is %q, not %q: %v", got, want, err)
			}
		})
	}
	if os.Geteuid() == 0 { // only root can enter all directories and must therefore check them for others
		err := driverOf(t, nil).Prepare(context.Background(), taskOf(t, mount(inside, "/data")))
		if err == nil || !strings.Contains(err.Error(), "does not exist for the task's user") {
			t.Errorf("behind a door: %v", err)
		}
	}
}

// specOf returns the container that a task's supervisor would start.
func specOf(t *testing.T, d *Driver, task *launcher.Task, start *messages.StartTask, env []string) carapace.Spec {
	t.Helper()
	if err := d.Prepare(context.Background(), task); err != nil {
		t.Fatal(err)
	}
	command, err := d.Command(task, start, env)
	if err != nil {
		t.Fatal(err)
	}
	if len(command.Args) > 0 || command.Container == nil || command.Container.StateDir != d.o.StateDir ||
		command.Container.Cgroups != d.o.Cgroups {
		t.Fatalf("%+v", command)
	}
	return command.Container.Spec
}

// TestSpec checks that a container has the granted resources, and no limit that the node cannot enforce.
func TestSpec(t *testing.T) {
	first := &messages.Gpu{Id: "GPU-1", Minor: 3}
	d := driverOf(t, func(o *Options) {
		o.Gpus = gpu.NewHardware(t.TempDir(), []gpu.Device{{Gpu: first, Nodes: []string{"/dev/nvidia3"}}})
	})
	d.lacks = map[string]string{"pids limit": "it has none"}
	task := taskOf(t, func(s *messages.JobSpec) { s.ShmBytes = 1 << 20 })
	task.Gpus = []*messages.Gpu{first, {Id: "declared", Minor: 4, Declared: true}}
	spec := specOf(t, d, task, nil, []string{"TOKEN=secret", "PATH=/opt/bin"})
	if spec.Limits != (carapace.Limits{MemoryBytes: 64 << 20, MilliCPU: minMilliCPU}) {
		t.Errorf("limits %+v", spec.Limits)
	}
	if !slices.Equal(spec.Devices, []string{"/dev/nvidia3"}) {
		t.Errorf("devices %q", spec.Devices)
	}
	if spec.Rootfs != "host" || spec.Layer != "" || spec.Scratch != task.Scratch || spec.ShmBytes != 1<<20 {
		t.Errorf("%+v", spec)
	}
	if !slices.Contains(spec.Env, "TOKEN=secret") || !slices.Contains(spec.Env, "PATH=/opt/bin") ||
		!slices.ContainsFunc(spec.Env, func(s string) bool { return strings.HasPrefix(s, "HOME=/") }) {
		t.Errorf("environment %q", spec.Env)
	}
	if os.Geteuid() == 0 && spec.User != "65534:65534" {
		t.Errorf("a job of no user runs as %s", spec.User)
	}
	other := taskOf(t, nil)
	if d.id(other) == d.id(task) {
		t.Error("two agents' tasks of one name have one container")
	}
}

// TestDirectoryImage checks that each task writes to its own layer, because many tasks may use a directory.
func TestDirectoryImage(t *testing.T) {
	root := room(t)
	d := driverOf(t, nil)
	task := taskOf(t, func(s *messages.JobSpec) { s.Image, s.Command = root, nil })
	spec := specOf(t, d, task, nil, nil)
	if spec.Rootfs != "" || spec.Image == nil || !spec.Image.Directory || !carapace.Within(spec.Layer, task.Dir) ||
		!slices.Equal(spec.Command, []string{"/bin/sh"}) {
		t.Errorf("%+v", spec)
	}
	if slices.ContainsFunc(spec.Env, func(s string) bool { return strings.HasPrefix(s, "HOME=") }) {
		t.Errorf("the image's accounts are its own: %q", spec.Env)
	}
	d.lacks = map[string]string{"layer": "no overlay"}
	if spec := specOf(t, d, task, nil, nil); spec.Layer != "" {
		t.Errorf("%+v", spec)
	}
}

// held is the set of holders of an image.
type held map[string]bool

func (h held) Prepare(_ context.Context, _, holder string, _ hostpath.Visitor) (Image, error) {
	h[holder] = true
	return Image{Rootfs: HostImage, Env: []string{"FROM=image"}, Workdir: "/usr"}, nil
}

func (h held) Release(holder string) error {
	delete(h, holder)
	return nil
}

// TestImageIsHeld checks that the task's folder holds the image from Prepare to Cleanup.
func TestImageIsHeld(t *testing.T) {
	images := held{}
	d := driverOf(t, func(o *Options) { o.Images = images })
	task := taskOf(t, nil)
	for range 2 {
		if spec := specOf(t, d, task, nil, nil); spec.Workdir != "/usr" || !slices.Contains(spec.Env, "FROM=image") {
			t.Errorf("%+v", spec)
		}
	}
	if len(images) != 1 || !images[task.Dir] {
		t.Errorf("held by %v", images)
	}
	for range 2 {
		if err := d.Cleanup(task); err != nil || len(images) != 0 {
			t.Errorf("held by %v after Cleanup: %v", images, err)
		}
	}
}

// TestPidReuse checks that another process with the recorded pid is not killed.
func TestPidReuse(t *testing.T) {
	parent, _ := supervisor.ReadProcess(os.Getppid())
	if found := initOf(&supervisor.State{PID: parent.PID, Start: parent.Start + 1}); len(found) > 0 {
		t.Errorf("%+v would be killed", found)
	}
	if found := initOf(&supervisor.State{PID: parent.PID, Start: parent.Start}); len(found) != 1 {
		t.Errorf("%+v", found)
	}
}

// TestSweep checks that the container ends with its killed supervisor, and that a successful sweep confirms it. The
// container's usage is reported while it runs.
func TestSweep(t *testing.T) {
	able.Need(t, able.Containers)
	binary := program(t)
	d := driverOf(t, func(o *Options) { o.Binary = binary })
	ctx, cancel := context.WithTimeout(context.Background(), pace.Of(30*time.Second))
	defer cancel()
	if err := d.Check(ctx); err != nil {
		t.Fatal(err)
	}
	if err := d.Try(ctx); err != nil {
		t.Fatal(err)
	}
	task := taskOf(
		t, func(s *messages.JobSpec) { s.Command = []string{"/bin/sh", "-c", "setsid sleep 1000 & sleep 1000"} },
	)
	if err := d.Prepare(ctx, task); err != nil {
		t.Fatal(err)
	}
	spec, err := d.Command(task, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Dir(task.Dir)
	link, err := supervisor.Start(home, spec, []string{binary, supervisor.SubCommand})
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	if e := link.Next(); !e.Started {
		t.Fatalf("%+v", e)
	}
	state, err := supervisor.ReadState(home)
	if err != nil {
		t.Fatal(err)
	}
	for {
		stats, err := d.Stats(task, state)
		if err != nil || ctx.Err() != nil {
			t.Fatal(stats, err)
		}
		if stats.Processes >= 3 && (stats.MemoryBytes > 0 || d.lacks["memory limit"] != "") {
			break
		}
		time.Sleep(time.Millisecond)
	}
	leader, _ := supervisor.ReadProcess(state.PID)
	keeper, _ := supervisor.ReadProcess(leader.Parent)
	if err := keeper.Send(9); err != nil {
		t.Fatal(err)
	}
	if e := link.Next(); !e.Closed {
		t.Fatalf("%+v", e)
	}
	for range 2 { // the second call finds nothing to do
		if err := d.Sweep(ctx, task, state); err != nil {
			t.Fatal(err)
		}
	}
	if now, alive := supervisor.ReadProcess(state.PID); alive && now.Start == state.Start && now.State != 'Z' {
		t.Error("what made the container is still there")
	}
	if left, _ := filepath.Glob("/sys/fs/cgroup/*" + d.o.Cgroups.Parent + "/*/"); len(left) > 0 {
		t.Errorf("cgroups are left: %q", left)
	}
	if err := d.Collect(); err != nil {
		t.Error(err)
	}
	for _, folder := range d.o.Cgroups.Folders() {
		if _, err := os.Stat(folder); err == nil {
			t.Errorf("%s is left", folder)
		}
	}
}

// TestHeldIsLetGo checks that the mounts from Prepare stay open until a supervisor has them or the task is cleaned up.
func TestHeldIsLetGo(t *testing.T) {
	able.Need(t, able.Root, able.Mounts)
	d, data := driverOf(t, nil), room(t)
	mounts := func(s *messages.JobSpec) { s.Mounts = []*messages.Mount{{Source: data, Target: "/data"}} }
	task := taskOf(t, mounts)
	for range 2 { // repeated
		if err := d.Prepare(context.Background(), task); err != nil || len(d.held[task.Dir]) != 1 {
			t.Fatalf("%v, held are %v", err, d.held)
		}
	}
	held := d.held[task.Dir][0]
	if err := d.Cleanup(task); err != nil || len(d.held) > 0 || held.Close() == nil {
		t.Errorf("%v, held are %v", err, d.held)
	}
	task = taskOf(t, mounts)
	if err := d.Prepare(context.Background(), task); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time as a later agent
		spec, err := d.Command(task, nil, nil)
		if err != nil || len(spec.Held) != 1 || spec.Container.Spec.Mounts[0].Named.Held != supervisor.FirstHeld ||
			len(d.held) > 0 {
			t.Fatalf("%v: %+v, held are %v", err, spec, d.held)
		}
		spec.Held[0].Close()
	}
}
