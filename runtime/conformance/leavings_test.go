//go:build linux

// This file tests that nothing is left behind when starters die, disks fill up, or cgroups are in the way.
package conformance

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/test/able"
)

// TestStarterKilled kills `carapace run`. Its container dies with it, and a zombie starter counts as dead. Its sweeper
// removes the remains. If the sweeper is killed too, a sweep or the next start of the same id removes them.
func TestStarterKilled(t *testing.T) {
	o := newOwn(t)
	binary := buildCommand(t)
	for _, noInit := range []string{"--init=true", "--init=false"} {
		for _, after := range []string{
			"nothing", "the next start", "gc, for the sweeper is killed too", "the next start likewise",
		} {
			id := NewID()
			run := exec.Command(binary, "run", "--state-dir", o.options.StateDir, "--cgroup-parent",
				o.options.Cgroups.Parent, "--id", id, "--rootfs", "host", noInit, "--status-fd", "3", "--", "sleep", "1000")
			events, writer, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			run.ExtraFiles = []*os.File{writer}
			if err := run.Start(); err != nil {
				t.Fatal(err)
			}
			writer.Close()
			pid := untilStarted(t, events)
			init, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				t.Fatal(err)
			}
			sweeper := sweeperOf(t, run.Process.Pid)
			if strings.Contains(after, "likewise") || strings.Contains(after, "too") {
				if err := unix.Kill(sweeper, unix.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
			if err := run.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			// The starter is dead but not reaped, because a zombie must not count as alive.
			if err := unix.Waitid(unix.P_PID, run.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
				t.Fatal(err)
			}
			if !dies(init) {
				t.Errorf("%s: the container outlives its starter", noInit)
			}
			unix.Close(init)
			switch {
			case after == "nothing":
				until(t, "something is left of it", func() bool {
					left, err := o.Leavings()
					return err == nil && len(left) == 0
				})
			case strings.HasPrefix(after, "the next start"):
				container := o.start(hostSleep(id))
				_ = container.Kill()
				container.Wait()
			default:
				swept, err := carapace.GC(o.options.StateDir, o.options.Cgroups)
				if err != nil || !slices.Equal(swept, []string{id}) {
					t.Errorf("swept %v (%v)", swept, err)
				}
			}
			_ = run.Wait()
			events.Close()
		}
	}
}

// sweeperOf returns the process that waits for the end of a starter.
func sweeperOf(t testing.TB, starter int) (sweeper int) {
	t.Helper()
	until(t, "there is no sweeper", func() bool {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", starter))
		for _, task := range tasks {
			text, _ := os.ReadFile(task)
			for _, child := range strings.Fields(string(text)) {
				line, _ := os.ReadFile("/proc/" + child + "/cmdline") // Go has other children for a moment
				if strings.Contains(string(line), "\x00sweep-when-alone\x00") {
					sweeper, _ = strconv.Atoi(child)
				}
			}
		}
		return sweeper != 0
	})
	return sweeper
}

// dies waits for the process of a pidfd to end.
func dies(pidfd int) bool {
	poll := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
		if n, _ := unix.Poll(poll, 1000); n == 1 { // a signal of Go's runtime may interrupt it
			return true
		}
	}
	return false
}

// untilStarted reads events up to "started" and returns init's pid.
func untilStarted(t testing.TB, events *os.File) int {
	t.Helper()
	_ = events.SetReadDeadline(time.Now().Add(limit))
	pid := 0
	for lines := bufio.NewScanner(events); lines.Scan(); {
		var event carapace.Event
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			t.Fatal(err)
		}
		pid = max(pid, event.Pid)
		if event.Event == carapace.EventStarted {
			return pid
		}
	}
	t.Fatal("no started event")
	return 0
}

// TestEvents checks the events on a status descriptor and their order.
func TestEvents(t *testing.T) {
	o := newOwn(t)
	for _, c := range []struct {
		command []string
		memory  int64
		want    string
	}{
		{[]string{"sh", "-c", "exit 3"}, 0, "created started exited:3"},
		{[]string{"no-such-program"}, 0, "created exited:127"},
		{[]string{"tail", "/dev/zero"}, 32 << 20, "created started oom exited:137"},
	} {
		if c.memory > 0 && o.lacking["memory limit"] != "" {
			t.Logf("without the case of memory: %s", o.lacking["memory limit"])
			continue
		}
		var got []string
		options := o.options
		options.OnEvent = func(event carapace.Event) {
			word := event.Event
			if event.Exit != nil {
				word += fmt.Sprintf(":%d", event.Code)
			}
			got = append(got, word)
		}
		container, err := carapace.Start(carapace.Spec{
			Rootfs: "host", Command: c.command, Limits: carapace.Limits{MemoryBytes: c.memory},
		}, options)
		if err == nil {
			container.Wait()
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%q reported %q, not %q", c.command, text, c.want)
		}
	}
}

func TestTornRecord(t *testing.T) {
	o := newOwn(t)
	id := NewID()
	folder := filepath.Join(o.options.StateDir, id)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, torn := range []string{"", "{", `{"pid": "x"}`, strings.Repeat("\x00", 100)} {
		write(t, filepath.Join(folder, "state.json"), torn, 0o600)
		states, err := carapace.List(o.options.StateDir)
		if err != nil || len(states) != 1 || states[0].ID != id || states[0].Running {
			t.Errorf("%q: listed as %+v (%v)", torn, states, err)
		}
	}
	container := o.start(hostSleep(id)) // A torn record does not prevent a new start.
	_ = container.Kill()
	container.Wait()
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, "state.json"), "{", 0o600)
	if swept, err := carapace.GC(o.options.StateDir, o.options.Cgroups); err != nil || len(swept) != 1 {
		t.Errorf("swept %v (%v)", swept, err)
	}
}

// TestStateDiskFull checks that a start that cannot write its record is refused with the reason, and leaves nothing
// behind.
func TestStateDiskFull(t *testing.T) {
	o := newOwn(t)
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("no small disk can be mounted: %v", err)
	}
	defer func() {
		if err := unix.Unmount(disk, 0); err != nil {
			t.Error(err)
		}
	}()
	filler, err := os.Create(filepath.Join(disk, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = filler.Write(make([]byte, 4096))
	}
	filler.Close()
	options := o.options
	options.StateDir = filepath.Join(disk, "state")
	_, err = carapace.Start(hostSleep(""), options)
	if failure := new(carapace.StartError); !errors.As(err, &failure) || failure.Code != 125 ||
		!strings.Contains(failure.Reason, "no space") {
		t.Fatalf("on a full disk: %v", err)
	}
	if err := os.Remove(filepath.Join(disk, "filler")); err != nil {
		t.Fatal(err)
	}
	container, err := carapace.Start(hostSleep(""), options)
	if err != nil {
		t.Fatalf("with room again: %v", err)
	}
	_ = container.Kill()
	container.Wait()
	if states, err := carapace.List(options.StateDir); len(states) > 0 || err != nil {
		t.Errorf("left: %v (%v)", states, err)
	}
}

// TestCgroupBusy checks a start while a host process is in the container's group, and after a group of the same id was
// left with a process.
func TestCgroupBusy(t *testing.T) {
	for _, root := range []string{"/sys/fs/cgroup", able.UnifiedRoot()} {
		if root == "" {
			continue
		}
		t.Run(filepath.Base(root), func(t *testing.T) {
			o := newOwn(t)
			o.options.Cgroups.Root = root
			container := o.start(hostSleep(NewID()))
			left, err := o.Leavings()
			if err != nil {
				t.Fatal(err)
			}
			leaf := ""
			for _, place := range left {
				if strings.HasPrefix(place, "/") && !strings.Contains(place, "/cpuset/") {
					leaf = place
				}
			}
			if leaf == "" {
				t.Skip("no cgroup can be made here")
			}
			stranger := intruder(t, leaf)
			_ = container.Kill()
			if exit := container.Wait(); exit.Leftover != "" {
				t.Errorf("%+v", exit)
			}
			_ = stranger.Wait()
			// A leftover group with nested groups and a process.
			if err := os.MkdirAll(filepath.Join(leaf, "nested", "deep"), 0o755); err != nil {
				t.Fatal(err)
			}
			stranger = intruder(t, filepath.Join(leaf, "nested", "deep"))
			again := o.start(hostSleep(container.ID()))
			_ = stranger.Wait()
			_ = again.Kill()
			again.Wait()
		})
	}
}

// intruder starts a host process and moves it into a cgroup.
func intruder(t testing.TB, leaf string) *exec.Cmd {
	t.Helper()
	stranger := exec.Command("sleep", "1000")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stranger.Process.Kill() })
	if err := os.WriteFile(filepath.Join(leaf, "cgroup.procs"), []byte(fmt.Sprint(stranger.Process.Pid)), 0); err != nil {
		t.Fatal(err)
	}
	return stranger
}

// TestUnenforced checks that without usable cgroups a container starts and reports the missing limits. A container that
// requires its limits does not start.
func TestUnenforced(t *testing.T) {
	limits := carapace.Limits{MemoryBytes: 64 << 20, Pids: 10, MilliCPU: 1000}
	cases := map[string]string{"absent": t.TempDir(), "not delegated": able.UnifiedRoot(), "read-only": ""}
	for name, root := range cases {
		t.Run(name, func(t *testing.T) {
			o := newOwn(t)
			if name == "read-only" {
				root = readOnlyCgroups(t)
			}
			if root == "" {
				t.Skip("the host has no hierarchy for this test")
			}
			o.options.Cgroups.Root = root
			spec := carapace.Spec{Rootfs: "host", Command: []string{"true"}, Limits: limits}
			container, err := carapace.Start(spec, o.options)
			if err != nil {
				t.Fatal(err)
			}
			if exit := container.Wait(); exit.Code != 0 || exit.Leftover != "" {
				t.Errorf("%+v", exit)
			}
			text := strings.Join(container.Unenforced(), "; ")
			for _, lost := range []string{"memory limit: ", "pids limit: ", "cpu limit: "} {
				if !strings.Contains(text, lost) {
					t.Errorf("%q does not tell of the %s", text, lost)
				}
			}
			spec.Limits.Required = true
			_, err = carapace.Start(spec, o.options)
			if failure := new(carapace.StartError); !errors.As(err, &failure) || failure.Code != 125 ||
				failure.Step != "limits.required" {
				t.Errorf("required: %v", err)
			}
		})
	}
}

// readOnlyCgroups mounts the host's cgroups read-only at another path.
func readOnlyCgroups(t *testing.T) string {
	place := t.TempDir()
	if err := unix.Mount("/sys/fs/cgroup", place, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(place, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := unix.MountSetattr(unix.AT_FDCWD, place, unix.AT_RECURSIVE,
		&unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		t.Fatal(err)
	}
	return place
}

// TestSharedPropagation checks that no mount of a container propagates to a mount namespace with shared mounts. On most
// hosts, systemd makes every mount shared.
func TestSharedPropagation(t *testing.T) {
	o := newOwn(t)
	binary := buildCommand(t)
	counts := make(chan [2]int, 1)
	var failed error
	onLostThread(func() { // No other thread shares its mount namespace.
		defer close(counts)
		if failed = unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); failed != nil {
			return
		}
		// The mounts are first made private, so that the host does not get them, and then shared within the
		// namespace.
		if failed = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); failed != nil {
			return
		}
		if failed = unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); failed != nil {
			return
		}
		own := fmt.Sprintf("/proc/self/task/%d/mountinfo", unix.Gettid())
		count := func() int { text, _ := os.ReadFile(own); return strings.Count(string(text), "\n") }
		before := count()
		for range 3 {
			run := exec.Command(binary, "run", "--state-dir", o.options.StateDir, "--cgroup-parent", o.options.Cgroups.Parent,
				"--rootfs", "host", "--", "true")
			if text, err := run.CombinedOutput(); err != nil {
				failed = fmt.Errorf("%v: %s", err, text)
				return
			}
		}
		counts <- [2]int{before, count()}
	})
	got, ok := <-counts
	if !ok {
		t.Fatal(failed)
	}
	if got[0] != got[1] || got[0] == 0 {
		t.Errorf("%d mounts before, %d after", got[0], got[1])
	}
}

// onLostThread calls do on a thread that ends afterwards. It never uses the main thread, which cannot end and whose
// namespaces /proc/self shows.
func onLostThread(do func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			do()
			return
		}
		held := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(held)
			do()
		}()
		<-held
		runtime.UnlockOSThread()
	}()
}

// TestCallerElsewhere checks that a caller whose thread is in another mount namespace gets a container of the process's
// namespaces.
func TestCallerElsewhere(t *testing.T) {
	o := newOwn(t)
	folder := t.TempDir()
	failed := make(chan error, 1)
	onLostThread(func() {
		failed <- func() error {
			if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
				return err
			}
			if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
				return err
			}
			if err := unix.Mount("tmpfs", folder, "tmpfs", 0, ""); err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(folder, "elsewhere"), nil, 0o644); err != nil {
				return err
			}
			container, err := carapace.Start(carapace.Spec{Rootfs: "host", User: "0",
				Command: []string{"test", "-e", "/mnt-here/elsewhere"},
				Mounts:  []carapace.Mount{{Source: folder, Target: "/mnt-here"}}}, o.options)
			if err == nil && container.Wait().Code != 1 {
				err = errors.New("it sees what only the calling thread does")
			}
			return err
		}()
	})
	if err := <-failed; err != nil {
		t.Error(err)
	}
}
