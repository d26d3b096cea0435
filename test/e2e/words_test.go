package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// This file tests output that must never change for users.

func TestWordsOfJoining(t *testing.T) {
	c := newCluster(t)
	_, port, _ := strings.Cut(c.address, ":")
	c.scheduler.says(t, "Synapse Master running on :"+port+"...")
	n := c.node("n1", "r1")
	n.says(t, "Starting Worker Node - ID: n1")
	c.scheduler.says(t, fmt.Sprintf("[GRPC] RegisterWorker: ID=n1, CPU=64, RAM=%d", 512<<30))
	n.says(t, "Pulse sent")
	c.scheduler.says(t, "[GRPC] Heartbeat from n1")
}

func TestWordsOfAJob(t *testing.T) { eachDriver(t, wordsOfAJob) }

func wordsOfAJob(t *testing.T, c *cluster) {
	n := c.node("n1", "r1")
	id := c.submit(gang(1, 1, "echo hello; exit 0"))
	c.scheduler.says(t, "[GRPC] Job Submitted: "+id+" (CPU: 1, GPU: 1)")
	c.await(id, "succeeded")
	c.scheduler.says(t, "Successfully scheduled Job "+id+" to Nodes [n1]")
	n.says(t, "STARTING CONTAINER: JobID="+id+", Image=host")
	n.says(t, "Job "+id+" finished successfully")
	if got := c.logs(id); got != "hello\n" {
		t.Errorf("its output is %q", got)
	}

	id = c.submit(gang(1, 1, "exit 3"))
	if s := c.await(id, "failed"); s.Record.ExitCode != 3 || !strings.Contains(s.Record.Outcome, "n1") {
		t.Errorf("unexpected end: %v", s.Record)
	}
	n.says(t, "Job "+id+" failed: rank 0 exited with code 3")
}

// TestGreedyJobWaits requests eight CPUs with four available. When a second node joins, the job must start at once, on
// both.
func TestGreedyJobWaits(t *testing.T) {
	everywhere(t)
	t.Parallel()
	inTime(t, "a gang's start once there is room", time.Second, func() time.Duration { return greedyWaits(t) })
}

// greedyWaits returns how long after a node had joined a gang was placed on it.
func greedyWaits(t *testing.T) time.Duration {
	c := newClusterOf(t, "")
	c.node("a", "r1", "--cpus", "4")
	spec := gang(2, 0, "exec sleep 60")
	spec.Each.MilliCpu = 4000
	id := c.submit(spec)
	c.scheduler.says(t, "Job "+id+" added to PENDING queue (Insufficient Resources)")
	if why := c.explain(id); !strings.HasPrefix(why,
		"gang ("+id[:6]+") can never start on this cluster: needs 8 cores, cluster has 4") {
		t.Errorf("unexpected reason: %s", why)
	}
	second := c.agent("b", "r1", "--cpus", "4")
	joined := second.says(t, "Success! Master says: Welcome to Synapse")
	placed := c.scheduler.says(t, "Successfully scheduled Job "+id+" to Nodes [a, b]")
	c.await(id, "running")
	return placed.at.Sub(joined.at)
}

func TestOneRackIsPreferred(t *testing.T) {
	c := newCluster(t)
	for i := range 4 {
		c.node(fmt.Sprintf("n%d", i), fmt.Sprintf("r%d", i%2))
	}
	id := c.submit(gang(2, 8, "exec sleep 60"))
	s := c.await(id, "running")
	a, b := s.Attempt.Places[0].Node, s.Attempt.Places[1].Node
	if (a[1]-b[1])%2 != 0 {
		t.Errorf("two nodes of one rack were free, but the gang is on %s and %s", a, b)
	}
}

func TestAFullMachineIsNotGivenTwice(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "r1")
	first := c.submit(gang(1, 8, "exec sleep 60"))
	c.await(first, "running")
	second := c.submit(gang(1, 1, "true"))
	time.Sleep(300 * time.Millisecond)
	if s := c.job(second); s.Phase != "queued" {
		t.Fatalf("a job of one GPU is %s on a full node", s.Phase)
	}
	c.cancel(first)
	c.await(first, "cancelled")
	c.await(second, "succeeded")
}

// TestGangMeets checks that every member finds the others by its environment.
func TestGangMeets(t *testing.T) { eachDriver(t, gangMeets) }

func gangMeets(t *testing.T, c *cluster) {
	c.node("n1", "r1")
	c.node("n2", "r1")
	out := t.TempDir()
	id := c.submit(writing(t, out, gang(2, 8, `echo "$SYNAPSE_RANK/$SYNAPSE_WORLD_SIZE $MASTER_ADDR $SYNAPSE_HOSTS $CUDA_VISIBLE_DEVICES" > `+out+`/$SYNAPSE_RANK`)))
	c.await(id, "succeeded")
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
