package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests a cluster of `up` that is killed before it can end in order. Its tasks must be found by its
// directory, and no others.

// TestUpKilled checks that --clean, or the next cluster in the same named directory, ends what was left there. The next
// cluster must run the job again.
func TestUpKilled(t *testing.T) {
	l := up(t, "--nodes", "2", "--data-dir", filepath.Join(t.TempDir(), "cluster"))
	l.ready(2, 16, 1)
	dir := filepath.Dir(l.settings())
	t.Cleanup(func() { cleaned(t, dir) })
	mark := filepath.Join(t.TempDir(), "mark")
	l.await(l.order(fmt.Sprintf("(setsid sleep 600.%d &); sh -c 'sleep 600; :' %s", os.Getpid(), mark), "-n", "2",
		"--gpus-per-task", "8"), "running")

	// An editor also has the directory's name in its arguments, and is no task.
	stranger := exec.Command("sh", "-c", "sleep 600; :", dir+"/node-1/launcher")
	stranger.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(-stranger.Process.Pid, syscall.SIGKILL); _ = stranger.Wait() }()

	again := l.command(filepath.Join(bin, "synapse-cli"), "up", "--clean", "--data-dir", dir)
	ask(t, again).wants(t, 4, "", "a cluster is already running here")
	l.kill()
	if n := withWord(mark); n < 2 {
		t.Fatalf("only %d processes outlived the cluster, so this tests nothing", n)
	}
	again = l.command(filepath.Join(bin, "synapse-cli"), "up", "--clean", "--data-dir", dir)
	if said := ask(t, again).wants(t, 0, "processes ended\n", "").out; !regexp.MustCompile(`: [1-9]\d* processes ended\n$`).MatchString(said) {
		t.Errorf("it said %q", said)
	}
	if n := withWord(mark) + withWord(fmt.Sprintf("600.%d", os.Getpid())); n > 0 {
		t.Errorf("%d of the tasks' processes are left", n)
	}
	if err := stranger.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the stranger: %v", err)
	}
}

// cleaned removes what a test leaves of a cluster, with the command for that.
func cleaned(t *testing.T, dir string) {
	if out, err := exec.Command(filepath.Join(bin, "synapse-cli"), "up", "--clean", "--data-dir", dir).
		CombinedOutput(); err != nil {
		t.Errorf("up --clean: %v: %s", err, out)
	}
}

// TestUpKilledAndAgain checks that the next cluster in the directory ends what is left, and continues with the jobs.
func TestUpKilledAndAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cluster")
	l := up(t, "--nodes", "1", "--data-dir", dir)
	l.ready(1, 8, 1)
	id := l.order("exec sleep 600", "--gpu", "8")
	l.await(id, "running")
	t.Cleanup(func() { cleaned(t, dir) })
	l.kill()
	next := upAgain(t, "--nodes", "1", "--data-dir", dir)
	next.ready(1, 8, 1)
	next.telling(" processes left by the last cluster in " + dir + ", which was killed")
	for limit := pace.Until(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if s := next.job(id); s.Phase == "running" && s.Record.Runs == 2 {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("the job is not retried: %v", next.job(id))
		}
	}
}

// TestUpCleansTemporaries checks that clusters in temporary directories are also found and removed completely, and that
// a live cluster is left alone.
func TestUpCleansTemporaries(t *testing.T) {
	l := up(t, "--nodes", "1")
	l.ready(1, 8, 1)
	clean := func() string {
		c := l.command(filepath.Join(bin, "synapse-cli"), "up", "--clean")
		c.Env = append(os.Environ(), "TMPDIR="+l.dir)
		return ask(t, c).wants(t, 0, "", "").out
	}
	if said := clean(); said != "" {
		t.Errorf("with a live cluster --clean printed %q", said)
	}
	l.await(l.order("exec sleep 600"), "running")
	l.kill()
	if said := clean(); !strings.HasPrefix(said, l.dir) {
		t.Errorf("it said %q", said)
	}
	if left, err := os.ReadDir(l.dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left (%v)", left, err)
	}
	if n := killAll(l.dir); n > 0 {
		t.Errorf("%d processes are left", n)
	}
}

// kill kills `up` with SIGKILL, and waits until the processes that die with it are gone.
func (l *local) kill() {
	l.t.Helper()
	if err := l.cmd.Process.Kill(); err != nil {
		l.t.Fatal(err)
	}
	<-l.ended
	for limit := pace.Until(10 * time.Second); withWord("--data-dir\x00"+
		filepath.Dir(l.settings())) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			l.t.Fatal("the scheduler and the nodes do not die with it")
		}
	}
}

// withWord returns the number of processes with a word in their command lines.
func withWord(word string) int {
	n := 0
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), word) {
			n++
		}
	}
	return n
}

// TestUpKeepsCertificates checks that a certificate of a user stays valid after a restart in the same directory.
func TestUpKeepsCertificates(t *testing.T) {
	base := t.TempDir()
	dir, ann := filepath.Join(base, "cluster"), filepath.Join(base, "ann")
	l := up(t, "--nodes", "1", "--data-dir", dir)
	l.ready(1, 8, 1)
	t.Cleanup(func() { cleaned(t, dir) })
	l.cli("certify", "submitter", "ann", "--by", filepath.Join(dir, "keys", "scheduler"), "--out", ann).
		wants(t, 0, "", "is in")
	for _, restart := range []bool{false, true} {
		if restart {
			_ = l.cmd.Process.Signal(os.Interrupt)
			<-l.ended
			l = upAgain(t, "--nodes", "1", "--data-dir", dir)
			l.ready(1, 8, 1)
		}
		l.cli("--tls", ann, "whoami").wants(t, 0, "ann, submitter of cluster local", "")
	}
}
