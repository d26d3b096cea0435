package sqlite

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/topology"
)

// This file owns the tests that acknowledged writes are on disk. A transaction is synced before Apply returns, and a
// killed process has lost nothing that it acknowledged.

// writerEnv is the environment variable that makes this test's binary the writing process. Its value is the path of the
// file.
const writerEnv = "SYNAPSE_SQLITE_TEST_WRITER"

// TestWriterProcess is not a test but that process. It prints each job's ID after its acknowledgement, and stops when
// its input ends.
func TestWriterProcess(t *testing.T) {
	path := os.Getenv(writerEnv)
	if path == "" {
		return
	}
	s, err := Open(path)
	if err != nil {
		fmt.Println("refused:", err)
		return
	}
	epoch, err := s.Lead("writer")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("leading")
	in := bufio.NewScanner(os.Stdin)
	for n := uint64(1); in.Scan(); n++ {
		for i := range uint64(50) {
			id := fmt.Sprintf("j-%d-%d", epoch, n*50+i)
			if _, err := s.Apply(epoch, []actors.Change{{Job: submitted(epoch, id, n*50+i)}}); err != nil {
				t.Fatal(err)
			}
			fmt.Println("stored", id)
		}
		fmt.Println("paused")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// writerProcess starts that process, alone or under another program.
func writerProcess(t *testing.T, path string, under ...string) (cmd *exec.Cmd, in io.WriteCloser, out *bufio.Scanner) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := append(under, self, "-test.run=^TestWriterProcess$")
	cmd = exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Env = append(os.Environ(), writerEnv+"="+path)
	cmd.WaitDelay = 10 * time.Second
	if in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, in, bufio.NewScanner(pipe)
}

// until reads the process's lines up to one with this prefix.
func until(t *testing.T, out *bufio.Scanner, begins string) (lines []string) {
	t.Helper()
	for out.Scan() {
		lines = append(lines, out.Text())
		if strings.HasPrefix(out.Text(), begins) {
			return lines
		}
	}
	t.Fatalf("the process printed\n%s\nand never %q", strings.Join(lines, "\n"), begins)
	return nil
}

func TestKilledProcessLosesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "synapse.db")
	r := rand.New(rand.NewPCG(1, 2))
	var acknowledged []string
	for range 4 {
		cmd, in, out := writerProcess(t, path)
		until(t, out, "leading")
		refused(t, path, fmt.Sprintf("in use by another synapse-scheduler (pid %d)", cmd.Process.Pid))
		if _, err := io.WriteString(in, "on\non\n"); err != nil {
			t.Fatal(err)
		}
		for range 1 + r.IntN(60) {
			line := until(t, out, "")[0]
			if id, ok := strings.CutPrefix(line, "stored "); ok {
				acknowledged = append(acknowledged, id)
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
	}
	s := opened(t, path)
	for _, id := range acknowledged {
		if _, _, err := s.Job(topology.JobID(id)); err != nil {
			t.Fatalf("job %s was acknowledged: %v", id, err)
		}
	}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
}

// TestAppliedIsSynced checks that the log was written and synced before each line that acknowledges a job.
func TestAppliedIsSynced(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skipf("the system calls cannot be watched: %v", err)
	}
	if out, err := exec.CommandContext(t.Context(), strace, "-f", "-e", "trace=fsync", "true").
		CombinedOutput(); err != nil {
		t.Skipf("strace may not trace here: %v: %s", err, out)
	}
	dir := t.TempDir()
	trace := filepath.Join(dir, "trace")
	cmd, in, out := writerProcess(t, filepath.Join(dir, "synapse.db"),
		strace, "-f", "-y", "-s", "64", "-o", trace, "-e", "trace=pwrite64,fsync,fdatasync,write")
	until(t, out, "leading")
	if _, err := io.WriteString(in, "on\n"); err != nil {
		t.Fatal(err)
	}
	said := len(until(t, out, "paused")) - 1
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, out, "PASS")
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	written := regexp.MustCompile(`pwrite64\(\d+<[^>]*synapse\.db-wal>`)
	// A call whose line another thread's line interrupts counts at the line that resumes it. Short process IDs are padded.
	begun := regexp.MustCompile(`^(\d+) .*f(?:data)?sync\(\d+<[^>]*synapse\.db-wal> <unfinished`)
	synced := regexp.MustCompile(`f(?:data)?sync\(\d+<[^>]*synapse\.db-wal>\) += 0`)
	resumed := regexp.MustCompile(`^(\d+) +<\.\.\. f(?:data)?sync resumed>\) += 0`)
	told := regexp.MustCompile(`write\(1<.*"stored `)
	var dirty, fresh bool
	var thread string // the thread that is syncing the log
	acknowledged := 0
	for line := range strings.Lines(string(text)) {
		if m := begun.FindStringSubmatch(line); m != nil {
			thread = m[1]
			continue
		}
		m := resumed.FindStringSubmatch(line)
		switch {
		case written.MatchString(line):
			dirty = true
		case m != nil && m[1] == thread:
			thread = ""
			fresh, dirty = fresh || dirty, false
		case synced.MatchString(line):
			fresh, dirty = fresh || dirty, false
		case told.MatchString(line):
			if dirty || !fresh {
				t.Fatalf("acknowledged before the log was synced (written %v, synced %v): %s", dirty, fresh, line)
			}
			fresh = false
			acknowledged++
		}
	}
	if acknowledged != said || said == 0 {
		t.Fatalf("%d jobs were acknowledged, and the trace shows %d", said, acknowledged)
	}
}
