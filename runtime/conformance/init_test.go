//go:build linux

// This file tests the container's init and its children. init is a fork of the starter that must keep nothing of the
// starter, and must not affect the task.
package conformance

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/test/able"
)

// TestOwnBinaryIsNotExecuted checks that a task cannot execute the host's carapace binary. A root task could otherwise
// write to the binary, which the host executes later. The binary can be named as the command, behind a link, or as a
// script's interpreter.
func TestOwnBinaryIsNotExecuted(t *testing.T) {
	o := newOwn(t)
	if missing := able.Busybox(); missing != "" {
		t.Skip(missing)
	}
	rootfs := able.MakeRootfs(t)
	if err := os.Symlink("/proc/self/exe", filepath.Join(rootfs, "bin/link")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(rootfs, "bin/script"), "#!/proc/self/exe "+probeArgument+"\n", 0o755)
	for _, command := range []string{"/proc/self/exe", "/bin/link", "/bin/script"} {
		for _, noInit := range []bool{false, true} {
			container, err := carapace.Start(carapace.Spec{
				Rootfs: rootfs, Command: []string{command, probeArgument}, NoInit: noInit,
			}, o.options)
			if err == nil {
				t.Errorf("%s (without init: %v) ran and ended with %+v", command, noInit, container.Wait())
				continue
			}
			if failure := new(carapace.StartError); !errors.As(err, &failure) || failure.Code != 126 && failure.Code != 127 {
				t.Errorf("%s: %v", command, err)
			}
		}
	}
}

// TestSignalsOfTheCommand checks that the command starts with no signal blocked or ignored, regardless of its starter.
func TestSignalsOfTheCommand(t *testing.T) {
	o := newOwn(t)
	signal.Ignore(unix.SIGUSR2, unix.SIGPIPE)
	defer signal.Reset(unix.SIGUSR2, unix.SIGPIPE)
	for _, noInit := range []bool{false, true} {
		text, exit := o.run(carapace.Spec{
			Rootfs: "host", NoInit: noInit, Command: []string{"grep", "-E", "^(Sig(Blk|Ign|Pnd)|ShdPnd)", "/proc/self/status"},
		})
		if exit.Code != 0 || strings.Count(text, "0000000000000000") != 4 {
			t.Errorf("without init: %v: %+v\n%s", noInit, exit, text)
		}
	}
}

// TestSlackOfTheCommand checks that the command has the timer slack of its starter's main thread, regardless of the
// starter's other threads.
func TestSlackOfTheCommand(t *testing.T) {
	o := newOwn(t)
	usual, err := os.ReadFile("/proc/self/timerslack_ns")
	if err != nil {
		t.Fatal(err)
	}
	setSlack(t, "3000000\n")
	defer setSlack(t, string(usual))
	for _, noInit := range []bool{false, true} {
		text, exit := o.run(carapace.Spec{
			Rootfs: "host", NoInit: noInit, Command: []string{"cat", "/proc/self/timerslack_ns"},
		})
		if exit.Code != 0 || text != string(usual) {
			t.Errorf("without init: %v: %+v\n%s", noInit, exit, text)
		}
	}
}

// setSlack sets the slack of all threads except the main one, which defines the starter's slack.
func setSlack(t *testing.T, slack string) {
	t.Helper()
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		if thread.Name() == fmt.Sprint(os.Getpid()) {
			continue
		}
		err := os.WriteFile(filepath.Join("/proc", thread.Name(), "timerslack_ns"), []byte(slack), 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) { // it has ended
			t.Fatal(err)
		}
	}
}

// TestSignalAtOnce checks that an early signal waits for the command and is not lost.
func TestSignalAtOnce(t *testing.T) {
	o := newOwn(t)
	for round := range 20 {
		options := o.options
		if round%2 == 0 {
			options.OnEvent = func(event carapace.Event) {
				if event.Event == carapace.EventCreated {
					if err := unix.Kill(event.Pid, unix.SIGTERM); err != nil {
						t.Error(err)
					}
				}
			}
		}
		container, err := carapace.Start(hostSleep(""), options)
		if err != nil {
			t.Fatal(err)
		}
		if round%2 == 1 {
			if err := container.Signal(unix.SIGTERM); err != nil {
				t.Error(err)
			}
		}
		if exit := container.Wait(); exit.Code != 143 {
			t.Errorf("round %d: %+v", round, exit)
		}
	}
}

// TestKilledWhileMade checks that the kill of an init before its command runs is reported as such and leaves nothing
// behind.
func TestKilledWhileMade(t *testing.T) {
	o := newOwn(t)
	for _, noInit := range []bool{false, true} {
		options := o.options
		options.OnEvent = func(event carapace.Event) {
			if event.Event == carapace.EventCreated {
				_ = unix.Kill(event.Pid, unix.SIGKILL)
			}
		}
		spec := hostSleep("")
		spec.NoInit = noInit
		_, err := carapace.Start(spec, options)
		if failure := new(carapace.StartError); !errors.As(err, &failure) || failure.Code != 137 {
			t.Errorf("without init: %v: %v", noInit, err)
		}
	}
}

// TestKilledAtExec checks that the kill of a command without an init is reported as such, even while its binary is
// checked.
func TestKilledAtExec(t *testing.T) {
	o := newOwn(t)
	for round := range 100 {
		options := o.options
		options.OnEvent = func(event carapace.Event) {
			if event.Event != carapace.EventCreated {
				return
			}
			pidfd, err := unix.PidfdOpen(event.Pid, 0)
			if err != nil {
				t.Error(err)
				return
			}
			go killTraced(event.Pid, pidfd)
		}
		spec := hostSleep("")
		spec.NoInit = true
		code := 0
		container, err := carapace.Start(spec, options)
		if failure := new(carapace.StartError); errors.As(err, &failure) {
			code = failure.Code
		} else {
			_ = container.Kill() // it was too late
			code = container.Wait().Code
		}
		if code != 137 {
			t.Fatalf("round %d: code %d, %v", round, code, err)
		}
	}
}

// killTraced kills a process as soon as it is stopped for its tracer.
func killTraced(pid, pidfd int) {
	defer unix.Close(pidfd)
	for range 10_000 {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return
		}
		if _, rest, found := strings.Cut(string(text), ") "); found && rest[0] == 't' {
			_ = unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0)
			return
		}
	}
}

// TestInitHoldsNothing checks that init has only one socket of its starter's files, and almost none of its memory.
func TestInitHoldsNothing(t *testing.T) {
	o := newOwn(t)
	ballast := make([]byte, 64<<20)
	for i := 0; i < len(ballast); i += 4096 {
		ballast[i] = 1
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	options := o.options
	options.Stdout = writer
	container, err := carapace.Start(carapace.Spec{
		Rootfs: "host", Command: []string{"sh", "-c", "exec >&-; sleep 1000"},
	}, options)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = container.Kill()
		container.Wait()
	}()
	writer.Close()
	_ = reader.SetReadDeadline(time.Now().Add(limit))
	if _, err := io.ReadAll(reader); err != nil {
		t.Errorf("init keeps the command's output open: %v", err)
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", container.Pid()))
	if err != nil || len(files) != 1 {
		t.Errorf("init has %v (%v)", files, err)
	}
	runtime.KeepAlive(ballast)
	if interpreterOf(t, "/proc/self/exe") != "" {
		t.Log("built with cgo, so init keeps the memory of its starter: make test looks at it without")
		return
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", container.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		var kib int
		if _, err := fmt.Sscanf(line, "RssAnon: %d kB", &kib); err == nil && kib > 2048 {
			t.Errorf("init holds %d KiB", kib)
		}
	}
}

// TestStarterStaysAtHome checks that the thread that made a container returns to its namespaces, and that no other
// thread ever left them.
func TestStarterStaysAtHome(t *testing.T) {
	o := newOwn(t)
	container := o.start(hostSleep(""))
	for _, what := range []string{"ns/mnt", "ns/uts", "ns/ipc", "root", "cwd"} {
		want, err := os.Readlink(filepath.Join("/proc/self", what))
		if err != nil {
			t.Fatal(err)
		}
		threads, err := filepath.Glob("/proc/self/task/*")
		if err != nil || len(threads) < 2 {
			t.Fatalf("threads %q (%v)", threads, err)
		}
		for _, thread := range threads {
			if got, err := os.Readlink(filepath.Join(thread, what)); err == nil && got != want { // a thread may have ended
				t.Errorf("%s of %s is %s, not %s", what, thread, got, want)
			}
		}
	}
	if name, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", container.Pid())); err != nil || name == "" {
		t.Errorf("init's mounts: %q (%v)", name, err)
	}
}

// TestUmask checks that the umask of the starter does not affect the container.
func TestUmask(t *testing.T) {
	o := newOwn(t)
	before := unix.Umask(0o077)
	defer unix.Umask(before)
	text, exit := o.run(carapace.Spec{
		Rootfs: "host", Command: []string{"sh", "-c", "umask; ls / /dev/shm /usr >/dev/null && echo open"},
	})
	if exit.Code != 0 || text != "0022\nopen\n" {
		t.Errorf("%+v: %q", exit, text)
	}
	if now := unix.Umask(0o077); now != 0o077 {
		t.Errorf("the starter's own is %#o", now)
	}
}

// TestGivenUpStart checks that a start beyond its timeout is refused and undone.
func TestGivenUpStart(t *testing.T) {
	o := newOwn(t)
	options := o.options
	options.StartTimeout = time.Nanosecond
	for range 5 {
		started, err := carapace.Start(hostSleep(""), options)
		if err == nil { // it started before its starter ran again
			if err := started.Kill(); err != nil {
				t.Error(err)
			}
			started.Wait()
			continue
		}
		if failure := new(carapace.StartError); !errors.As(err, &failure) || failure.Code != 125 ||
			!errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%v", err)
		}
	}
	until(t, "what was made is left", func() bool {
		left, err := o.Leavings()
		return err == nil && len(left) == 0
	})
}

// TestClosedStreams checks a starter that has closed its own streams, so that other files get their numbers.
func TestClosedStreams(t *testing.T) {
	o := newOwn(t)
	var kept [3]int
	for fd := range kept {
		var err error
		if kept[fd], err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 100); err != nil {
			t.Fatal(err)
		}
	}
	defer func() {
		for fd, from := range kept {
			_ = unix.Dup3(from, fd, 0)
			unix.Close(from)
		}
	}()
	for fd := range kept {
		unix.Close(fd)
	}
	for _, noInit := range []bool{false, true} {
		text, exit := o.run(carapace.Spec{
			Rootfs: "host", NoInit: noInit, Command: []string{
				"sh", "-c", "cat; echo out; echo err >&2; ls /proc/self/fd | wc -w",
			},
		})
		if exit.Code != 0 || text != "out\nerr\n4\n" {
			t.Errorf("without init: %v: %+v: %q", noInit, exit, text)
		}
	}
}

// TestForkUnderCollection forks while the garbage collector works continuously, because a fork copies the memory in
// whatever state it is.
func TestForkUnderCollection(t *testing.T) {
	o := newOwn(t)
	defer debug.SetGCPercent(debug.SetGCPercent(1))
	over := make(chan struct{})
	var garbage sync.WaitGroup
	garbage.Go(func() {
		var kept [64]*[1024]*int
		for i := 0; ; i++ {
			select {
			case <-over:
				return
			default:
				kept[i%len(kept)] = new([1024]*int)
				runtime.Gosched()
			}
		}
	})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 8 {
				container, err := carapace.Start(carapace.Spec{Rootfs: "host", Command: []string{"sh", "-c", "exit 9"}}, o.options)
				if err != nil {
					t.Error(err)
				} else if exit := container.Wait(); exit.Code != 9 {
					t.Errorf("%+v", exit)
				}
			}
		})
	}
	group.Wait()
	close(over)
	garbage.Wait()
}

// TestRefusedSteps checks that a failure in the fork is reported with its step and its reason.
func TestRefusedSteps(t *testing.T) {
	o := newOwn(t)
	for _, c := range []struct {
		change func(*carapace.Spec)
		code   int
		step   string
		reason string
	}{
		{func(s *carapace.Spec) { s.Rlimits = []carapace.Rlimit{{Name: "nofile", Soft: 1 << 40, Hard: 1 << 40}} }, 125,
			"rlimits", "nofile"},
		{func(s *carapace.Spec) { s.Workdir = "/etc/passwd" }, 125, "workdir", "/etc/passwd"},
		{func(s *carapace.Spec) { s.Command = []string{"/etc"} }, 126, "exec", "/etc"},
		{func(s *carapace.Spec) { s.Env = []string{"LONG=" + strings.Repeat("x", 1<<17-5)} }, 125, "exec", "too long"},
	} {
		for _, noInit := range []bool{false, true} {
			spec := hostSleep("")
			spec.NoInit = noInit
			c.change(&spec)
			container, err := carapace.Start(spec, o.options)
			if err == nil {
				_ = container.Kill()
				container.Wait()
			}
			if failure := new(carapace.StartError); !errors.As(err, &failure) || failure.Code != c.code ||
				failure.Step != c.step || !strings.Contains(failure.Reason, c.reason) {
				t.Errorf("without init: %v: %v", noInit, err)
			}
		}
	}
}

// TestKilledInExec checks that the kernel kills a command in its exec if its arguments exceed its memory.
func TestKilledInExec(t *testing.T) {
	o := newOwn(t)
	if why := o.Lacks(Memory); why != "" {
		t.Skip(why)
	}
	much := strings.Repeat("x", 120_000)
	for _, noInit := range []bool{false, true} {
		spec := carapace.Spec{Rootfs: "host", NoInit: noInit, Command: []string{"/bin/true", much, much, much, much, much}}
		spec.Limits.MemoryBytes = 512 << 10
		container, err := carapace.Start(spec, o.options)
		if failure := new(carapace.StartError); !errors.As(err, &failure) || failure.Code != 137 {
			t.Errorf("without init: %v: %v", noInit, err)
		}
		if container != nil {
			container.Wait()
		}
	}
}
