package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/supervisor"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests failures of processes and nodes.

// crash ends a node as a power loss would: its agent, its supervisors and all its tasks at once.
func (c *cluster) crash(n *process) {
	c.t.Helper()
	// every process of the node names it, or descends from a process that does
	folder := filepath.Join(c.dir, n.name)
	n.kill()
	for limit := pace.Until(5 * time.Second); time.Now().Before(limit); {
		if killAll(folder) == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.t.Fatalf("processes of %s are still there", n.name)
}

// killAll kills every process whose command line or environment names a folder, and returns their number.
func killAll(folder string) int {
	found := 0
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		words, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline")) // it may have ended since
		environ, _ := supervisor.Environ(pid)
		if bytes.Contains(append(words, environ...), []byte(folder)) && syscall.Kill(pid, syscall.SIGKILL) == nil {
			found++
		}
	}
	return found
}

// TestReaper checks that a node is declared dead after ten seconds of silence and not earlier, and that its gang runs
// again on another node.
func TestReaper(t *testing.T) {
	everywhere(t)
	t.Parallel()
	inTime(t, "the death of a machine", 10500*time.Millisecond, func() time.Duration { return reap(t) })
}

func reap(t *testing.T) time.Duration {
	c := newClusterOf(t, "")
	n := c.node("n1", "r1")
	id := c.submit(gang(1, 8, "exec sleep 120"))
	c.await(id, "running")
	c.node("n2", "r1")
	n.says(t, "Pulse sent")
	c.crash(n)
	var last time.Time
	// a report also proves that it is alive, so the last heartbeat is a lower bound
	for _, l := range c.scheduler.copy() {
		if strings.HasSuffix(l.text, "[GRPC] Heartbeat from n1") {
			last = l.at
		}
	}
	killed := time.Now()
	dead := c.scheduler.says(t, "REAPER: Node n1 is DEAD (Missed Heartbeats)")
	if after := dead.at.Sub(last); after < 10*time.Second-50*time.Millisecond {
		t.Errorf("declared dead %s after its last heartbeat", after)
	}
	s := c.until(id, "running on n2", func(s *messages.JobStatus) bool {
		return s.Phase == "running" && s.Attempt.Places[0].Node == "n2"
	})
	if len(s.Debts) != 1 || s.Debts[0] != "n1" {
		t.Errorf("unexpected unconfirmed allocations: %v", s.Debts)
	}
	if m := c.machine("n1"); m.Phase != "dead" {
		t.Errorf("n1 is %s", m.Phase)
	}

	// It returns without its tasks, which confirms the exits.
	c.node("n1", "r1")
	c.until(id, "without debts", func(s *messages.JobStatus) bool { return len(s.Debts) == 0 })
	return dead.at.Sub(killed)
}

func (p *process) copy() []logLine {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]logLine(nil), p.lines...)
}

// TestSchedulerAsleep checks that a pause of the scheduler kills no node.
func TestSchedulerAsleep(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "r1")
	id := c.submit(gang(1, 1, "exec sleep 120"))
	c.await(id, "running")
	c.scheduler.signal(syscall.SIGSTOP)
	time.Sleep(15 * time.Second)
	c.scheduler.signal(syscall.SIGCONT)
	time.Sleep(3 * time.Second)
	if strings.Contains(c.scheduler.said(), "is DEAD") {
		t.Error("a node was declared dead because of the scheduler's own silence")
	}
	if s := c.job(id); s.Phase != "running" || s.Record.Runs != 1 {
		t.Errorf("the gang is %s after %d attempts", s.Phase, s.Record.Runs)
	}
}

// TestAgentKilled checks that tasks continue without their agent, that the next agent adopts them, and that the exit
// code is exact.
func TestAgentKilled(t *testing.T) { eachDriver(t, agentKilled) }

func agentKilled(t *testing.T, c *cluster) {
	n := c.node("n1", "r1")
	folder := t.TempDir()
	wait := "while ! test -e " + folder + "/enough; do sleep 0.05; done; exit $((SYNAPSE_RANK * 7))"
	id := c.submit(writing(t, folder, gang(2, 1, wait)))
	c.await(id, "running")
	n.kill()
	c.node("n1", "r1")
	if err := os.WriteFile(filepath.Join(folder, "enough"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s := c.await(id, "failed")
	if s.Record.ExitCode != 7 { // as rank 1 of this job ends by itself
		t.Errorf("the job ended with code %d: %s", s.Record.ExitCode, s.Record.Outcome)
	}
	// If a node takes more than ten seconds to start the next agent, it is dead meanwhile, and its tasks run again.
	if s.Record.Runs != 1 && !strings.Contains(c.scheduler.said(), "is DEAD") {
		t.Errorf("the job ran %d times: %s", s.Record.Runs, s.Record.Outcome)
	}
}

// TestSchedulerKilled checks that running jobs continue, waiting jobs still wait, and acknowledged jobs exist.
func TestSchedulerKilled(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "r1")
	runs := c.submit(gang(1, 8, "sleep 5; exit 9"))
	c.await(runs, "running")
	waits := c.submit(gang(1, 8, "exit 0"))
	c.scheduler.kill()
	c.lead(c.address)
	c.client = c.dial()
	if s := c.await(runs, "failed"); s.Record.ExitCode != 9 || s.Record.Runs != 1 {
		t.Errorf("the job ended with code %d after %d attempts", s.Record.ExitCode, s.Record.Runs)
	}
	c.await(waits, "succeeded")
}

// TestSecondMachineOfAName checks that another host under a known ID is rejected, and that both sides log that.
func TestSecondMachineOfAName(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "r1")
	other := launch(t, "other", "synapse-node", "--join", c.address, "--data-dir", filepath.Join(c.dir, "other"), "--id",
		"n1", "--gpus", "0", "--address", "127.0.0.1")
	limit := pace.Until(10 * time.Second)
	for !strings.Contains(other.said(), "node already registered") ||
		!strings.Contains(c.scheduler.said(), "node already registered") {
		if time.Now().After(limit) {
			t.Fatal("no log says that the node is already registered")
		}
		time.Sleep(20 * time.Millisecond)
	}
	if m := c.machine("n1"); m.Phase != "up" {
		t.Errorf("the first node is %s", m.Phase)
	}
}

// TestEndings checks that a signal ends each process within five seconds, with the right code.
func TestEndings(t *testing.T) {
	c := newCluster(t)
	n := c.node("n1", "r1")
	for _, p := range []*process{n, c.scheduler} {
		p.signal(syscall.SIGTERM)
		select {
		case <-p.ended:
			if p.err != nil {
				t.Errorf("%s ended with %v", p.name, p.err)
			}
		case <-time.After(pace.Of(5 * time.Second)):
			t.Errorf("%s did not end within 5 s", p.name)
		}
	}
}

// TestRefusalsAtTheStart checks that a failed start prints one clear line, has the right code, and prints no stack.
func TestRefusalsAtTheStart(t *testing.T) {
	c := newCluster(t)
	for _, r := range []struct {
		program string
		args    []string
		code    int
		says    string
	}{
		{"synapse-scheduler", []string{"--listen", c.address, "--store", "memory"}, 1,
			"the port is in use by another process"},
		{"synapse-scheduler", []string{"--listen", "127.0.0.1:0", "--data-dir", filepath.Join(c.dir, "scheduler")}, 1,
			"in use by another"},
		{"synapse-scheduler", []string{"--lissen", "x"}, 2, "unknown flag: --lissen"},
		{"synapse-scheduler", []string{"--store", "floppy"}, 2, "--store \"floppy\""},
		{"synapse-node", nil, 2, "--join is missing"},
		{"synapse-node", []string{"--join", "nowhere"}, 2, "must be host:port"},
		{"synapse-node", []string{"--join", "h:1", "--memory", "8 GB"}, 2, "--memory \"8 GB\""},
		{"synapse-node", []string{"--join", "h:1", "--topology", "rack"}, 2, "must be key=value"},
	} {
		p := launch(t, r.program, r.program, r.args...)
		select {
		case <-p.silent: // but not before its last line has arrived through the pipe
		case <-time.After(pace.Of(15 * time.Second)):
			t.Errorf("%s %v did not end", r.program, r.args)
			continue
		}
		<-p.ended
		if said := p.said(); p.cmd.ProcessState.ExitCode() != r.code || !strings.Contains(said, r.says) ||
			strings.Contains(said, "goroutine") {
			t.Errorf("%s %v ended with %d and printed %q", r.program, r.args, p.cmd.ProcessState.ExitCode(), said)
		}
	}
}
