package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/test/able"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests the meaning of an acknowledgement: the record is on disk before the answer, there is no answer
// without the disk, and an exit code survives the process that should report it.

// traced runs strace on a process, with the peers of every descriptor, until the returned function is called, which
// returns the lines.
func traced(t *testing.T, pid int, calls string) func() []string {
	t.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed (tools/ensure.sh strace)")
	}
	out := filepath.Join(t.TempDir(), "strace")
	cmd := exec.Command(strace, "-f", "-yy", "-s", "20000", "-e", "trace="+calls, "-o", out, "-p", strconv.Itoa(pid))
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
	for limit := pace.Until(10 * time.Second); !attached(pid); time.Sleep(10 * time.Millisecond) {
		select {
		case <-ended:
			t.Skipf("this host permits no tracing of processes: %s", said.String())
		default:
		}
		if time.Now().After(limit) {
			t.Fatal("strace does not attach")
		}
	}
	return func() []string {
		_ = cmd.Process.Signal(syscall.SIGINT)
		<-ended
		text, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(string(text), "\n")
	}
}

// attached reports whether every thread of a process is traced.
func attached(pid int) bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	for _, thread := range threads {
		text, _ := os.ReadFile(thread)
		if strings.Contains(string(text), "TracerPid:\t0\n") {
			return false
		}
	}
	return err == nil && len(threads) > 0
}

// seen returns the first line after another one that begins with a text, after the thread ID, and contains all words.
// It returns −1 if there is none.
func seen(lines []string, after int, begins string, words ...string) int {
next:
	for i := after + 1; i < len(lines); i++ {
		_, call, _ := strings.Cut(lines[i], " ")
		if !strings.HasPrefix(strings.TrimLeft(call, " "), begins) {
			continue
		}
		for _, word := range words {
			if !strings.Contains(lines[i], word) {
				continue next
			}
		}
		return i
	}
	return -1
}

// TestFsyncBeforeReply observes the system calls of one submit. The record must go into the write-ahead log, the log to
// the disk, and only then the answer to the client.
func TestFsyncBeforeReply(t *testing.T) {
	c := newClusterHere(t)
	c.submit(gang(1, 1, "exit 3"))
	stop := traced(t, c.scheduler.cmd.Process.Pid, "pwrite64,fsync,fdatasync,write,writev,sendto,sendmsg")
	id := c.submit(gang(1, 1, "true"))
	lines := stop()
	record := seen(lines, -1, "pwrite64(", "synapse.db-wal>", id)
	if record < 0 {
		t.Fatalf("job %s was acknowledged, but no write to the log contains its name in %d calls", id, len(lines))
	}
	sync := seen(lines, record, "f", "sync(", "synapse.db-wal>")
	done := sync
	if sync >= 0 && strings.Contains(lines[sync], "<unfinished ...>") {
		thread, _, _ := strings.Cut(lines[sync], " ")
		for done = sync + 1; done < len(lines); done++ {
			if strings.HasPrefix(lines[done], thread+" ") && strings.Contains(lines[done], "sync resumed>") {
				break
			}
		}
	}
	reply := seen(lines, -1, "write(", "TCP:[", id)
	if sync < 0 || done >= len(lines) || !strings.HasSuffix(lines[done], "= 0") {
		t.Fatalf("the log was not synced after the record of job %s", id)
	}
	if reply < 0 {
		t.Fatalf("no answer to the client names job %s", id)
	}
	t.Logf("call %d writes the record, %d syncs the log, %d is the answer", record, done, reply)
	if reply < done {
		t.Errorf("the client got its answer by call %d, but the record was on disk only with call %d:\n%.200s\n%.200s",
			reply, done, lines[reply], lines[done])
	}
}

// TestNoAnswerWithoutDisk freezes the file system under the scheduler. A submit must get no answer, a read must get
// one, and after the thaw the repeated request must create one job.
func TestNoAnswerWithoutDisk(t *testing.T) {
	disk := newDisk(t)
	c := newClusterHere(t, "--data-dir", filepath.Join(disk.mounted, "data"))
	c.submit(gang(1, 1, "exit 3"))
	t.Cleanup(disk.thaw) // before processes are ended that would wait for it
	disk.freeze(t)
	request := &messages.Submit{RequestId: "while-frozen", Spec: gang(1, 1, "true"), AllowInfeasible: true}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	answered := make(chan error, 1)
	go func() {
		_, err := c.client.Submit(ctx, request)
		answered <- err
	}()
	if reply, err := c.client.ListJobs(c.ctx(), &messages.ListJobs{}); err != nil || len(reply.Jobs) != 1 {
		t.Errorf("while the disk is frozen, %d jobs are listed: %v", len(reply.GetJobs()), err)
	}
	if err := <-answered; err == nil {
		t.Fatal("a submit was acknowledged although the disk is frozen")
	}
	disk.thaw()
	reply, err := c.client.Submit(c.ctx(), request)
	if err != nil {
		t.Fatalf("after the thaw: %v", err)
	}
	all, err := c.client.ListJobs(c.ctx(), &messages.ListJobs{})
	if err != nil || len(all.Jobs) != 2 {
		t.Errorf("two requests created %d jobs (%v); the second is %s", len(all.GetJobs()), err, reply.Job)
	}
}

// disk is a separate file system in a file.
type disk struct{ mounted string }

func newDisk(t *testing.T) *disk {
	t.Helper()
	able.Need(t, able.Mounts)
	d := &disk{}
	for _, program := range []string{"mkfs.ext4", "mount", "umount", "fsfreeze"} {
		able.Need(t, able.Program(program))
	}
	dir := t.TempDir()
	image := filepath.Join(dir, "image")
	d.mounted = filepath.Join(dir, "disk")
	if err := os.Mkdir(d.mounted, 0o755); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(image)
	if err == nil {
		err = file.Truncate(64 << 20)
		file.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", image).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
	if out, err := exec.Command("mount", "-o", "loop", image, d.mounted).CombinedOutput(); err != nil {
		t.Skipf("this host cannot mount a file: %s", out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", d.mounted).CombinedOutput(); err != nil {
			t.Errorf("the disk cannot be removed: %s", out)
		}
	})
	return d
}

func (d *disk) freeze(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("fsfreeze", "-f", d.mounted).CombinedOutput(); err != nil {
		t.Skipf("this host cannot freeze a file system: %s", out)
	}
}

// thaw may be called more than once.
func (d *disk) thaw() { _ = exec.Command("fsfreeze", "-u", d.mounted).Run() }

// TestExitOutlivesAgent kills the agent while a member's exit code cannot be reported. Users must later see the exact
// code.
func TestExitOutlivesAgent(t *testing.T) {
	c := newClusterHere(t)
	n := c.node("n1", "r1")
	go7 := filepath.Join(t.TempDir(), "go")
	if err := os.Chmod(filepath.Dir(go7), 0o777); err != nil {
		t.Fatal(err)
	}
	id := c.submit(gang(1, 1, "until test -e "+go7+"; do sleep 0.02; done; exit 7"))
	c.await(id, "running")
	c.scheduler.signal(syscall.SIGSTOP)
	if err := os.WriteFile(go7, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for limit := pace.Until(5 * time.Second); !strings.Contains(n.said(),
		"exited with code 7"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("the agent does not see the exit:\n%s", n.said())
		}
	}
	n.kill()
	c.agent("n1", "r1")
	c.scheduler.signal(syscall.SIGCONT)
	s := c.await(id, "failed")
	if p := s.Attempt.Places[0]; s.Record.ExitCode != 7 || s.Record.Runs != 1 ||
		p.Exit.GetKind() != messages.ExitKind_EXIT_KIND_EXITED || p.Exit.GetCode() != 7 {
		t.Errorf("the member exited with 7, but the job failed with %d after %d attempts; its exit is %v",
			s.Record.ExitCode, s.Record.Runs, p.Exit)
	}
}
