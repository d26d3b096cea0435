package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// This file owns the words that users have seen from the first day on.

func TestWordsOfJoining(t *testing.T) {
	c := newCluster(t)
	_, port, _ := strings.Cut(c.address, ":")
	c.scheduler.says(t, "Synapse Master running on :"+port+"...", time.Second)
	n := c.node("n1", "r1")
	n.says(t, "Starting Worker Node - ID: n1", time.Second)
	c.scheduler.says(t, fmt.Sprintf("[GRPC] RegisterWorker: ID=n1, CPU=64, RAM=%d", 512<<30), time.Second)
	n.says(t, "Pulse sent", time.Second)
	c.scheduler.says(t, "[GRPC] Heartbeat from n1", time.Second)
}

func TestWordsOfAJob(t *testing.T) { eachDriver(t, wordsOfAJob) }

func wordsOfAJob(t *testing.T, c *cluster) {
	n := c.node("n1", "r1")
	id := c.submit(gang(1, 1, "echo hello; exit 0"))
	c.scheduler.says(t, "[GRPC] Job Submitted: "+id+" (CPU: 1, GPU: 1)", time.Second)
	c.await(id, "succeeded", 10*time.Second)
	c.scheduler.says(t, "Successfully scheduled Job "+id+" to Nodes [n1]", time.Second)
	n.says(t, "STARTING CONTAINER: JobID="+id+", Image=host", time.Second)
	n.says(t, "Job "+id+" finished successfully", time.Second)
	if got := c.logs(id); got != "hello\n" {
		t.Errorf("its output is %q", got)
	}

	id = c.submit(gang(1, 1, "exit 3"))
	if s := c.await(id, "failed", 10*time.Second); s.Record.ExitCode != 3 || !strings.Contains(s.Record.Outcome, "n1") {
		t.Errorf("it ended as %v", s.Record)
	}
	n.says(t, "Job "+id+" failed: rank 0 exited with code 3", time.Second)
}

// TestGreedyJobWaits: eight CPUs asked and four there; a second machine joins,
// and it starts at once, on both.
func TestGreedyJobWaits(t *testing.T) {
	c := newCluster(t)
	c.node("a", "r1", "--cpus", "4")
	spec := gang(2, 0, "exec sleep 60")
	spec.Each.MilliCpu = 4000
	id := c.submit(spec)
	c.scheduler.says(t, "Job "+id+" added to PENDING queue (Insufficient Resources)", 5*time.Second)
	if why := c.explain(id); !strings.HasPrefix(why,
		"needs 8 cores (2 tasks of 4 cores); the whole cluster has 4 free of 4") {
		t.Errorf("why it waits: %s", why)
	}
	second := c.agent("b", "r1", "--cpus", "4")
	joined := second.says(t, "Success! Master says: Welcome to Synapse", 10*time.Second)
	placed := c.scheduler.says(t, "Successfully scheduled Job "+id+" to Nodes [a, b]", 5*time.Second)
	if took := placed.at.Sub(joined.at); took > time.Second {
		t.Errorf("it was placed %s after the machine had joined", took)
	}
	c.await(id, "running", 5*time.Second)
}

func TestOneRackIsPreferred(t *testing.T) {
	c := newCluster(t)
	for i := range 4 {
		c.node(fmt.Sprintf("n%d", i), fmt.Sprintf("r%d", i%2))
	}
	id := c.submit(gang(2, 8, "exec sleep 60"))
	s := c.await(id, "running", 10*time.Second)
	a, b := s.Attempt.Places[0].Node, s.Attempt.Places[1].Node
	if (a[1]-b[1])%2 != 0 {
		t.Errorf("two machines of one rack were free, and it is on %s and %s", a, b)
	}
}

func TestAFullMachineIsNotGivenTwice(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "r1")
	first := c.submit(gang(1, 8, "exec sleep 60"))
	c.await(first, "running", 10*time.Second)
	second := c.submit(gang(1, 1, "true"))
	time.Sleep(300 * time.Millisecond)
	if s := c.job(second); s.Phase != "queued" {
		t.Fatalf("a job of one GPU is %s on a machine that is full", s.Phase)
	}
	c.cancel(first)
	c.await(first, "cancelled", 10*time.Second)
	c.await(second, "succeeded", 10*time.Second)
}

// TestGangMeets: every member finds the others by what is in its environment.
func TestGangMeets(t *testing.T) { eachDriver(t, gangMeets) }

func gangMeets(t *testing.T, c *cluster) {
	c.node("n1", "r1")
	c.node("n2", "r1")
	out := t.TempDir()
	id := c.submit(writing(t, out, gang(2, 8, `echo "$SYNAPSE_RANK/$SYNAPSE_WORLD_SIZE $MASTER_ADDR $SYNAPSE_HOSTS $CUDA_VISIBLE_DEVICES" > `+out+`/$SYNAPSE_RANK`)))
	c.await(id, "succeeded", 15*time.Second)
	for rank := range 2 {
		text, err := os.ReadFile(filepath.Join(out, fmt.Sprint(rank)))
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("%d/2 127.0.0.1 ", rank); !strings.HasPrefix(string(text), want) {
			t.Errorf("rank %d found %q, want %q first", rank, text, want)
		}
	}
}
