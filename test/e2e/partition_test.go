package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/test/able"
	"github.com/yi-json/synapse/test/able/pace"
	"github.com/yi-json/synapse/test/island"
)

// This file tests nodes that are cut off for a moment, for long, or for ever.

// cutoff is a node's separate network, with one cable to the host's network.
type cutoff struct {
	*island.Island
	t *testing.T
}

var islands atomic.Int32

// newIsland creates such a network, and removes it at the test's end.
func newIsland(t *testing.T) cutoff {
	t.Helper()
	able.Need(t, able.Networks, able.Program("ip"), able.Program("nsenter"))
	i, err := island.New(int(islands.Add(1)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(i.Close)
	return cutoff{i, t}
}

func (i cutoff) cut() {
	i.t.Helper()
	if err := i.Cut(false); err != nil {
		i.t.Fatal(err)
	}
}

func (i cutoff) heal() {
	i.t.Helper()
	if err := i.Mend(false); err != nil {
		i.t.Fatal(err)
	}
}

// node starts a node's agent on the island, and waits until it has joined.
func (i cutoff) node(c *cluster, id, rack string) *process {
	i.t.Helper()
	p := i.launch(id, "synapse-node", c.agentArgs(id, rack, "--address", i.Machine)...)
	p.says(i.t, "Success! Master says: Welcome to Synapse")
	return p
}

// launch starts one of the programs there.
func (i cutoff) launch(name, program string, args ...string) *process {
	i.t.Helper()
	nsenter, args := i.Within(filepath.Join(bin, program), args...)
	path, err := exec.LookPath(nsenter)
	if err != nil {
		i.t.Fatal(err)
	}
	return launch(i.t, name, path, args...)
}

// diary is a gang whose members each record their process ID under the attempt's name, and then run for long.
type diary struct{ folder string }

func newDiary(t *testing.T, tasks int32, gpus float64) (diary, *messages.JobSpec) {
	t.Helper()
	d := diary{t.TempDir()}
	script := "echo $$ > " + d.folder + "/$SYNAPSE_RANK.$SYNAPSE_ATTEMPT; while ! test -e " + d.folder +
		"/enough; do sleep 0.05; done"
	return d, writing(t, d.folder, gang(tasks, gpus, script))
}

// starts returns the process IDs of a rank's starts, in the order of their attempts.
func (d diary) starts(rank int) []int {
	var pids []int
	files, _ := filepath.Glob(filepath.Join(d.folder, fmt.Sprintf("%d.*", rank)))
	slices.Sort(files) // attempts' names sort in order of time
	for _, file := range files {
		text, _ := os.ReadFile(file)
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// written waits until a rank has recorded its process.
func (d diary) written(t *testing.T, rank int) {
	t.Helper()
	for limit := time.Now().Add(patience); len(d.starts(rank)) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			entries, err := os.ReadDir(d.folder)
			t.Fatalf("rank %d has written nothing; the folder has %v (%v)", rank, entries, err)
		}
	}
}

func alive(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(text), ") Z ")
}

// gone waits until a process has ended.
func gone(t *testing.T, pid int) {
	t.Helper()
	for limit := time.Now().Add(patience); alive(pid); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("process %d still runs after %s", pid, patience)
		}
	}
}

// pulse waits for a node's next heartbeat and returns its time, so that the following events have a known distance from
// it.
func pulse(t *testing.T, n *process) time.Time {
	t.Helper()
	beats := strings.Count(n.said(), "Pulse sent")
	for limit := pace.Until(15 * time.Second); strings.Count(n.said(),
		"Pulse sent") == beats; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("no heartbeat within 15 s")
		}
	}
	came := time.Now()
	time.Sleep(50 * time.Millisecond) // it is on its way
	return came
}

// TestShortPartition checks that a node that returns within ten seconds has lost nothing, and that nothing was started
// twice.
func TestShortPartition(t *testing.T) {
	t.Parallel()
	// Network changes wait for other network changes of the host, sometimes for seconds. A cable that was repaired
	// too late proves nothing.
	const mended = 7500 * time.Millisecond
	inTime(t, "a cable that is cut for 7 s", mended, func() time.Duration { return cutShortly(t, mended) })
}

// cutShortly cuts a node off, and returns how long after its last heartbeat the cut ended. If that was too late, it
// checks nothing.
func cutShortly(t *testing.T, limit time.Duration) time.Duration {
	i := newIsland(t)
	c := newClusterOf(t, "", "--listen", i.Address+":0", "--insecure", "--insecure")
	n := i.node(c, "n1", "r1")
	c.node("n2", "r1")
	d, spec := newDiary(t, 2, 8)
	id := c.submit(spec)
	c.await(id, "running")
	last := pulse(t, n)
	i.cut()
	time.Sleep(time.Until(last.Add(7 * time.Second))) // messages sent meanwhile arrive late, or on a new link
	i.heal()
	silent := time.Since(last)
	if silent > limit {
		c.cancel(id)
		return silent
	}
	pulse(t, n)
	if strings.Contains(c.scheduler.said(), "is DEAD") {
		t.Error("a node was declared dead after less than ten seconds of silence")
	}
	if s := c.job(id); s.Phase != "running" || s.Record.Runs != 1 || len(d.starts(0)) != 1 || len(d.starts(1)) != 1 ||
		len(s.Debts) > 0 {
		t.Errorf("the gang is %s after %d attempts, its members started as %v and %v: %s",
			s.Phase, s.Record.Runs, d.starts(0), d.starts(1), s.Reason)
	}
	if err := os.WriteFile(filepath.Join(d.folder, "enough"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c.await(id, "succeeded")
	return silent
}

// TestLongPartition checks that the gang runs on other nodes without waiting for the unreachable one, that its status
// names the unconfirmed allocations, and that these are stopped on return.
func TestLongPartition(t *testing.T) {
	i := newIsland(t)
	c := newClusterHere(t, "--listen", i.Address+":0", "--insecure", "--insecure")
	n := i.node(c, "n1", "r1")
	c.node("n2", "r1")
	d, spec := newDiary(t, 2, 8)
	id := c.submit(spec)
	c.await(id, "running")
	c.node("n3", "r2")
	cutOff := 0
	if c.job(id).Attempt.Places[1].Node == "n1" {
		cutOff = 1
	}
	i.cut()
	c.scheduler.says(t, "REAPER: Node n1 is DEAD (Missed Heartbeats)")
	s := c.until(id, "running elsewhere", func(s *messages.JobStatus) bool {
		return s.Phase == "running" && s.Record.Runs == 2 && len(d.starts(cutOff)) == 2
	})
	for _, p := range s.Attempt.Places {
		if p.Node == "n1" {
			t.Error("the gang was placed on the node that is cut off")
		}
	}
	old := d.starts(cutOff)[0]
	if len(s.Debts) != 1 || s.Debts[0] != "n1" || len(c.machine("n1").Debts) != 1 || !alive(old) {
		t.Errorf("the job's unconfirmed allocations are %v, the node's %v; the old process runs: %t",
			s.Debts, c.machine("n1").Debts, alive(old))
	}
	if described := c.cli("describe", "job", id); !strings.Contains(described.out, "Unconfirmed:  n1\n") {
		t.Errorf("describe says\n%s", described.out)
	}

	i.heal()
	n.says(t, "Success! Master says: Welcome to Synapse")
	gone(t, old)
	s = c.until(id, "without debts", func(s *messages.JobStatus) bool { return len(s.Debts) == 0 })
	if s.Phase != "running" || s.Record.Runs != 2 || c.machine("n1").Phase != "up" {
		t.Errorf("the gang is %s after %d attempts, n1 is %s", s.Phase, s.Record.Runs, c.machine("n1").Phase)
	}
	c.cancel(id)
	c.await(id, "cancelled")
}

// TestPartitionForEver checks that a cancelled job ends although its node never answers. The unconfirmed allocation is
// shown until the operator removes the node. If that was wrong, the tasks are still stopped when the node returns.
func TestPartitionForEver(t *testing.T) {
	t.Parallel()
	inTime(t, "the end of a cancelled job whose machine is cut off", 12*time.Second,
		func() time.Duration { return cutForEver(t) })
}

// cutForEver returns how long a job lived after its cancel.
func cutForEver(t *testing.T) time.Duration {
	i := newIsland(t)
	c := newClusterOf(t, "", "--listen", i.Address+":0", "--insecure", "--insecure")
	i.node(c, "n1", "r1")
	d, spec := newDiary(t, 1, 8) // grace 2 s
	id := c.submit(spec)
	c.await(id, "running")
	d.written(t, 0)
	i.cut()
	began := time.Now()
	c.cancel(id)
	remove := &messages.ChangeNode{Node: "n1", Verb: messages.NodeVerb_NODE_VERB_REMOVE, Reason: "burnt"}
	if _, err := c.client.ChangeNode(c.ctx(), remove); status.Code(err) == codes.OK {
		t.Error("a node that may be alive was removed")
	}
	s := c.await(id, "cancelled")
	took := time.Since(began)
	t.Logf("the cancel took %s", took.Round(time.Millisecond))
	m := c.machine("n1")
	if len(s.Debts) != 1 || s.Debts[0] != "n1" || m.Phase != "dead" || len(m.Debts) != 1 {
		t.Errorf("the job's unconfirmed allocations are %v, n1 is %s with %v", s.Debts, m.Phase, m.Debts)
	}
	c.cli("get", "nodes").wants(t, 0, "1 unconfirmed allocation", "")
	c.cli("remove", "n1", "--gone", "--reason", "burnt").wants(t, 0, "Node n1 removed\n", "")
	c.until(id, "without debts", func(s *messages.JobStatus) bool { return len(s.Debts) == 0 })
	c.cli("get", "nodes", "-q").wants(t, 0, "", "")

	i.heal()
	gone(t, d.starts(0)[0])
	if s := c.job(id); s.Phase != "cancelled" {
		t.Errorf("the job is %s", s.Phase)
	}
	return took
}

// TestFullDisk checks that a node that cannot write gets no work, states why, and is not asked again and again.
func TestFullDisk(t *testing.T) {
	able.Need(t, able.Mounts)
	c := newClusterHere(t)
	folder := smallDisk(t, c, "a", "512k") // its name sorts first, so it is preferred among equal nodes
	c.node("a", "r1")
	c.node("b", "r1")
	first := c.submit(gang(1, 8, "true"))
	if s := c.await(first, "succeeded"); s.Attempt.Places[0].Node != "a" {
		t.Fatalf("the first node is %s, but this test needs it", s.Attempt.Places[0].Node)
	}
	forgotten(t, filepath.Join(folder, "launcher", "tasks")) // otherwise space is freed when it is removed
	fill(t, filepath.Join(folder, "ballast"))
	told := false
	for range 5 {
		id := c.submit(gang(1, 8, "true"))
		s := c.until(id, "succeeded", func(s *messages.JobStatus) bool {
			// It states that while it is backed off, which lasts a second at first.
			told = told || strings.Contains(c.machine("a").String(), "no space left on device")
			return s.Phase == "succeeded"
		})
		if p := s.Attempt.Places[0]; p.Node != "b" {
			t.Errorf("the job ran on %s", p.Node)
		}
	}
	if !told {
		t.Error("the status of the full node does not show its error")
	}
	asked := strings.Count(c.scheduler.said(), "to Nodes [a]") - 1
	t.Logf("the full node got %d requests", asked)
	if asked > 5 {
		t.Errorf("the full node got %d requests", asked)
	}

	// It may have been full for long, and had at least as many requests as make a node with failed launches
	// unschedulable.
	for full := strings.Count(c.scheduler.said(), "to Nodes [a]"); full < 5; {
		c.cli("cordon", "b", "--reason=busy").wants(t, 0, "", "")
		id := c.submit(gang(1, 8, "true"))
		asked := full
		c.until(id, "refused by the full machine", func(*messages.JobStatus) bool {
			full = strings.Count(c.scheduler.said(), "to Nodes [a]")
			return full > asked
		})
		c.cli("uncordon", "b").wants(t, 0, "", "")
		c.await(id, "succeeded")
	}

	// With free space it returns by itself.
	if err := os.Remove(filepath.Join(folder, "ballast")); err != nil {
		t.Fatal(err)
	}
	both := c.submit(gang(2, 8, "true"))
	c.await(both, "succeeded")
}

// smallDisk gives a node a separate disk.
func smallDisk(t *testing.T, c *cluster, id, size string) string {
	t.Helper()
	folder := filepath.Join(c.dir, id)
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, "size="+size+",mode=755"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		killAll(folder)
		if err := syscall.Unmount(folder, syscall.MNT_DETACH); err != nil {
			t.Errorf("the small disk cannot be removed: %v", err)
		}
	})
	return folder
}

// forgotten waits until a node has no files of tasks any more.
func forgotten(t *testing.T, tasks string) {
	t.Helper()
	for limit := pace.Until(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		left, err := os.ReadDir(tasks)
		if err == nil && len(left) == 0 {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("files of tasks are left: %v, %v", left, err)
		}
	}
}

// fill fills a file system to the last byte.
func fill(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for size := 64 << 10; size > 0; {
		if _, err := file.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
}
