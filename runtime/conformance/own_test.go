//go:build linux

// This file tests properties that only carapace has: the host view, hardening, one start per id, death with the
// starter, and no remains in any failure of the supervising process.
package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/test/able"
)

// own is a test with the carapace library and a separate state directory and cgroup parent.
type own struct {
	testing.TB
	*library
}

func newOwn(t *testing.T) own {
	t.Helper()
	d := newLibrary(t)
	Guard(t, d.Leavings)
	return own{t, d}
}

// run runs a spec until its end and returns its output.
func (o own) run(spec carapace.Spec) (string, carapace.Exit) {
	o.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		o.Fatal(err)
	}
	defer reader.Close()
	options := o.options
	options.Stdout, options.Stderr = writer, writer
	container, err := carapace.Start(spec, options)
	writer.Close()
	if err != nil {
		o.Fatalf("start %q: %v", spec.Command, err)
	}
	_ = reader.SetReadDeadline(time.Now().Add(limit))
	text, err := io.ReadAll(reader)
	if err != nil {
		_ = container.Kill()
		o.Error(err)
	}
	return string(text), container.Wait()
}

// inside runs this binary's probes in a container and returns the kernel's answers.
func (o own) inside(spec carapace.Spec, words ...string) map[string]string {
	o.Helper()
	self, err := os.Executable()
	if err != nil {
		o.Fatal(err)
	}
	spec.Mounts = append(spec.Mounts, carapace.Mount{Source: self, Target: "/tmp/probe", ReadOnly: true})
	spec.Command = append([]string{"/tmp/probe", probeArgument}, words...)
	text, exit := o.run(spec)
	if exit.Code != 0 {
		o.Fatalf("probe ended with %+v: %s", exit, text)
	}
	return answers(text)
}

func (o own) start(spec carapace.Spec) *carapace.Container {
	o.Helper()
	container, err := carapace.Start(spec, o.options)
	if err != nil {
		o.Fatalf("start %q: %v", spec.Command, err)
	}
	o.Cleanup(func() {
		_ = container.Kill()
		container.Wait()
	})
	return container
}

func hostSleep(id string) carapace.Spec {
	return carapace.Spec{ID: id, Rootfs: "host", Command: []string{"sleep", "1000"}}
}

func TestHostView(t *testing.T) {
	o := newOwn(t)
	scratch, secret, open := t.TempDir(), t.TempDir(), t.TempDir()
	for _, folder := range []string{scratch, open} { // both are below a private TempDir
		if err := os.Chown(folder, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	hidden, err := os.MkdirTemp("/var/lib", "carapace-test-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(hidden) })
	write(t, filepath.Join(hidden, "key"), "key", 0o644)
	write(t, filepath.Join(secret, "file"), "file", 0o644)
	script := `
id -u; pwd
touch made && echo scratch
touch /tmp/x /var/tmp/x && echo temporary
for f in /x /usr/x /etc/x /home/x /run/x /root/x; do touch $f 2>/dev/null && echo wrote $f; done
ls ` + hidden + ` /run /root 2>/dev/null | grep key
cat /data/deep/file; touch /data/deep/x 2>/dev/null && echo wrote ro
touch /made/by/us/x && echo mount
test -r /etc/passwd && test -x /usr/bin/env && echo machine`
	text, exit := o.run(carapace.Spec{Rootfs: "host", Scratch: scratch, Hide: []string{hidden},
		Command: []string{"sh", "-c", script},
		Mounts: []carapace.Mount{
			{Source: secret, Target: "/data/deep", ReadOnly: true}, {Source: open, Target: "/made/by/us"},
		}})
	want := "65534\n/scratch\nscratch\ntemporary\nfilemount\nmachine\n"
	if exit.Code != 0 || text != want {
		t.Errorf("exit %+v\ngot  %q\nwant %q", exit, text, want)
	}
	if _, err := os.Stat(filepath.Join(scratch, "made")); err != nil {
		t.Error(err)
	}
}

func TestHiddenCannotBeMounted(t *testing.T) {
	o := newOwn(t)
	hidden := t.TempDir()
	if err := os.Mkdir(filepath.Join(hidden, "below"), 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(hidden, link); err != nil {
		t.Fatal(err)
	}
	for _, source := range []string{hidden, filepath.Join(hidden, "below"), filepath.Dir(hidden), "/", link} {
		spec := hostSleep("")
		spec.Hide, spec.Mounts = []string{hidden}, []carapace.Mount{{Source: source, Target: "/tmp/x"}}
		container, err := carapace.Start(spec, o.options)
		if err == nil {
			_ = container.Kill()
			container.Wait()
		}
		if failure := new(carapace.StartError); !errors.As(err, &failure) || failure.Code != 125 ||
			!strings.Contains(failure.Reason, "hidden") {
			t.Errorf("mount of %s: %v", source, err)
		}
	}
}

// TestHardening tries forbidden actions as nobody on the host view and as root in a rootfs.
func TestHardening(t *testing.T) {
	o := newOwn(t)
	if missing := able.Busybox(); missing != "" {
		t.Skip(missing)
	}
	if interpreter := interpreterOf(t, "/proc/self/exe"); interpreter != "" {
		t.Skipf("the probe is this test binary, and it needs %s, as the race detector's do: a bare rootfs has none; make "+
			"test runs it linked statically", interpreter)
	}
	words := []string{"unshare user", "unshare mount", "clone3 user", "mount", "bpf", "io_uring", "keyctl", "kexec",
		"reboot", "inject",
		"init memory", "init binary", "init root", "sysctl", "sysrq", "chroot"}
	for _, spec := range []carapace.Spec{
		{Rootfs: "host"}, {Rootfs: able.MakeRootfs(t)}, {Rootfs: able.MakeRootfs(t), ReadOnly: true},
		{Rootfs: "host", User: "0:0"},
	} {
		got := o.inside(spec, append(words, "cgroup")...)
		for _, word := range append(words, "cgroup") {
			if got[word] == "allowed" || got[word] == "" {
				t.Errorf("%s as %q: %s is %q", spec.Rootfs, spec.User, word, got[word])
			}
		}
		if got["io_uring"] != "ENOSYS" {
			t.Errorf("io_uring answers %s, so programs do not fall back", got["io_uring"])
		}
	}
	// Without seccomp, the other protections must suffice: the chroot prevents a new user namespace.
	got := o.inside(carapace.Spec{Rootfs: "host", Seccomp: "off"}, "unshare user", "clone3 user", "mount")
	for word, answer := range got {
		if answer == "allowed" {
			t.Errorf("without seccomp: %s is allowed", word)
		}
	}
	if got := o.inside(carapace.Spec{Rootfs: "host", Seccomp: carapace.SeccompNUMA}, "mbind",
		"bpf"); got["mbind"] != "allowed" || got["bpf"] == "allowed" {
		t.Errorf("where tasks may place their memory: %v", got)
	}
	// Granted actions succeed, which shows that the probes work.
	if got := o.inside(carapace.Spec{Rootfs: able.MakeRootfs(t), CapAdd: []string{"SYS_CHROOT"}}, "chroot",
		"write root"); got["chroot"] != "allowed" || got["write root"] != "allowed" {
		t.Errorf("what was granted: %v", got)
	}
}

func TestRights(t *testing.T) {
	o := newOwn(t)
	status := func(spec carapace.Spec, names ...string) string {
		spec.Rootfs = "host"
		spec.Command = []string{"grep", "-E", "^(" + strings.Join(names, "|") + "):", "/proc/self/status"}
		text, exit := o.run(spec)
		if exit.Code != 0 {
			t.Fatalf("%+v: %s", exit, text)
		}
		return strings.Join(strings.Fields(text), " ")
	}
	for _, c := range []struct {
		spec carapace.Spec
		want string
	}{
		{carapace.Spec{}, "CapEff: 0000000000000000 NoNewPrivs: 1 Seccomp: 2"},
		{carapace.Spec{User: "0"}, "CapEff: 00000000000005fb NoNewPrivs: 1 Seccomp: 2"},
		{carapace.Spec{User: "0", CapDrop: []string{"ALL"}}, "CapEff: 0000000000000000 NoNewPrivs: 1 Seccomp: 2"},
		{carapace.Spec{User: "0", CapDrop: []string{"ALL"}, CapAdd: []string{"KILL"}},
			"CapEff: 0000000000000020 NoNewPrivs: 1 Seccomp: 2"},
		{carapace.Spec{CapAdd: []string{"CAP_NET_RAW"}, Seccomp: "off"}, "CapEff: 0000000000002000 NoNewPrivs: 1 Seccomp: 0"},
		{carapace.Spec{NoInit: true}, "CapEff: 0000000000000000 NoNewPrivs: 1 Seccomp: 2"},
		{carapace.Spec{NoInit: true, CapAdd: []string{"NET_RAW"}}, "CapEff: 0000000000002000 NoNewPrivs: 1 Seccomp: 2"},
	} {
		if got := status(c.spec, "CapEff", "NoNewPrivs", "Seccomp"); got != c.want {
			t.Errorf("%+v\ngot  %s\nwant %s", c.spec, got, c.want)
		}
	}
	if got := status(carapace.Spec{User: "7:8", Groups: []uint32{44, 45}}, "Uid", "Gid",
		"Groups"); got != "Uid: 7 7 7 7 Gid: 8 8 8 8 Groups: 44 45" {
		t.Errorf("user and groups: %s", got)
	}
	text, _ := o.run(carapace.Spec{Rootfs: "host", User: "0",
		Command: []string{"sh", "-c", "ulimit -n; ulimit -l; ulimit -c; ulimit -v"},
		Rlimits: []carapace.Rlimit{{Name: "nofile", Soft: 77, Hard: 99}, {Name: "memlock", Soft: 65536, Hard: 65536},
			{Name: "core", Soft: 0, Hard: 0},
			{Name: "as", Soft: 64 << 20, Hard: 64 << 20}}}) // less than its starter's own
	if text != "77\n64\n0\n65536\n" {
		t.Errorf("limits: %q", text)
	}
}

// TestLimitsHold reads the limits from inside, in the usual places.
func TestLimitsHold(t *testing.T) {
	o := newOwn(t)
	for _, lost := range []string{"memory limit", "pids limit", "cpu limit", "cpuset"} {
		if reason := o.lacking[lost]; reason != "" {
			t.Skipf("%s: %s", lost, reason)
		}
	}
	spec := carapace.Spec{Rootfs: "host", Limits: carapace.Limits{
		MemoryBytes: 64 << 20, Pids: 50, MilliCPU: 500, Cpuset: "0", Required: true,
	}, ShmBytes: 8 << 20,
		Command: []string{"sh", "-c", `cd /sys/fs/cgroup
cat memory/memory.limit_in_bytes pids/pids.max cpu/cpu.cfs_quota_us cpuset/cpuset.cpus memory.max pids.max cpu.max cpuset.cpus 2>/dev/null
grep Cpus_allowed_list /proc/self/status; df -k /dev/shm | tail -1; cat /proc/self/cgroup`}}
	text, exit := o.run(spec)
	for _, want := range []string{"67108864\n", "\n50\n", "50000", "\n0\n", "Cpus_allowed_list:\t0\n", " 8192 "} {
		if !strings.Contains(text, want) {
			t.Errorf("exit %+v: no %q in %s", exit, want, text)
		}
	}
	if strings.Contains(text, o.options.Cgroups.Parent) {
		t.Errorf("the task sees its path on the host: %s", text)
	}
}

func TestStartTwiceIsOneStart(t *testing.T) {
	o := newOwn(t)
	id := NewID()
	first := o.start(hostSleep(id))
	_, err := carapace.Start(hostSleep(id), o.options)
	if !errors.Is(err, carapace.ErrExists) {
		t.Fatalf("the second start: %v", err)
	}
	stats, err := first.Stats()
	if err != nil || stats.Processes != 1 {
		t.Errorf("the first one has %+v (%v)", stats, err)
	}
	if gone, err := first.Gone(); gone || err != nil {
		t.Errorf("gone: %v (%v)", gone, err)
	}
	_ = first.Kill()
	if exit := first.Wait(); exit.Code != 137 || exit.Reason == "" {
		t.Errorf("%+v", exit)
	}
	if gone, err := first.Gone(); !gone || err != nil {
		t.Errorf("gone: %v (%v)", gone, err)
	}
	second := o.start(hostSleep(id)) // The id is free again.
	_ = second.Kill()
}

// TestStuckTask uses a frozen process for one that hangs in the kernel and does not die of SIGKILL. It is not reported
// as gone, and its id is not reused.
func TestStuckTask(t *testing.T) {
	o := newOwn(t)
	able.Need(t, able.Freezer)
	id := NewID()
	container := o.start(hostSleep(id))
	thaw := freeze(t, childOf(t, container.Pid()))
	_ = container.Kill()
	select {
	case <-container.Done():
		t.Fatal("done, though a process of it is left")
	case <-time.After(300 * time.Millisecond):
	}
	if gone, _ := container.Gone(); gone {
		t.Error("reported as gone")
	}
	if _, err := carapace.Start(hostSleep(id), o.options); !errors.Is(err, carapace.ErrExists) {
		t.Errorf("its id was given away: %v", err)
	}
	if swept, err := carapace.GC(o.options.StateDir, o.options.Cgroups); len(swept) > 0 || err != nil {
		t.Errorf("swept %v (%v)", swept, err)
	}
	thaw()
	container.Wait()
}

// childOf returns the first child of a process.
func childOf(t testing.TB, pid int) string {
	t.Helper()
	for range 1000 {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
		for _, task := range tasks {
			if text, _ := os.ReadFile(task); len(text) > 0 {
				return strings.Fields(string(text))[0]
			}
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("process %d has no child", pid)
	return ""
}

func TestSignalByID(t *testing.T) {
	o := newOwn(t)
	container := o.start(hostSleep(NewID()))
	if err := carapace.SignalID(o.options.StateDir, container.ID(), unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if exit := container.Wait(); exit.Code != 143 {
		t.Errorf("%+v", exit)
	}
	if err := carapace.SignalID(o.options.StateDir, container.ID(), unix.SIGTERM); !errors.Is(err, carapace.ErrNotFound) {
		t.Errorf("a signal to a missing container: %v", err)
	}
}

// TestPidReuse checks a record whose pid now belongs to another process. Neither a signal nor a sweep may affect that
// process.
func TestPidReuse(t *testing.T) {
	o := newOwn(t)
	bystander := exec.Command("sleep", "1000")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bystander.Process.Kill(); _ = bystander.Wait() })
	time.Sleep(30 * time.Millisecond) // start times have a resolution of 10 ms
	container := o.start(hostSleep(NewID()))
	file := filepath.Join(o.options.StateDir, container.ID(), "state.json")
	var state carapace.State
	readJSON(t, file, &state)
	state.Pid = bystander.Process.Pid
	writeJSON(t, file, state)
	if err := carapace.SignalID(o.options.StateDir, container.ID(), unix.SIGKILL); !errors.Is(err, carapace.ErrNotFound) {
		t.Errorf("a signal to a pid that is another's: %v", err)
	}
	_ = container.Kill()
	container.Wait()
	// The same holds for the remains of a dead container, and for a record of the previous boot.
	for _, boot := range []string{state.BootID, "an-earlier-boot"} {
		state.BootID = boot
		folder := filepath.Join(o.options.StateDir, state.ID)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		writeJSON(t, filepath.Join(folder, "state.json"), state)
		if swept, err := carapace.GC(o.options.StateDir, o.options.Cgroups); err != nil ||
			!slices.Equal(swept, []string{state.ID}) {
			t.Errorf("swept %v (%v)", swept, err)
		}
	}
	if err := bystander.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the bystander: %v", err)
	}
}

func readJSON(t testing.TB, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func writeJSON(t testing.TB, path string, value any) {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, string(text), 0o600)
}
