package e2e

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests a cluster of `up`: it becomes ready, its parts may die like nodes, and nothing of it is left when it
// ends.

// local is an `up` and the cluster that it runs.
type local struct {
	*cluster
	cmd         *exec.Cmd
	out, errors *said
	ended       chan struct{}
}

// said holds the output of a process so far.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(data []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(data)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// up runs `up`, with all its state below a folder that only it knows.
func up(t *testing.T, args ...string) *local {
	t.Helper()
	t.Parallel()
	return upAgain(t, args...)
}

// upAgain runs `up` once more in the same test.
func upAgain(t *testing.T, args ...string) *local {
	t.Helper()
	return upAs(t, nil, args...)
}

// upAs runs `up` as another user.
func upAs(t *testing.T, as *syscall.Credential, args ...string) *local {
	t.Helper()
	dir, err := os.MkdirTemp("", "synapse-e2e-up-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // tasks run as other users
		t.Fatal(err)
	}
	l := &local{cluster: &cluster{t: t, dir: dir}, out: &said{}, errors: &said{}, ended: make(chan struct{})}
	if !slices.Contains(args, "--quiet") {
		args = append(args, "--verbose") // tests read the output of the processes
	}
	l.cmd = exec.Command(filepath.Join(bin, "synapse-cli"), append([]string{"up"}, args...)...)
	l.cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	if as != nil {
		l.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
		if err := os.Chown(dir, int(as.Uid), int(as.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	l.cmd.Stdout, l.cmd.Stderr = l.out, l.errors
	l.cmd.WaitDelay = time.Second
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = l.cmd.Wait() // ProcessState holds how it ended
		close(l.ended)
	}()
	t.Cleanup(func() {
		_ = l.cmd.Process.Kill()
		<-l.ended
		killAll(dir)
		os.RemoveAll(dir)
		if t.Failed() {
			t.Logf("up printed %q and\n%s", l.out, l.errors)
		}
	})
	return l
}

// telling waits until `up` has printed these words.
func (l *local) telling(words string) {
	l.t.Helper()
	for limit := time.Now().Add(patience); !strings.Contains(l.out.String()+l.errors.String(),
		words); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			l.t.Fatalf("up did not print %q within %s", words, patience)
		}
	}
}

var readyLine = regexp.MustCompile(`^ready: scheduler (127\.0\.0\.1:\d+), (\d+) nodes?, (\d+) GPUs?, (\d+) racks?\n$`)

// ready waits until the cluster is ready, and reads its settings from the file that it names.
func (l *local) ready(nodes, gpus, racks int) {
	l.t.Helper()
	l.telling("ready: ")
	l.telling(" rack")
	found := readyLine.FindStringSubmatch(l.out.String())
	if want := fmt.Sprintf("%d %d %d", nodes, gpus, racks); found == nil || strings.Join(found[2:], " ") != want {
		l.t.Fatalf("up printed %q, but has %s", l.out, want)
	}
	l.address = found[1]
	if keys := filepath.Join(filepath.Dir(l.settings()), "keys", "owner"); there(keys) {
		l.tls = keys
	}
	l.client = l.dial()
}

func there(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// settings returns the settings file that `up` prints for other commands.
func (l *local) settings() string {
	l.t.Helper()
	// It comes after the ready line, through another pipe.
	for limit := pace.Until(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		_, rest, _ := strings.Cut(l.errors.String(), "synapse-cli: export SYNAPSE_CONFIG=")
		if path, _, whole := strings.Cut(rest, "\n"); whole {
			return path
		}
		if time.Now().After(limit) {
			l.t.Fatalf("up printed no settings:\n%s", l.errors)
		}
	}
}

// part returns the PID of one of the cluster's processes, by its command line.
func (l *local) part(words ...string) int {
	l.t.Helper()
	found, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	want := strings.Join(words, "\x00") + "\x00"
	for _, path := range found {
		text, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(text), l.dir) && strings.Contains(string(text), want) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			if err != nil {
				l.t.Fatal(err)
			}
			return pid
		}
	}
	l.t.Fatalf("no process of this cluster has %q in its command line", words)
	return 0
}

// ends waits for the end, and checks its code, its time, and that nothing is left.
func (l *local) ends(code int, within time.Duration) {
	l.t.Helper()
	began := time.Now()
	select {
	case <-l.ended:
	case <-time.After(within):
		l.t.Fatalf("up did not end within %s", within)
	}
	l.t.Logf("up ended after %s", time.Since(began).Round(time.Millisecond))
	if got := l.cmd.ProcessState.ExitCode(); got != code {
		l.t.Errorf("up ended with %d, want %d", got, code)
	}
	if n := killAll(l.dir); n > 0 {
		l.t.Errorf("%d of its processes were left", n)
	}
	left, err := os.ReadDir(l.dir)
	if err != nil || len(left) > 0 {
		l.t.Errorf("its state %v is left (%v)", left, err)
	}
}

// TestUp starts four nodes in two racks with one command, which must work with only the printed settings. A node may
// die. Ctrl-C must end all others, and all tasks.
func TestUp(t *testing.T) {
	l := up(t, "--nodes", "4", "--racks", "2", "--gpus", "8")
	l.ready(4, 32, 2)
	cmd := l.command(filepath.Join(bin, "synapse-cli"), "get", "nodes", "--parsable", "--no-headers", "--sort", "name")
	cmd.Env = append(os.Environ(), "SYNAPSE_SERVER=", "SYNAPSE_TLS=", "SYNAPSE_CONFIG="+l.settings())
	rows := strings.Split(ask(t, cmd).wants(t, 0, "\n", "").out, "\n")
	if len(rows) != 5 {
		t.Fatalf("%q", rows)
	}
	for i, rack := range []string{"r1", "r1", "r2", "r2"} {
		if want := fmt.Sprintf("node-%d|up|local/%s|0/8|", i+1, rack); !strings.HasPrefix(rows[i], want) {
			t.Errorf("row %d is %q, want %q first", i, rows[i], want)
		}
	}
	l.cli(shell("exit 6", "--wait", "--gpus-per-task", "8", "-n", "2")...).wants(t, 6, "\n", " exited with code 6\n")
	runs := l.order("trap '' TERM; while :; do sleep 1; done", "-n", "1", "--gpu", "8")
	l.await(runs, "running")

	killed := "node-4"
	if l.job(runs).Attempt.Places[0].Node == killed {
		killed = "node-1"
	}
	if err := syscall.Kill(l.part("--id", killed), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	l.telling("synapse-cli: " + killed + " ended: signal: killed; the cluster continues without it\n")
	l.cli(shell("exit 0", "--wait")...).wants(t, 0, "\n", "succeeded")

	_ = l.cmd.Process.Signal(os.Interrupt)
	l.ends(0, 10*time.Second)
}

// TestUpTold checks that the signal of a service manager works like Ctrl-C.
func TestUpTold(t *testing.T) {
	l := up(t, "--nodes", "2", "--quiet")
	l.ready(2, 16, 1)
	l.await(l.order("exec sleep 600"), "running")
	_ = l.cmd.Process.Signal(syscall.SIGTERM)
	l.ends(0, 10*time.Second)
	if said := l.errors.String(); strings.Contains(said, "Starting Worker") ||
		!strings.Contains(said, "synapse-cli: terminated: stopping the cluster\n") {
		t.Errorf("it said\n%s", said)
	}
}

// TestUpTwice checks that a second Ctrl-C ends at once and leaves nothing either.
func TestUpTwice(t *testing.T) {
	t.Parallel()
	inTime(t, "the end of `up` by two interrupts", 2*time.Second, func() time.Duration { return endTwice(t) })
}

func endTwice(t *testing.T) time.Duration {
	l := upAgain(t, "--nodes", "1")
	l.ready(1, 8, 1)
	l.await(l.order("trap '' TERM; while :; do sleep 1; done"), "running")
	_ = l.cmd.Process.Signal(os.Interrupt)
	l.telling("stopping the cluster")
	began := time.Now()
	_ = l.cmd.Process.Signal(os.Interrupt)
	l.ends(0, patience)
	return time.Since(began) // an orderly end would take longer, because the task ignores SIGTERM
}

// TestUpWithoutScheduler checks that the cluster ends without its scheduler, and prints its last output.
func TestUpWithoutScheduler(t *testing.T) {
	l := up(t, "--nodes", "2")
	l.ready(2, 16, 1)
	l.await(l.order("exec sleep 600"), "running")
	if err := syscall.Kill(l.part("--levels", "zone,rack"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	l.ends(1, 10*time.Second)
	if said := l.errors.String(); !strings.Contains(said,
		"synapse-cli: scheduler ended: signal: killed\nhint: see its last log lines above\n") {
		t.Errorf("it said\n%s", said)
	}
}

// TestUpWherePortsAreTaken checks that the scheduler prints one clear line, and that its code is returned.
func TestUpWherePortsAreTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	l := up(t, "--nodes", "2", "--quiet", "--listen", taken.Addr().String())
	l.ends(1, 10*time.Second)
	want := fmt.Sprintf("  synapse-scheduler: --listen %s: the port is in use by another process\n"+
		"synapse-cli: scheduler ended: exit status 1\nhint: see its last log lines above\n", taken.Addr())
	if said := l.errors.String(); said != want || l.out.String() != "" {
		t.Errorf("up printed %q and %q, want %q", l.out, said, want)
	}
}
