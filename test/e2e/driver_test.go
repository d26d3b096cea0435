package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/test/able"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests behaviour that all drivers share, and behaviour that only a container has.

// eachDriver runs a test on a cluster of each driver.
func eachDriver(t *testing.T, test func(*testing.T, *cluster)) {
	t.Parallel()
	for _, driver := range []string{"process", "carapace", "oci"} {
		t.Run(driver, func(t *testing.T) { test(t, clusterOf(t, driver)) })
	}
}

func clusterOf(t *testing.T, driver string) *cluster {
	t.Helper()
	needDriver(t, driver)
	c := newClusterHere(t)
	c.contain(driver)
	return c
}

// needDriver skips a test if a driver is not available.
func needDriver(t *testing.T, driver string) {
	t.Helper()
	if driver != "process" {
		able.Need(t, able.Containers)
	}
	if driver == "oci" {
		able.Need(t, able.Program("runc"))
	}
}

// contain makes the cluster's tasks run in a driver.
func (c *cluster) contain(driver string) {
	c.driver = driver
	c.t.Cleanup(func() { // the agents have ended by now
		killAll(c.dir)
		c.collect()
	})
}

// collect removes the remains of containers whose supervisors were killed. The next agent would do so, but there is
// none after a test.
func (c *cluster) collect() {
	limit := pace.Until(10 * time.Second)
	for {
		states, _ := filepath.Glob(filepath.Join(c.dir, "*", "carapace"))
		for _, state := range states {
			if text, err := exec.Command(filepath.Join(bin, "carapace"), "gc", "--state-dir", state).
				CombinedOutput(); err != nil {
				c.t.Errorf("the remains of containers cannot be removed: %v: %s", err, text)
			}
		}
		left, _ := filepath.Glob(filepath.Join(c.dir, "*", "carapace", "*"))
		if len(left) == 0 {
			return
		}
		if time.Now().After(limit) {
			c.t.Errorf("containers are left: %q", left)
			return
		}
		time.Sleep(10 * time.Millisecond) // the kernel is still ending one
	}
}

// writing lets a gang write into a host directory. It is mounted at the same path, so that the same job runs in every
// driver.
func writing(t *testing.T, folder string, spec *messages.JobSpec) *messages.JobSpec {
	t.Helper()
	if err := os.Chmod(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	spec.Mounts = append(spec.Mounts, &messages.Mount{Source: folder, Target: folder})
	return spec
}

// TestDriverIsTold checks that the agent logs its driver, and the reason for it.
func TestDriverIsTold(t *testing.T) {
	c := newClusterHere(t)
	c.driver = "auto"
	want := "Driver carapace: each task runs in a separate container"
	if err := able.Containers.Lacks(); err != nil {
		want = "Driver process: tasks are " // and the limits of tasks, if there are any
	}
	if n := c.node("n1", "r1"); !strings.Contains(n.said(), want) {
		t.Errorf("the agent did not log %q", want)
	}
}

// TestOutOfMemory checks that a task which exceeds its memory request is killed, and that all commands show which task,
// where and why.
func TestOutOfMemory(t *testing.T) {
	c := clusterOf(t, "carapace")
	c.node("n1", "r1")
	spec := gang(2, 1, `test $SYNAPSE_RANK = 0 && exec sleep 60; exec tail /dev/zero`)
	spec.Each.MemoryBytes = 48 << 20
	id := c.submit(spec)
	if s := c.await(id, "failed"); s.Record.ExitCode != 137 {
		t.Errorf("the job ended with code %d", s.Record.ExitCode)
	} else if got := verdictOf(s); !strings.HasPrefix(got, "out-of-memory charged 1 1: ") {
		t.Errorf("the verdict is %s", got)
	}
	c.cli("describe", "job", id).wants(t, 0, "rank 1 on n1 ran out of memory", "")
}

// TestMemoryByDefault checks that a task without a memory request gets its share of the node's memory, in the ledger,
// in its files, and as its limit. The printed job file must be submittable and request the same.
func TestMemoryByDefault(t *testing.T) {
	c := clusterOf(t, "carapace")
	c.node("n1", "r1", "--memory", "1Gi")
	spec := gang(1, 1, `dd if=/dev/zero of=/tmp/f bs=1M count=80 && echo fits; rm /tmp/f; exec tail /dev/zero`)
	spec.Each.MemoryBytes = 0
	id := c.submit(spec)
	if s := c.await(id, "failed"); s.Record.ExitCode != 137 ||
		s.Attempt.Places[0].Grant.Amount.MemoryBytes != 72<<20 {
		t.Errorf("the job ended with code %d, and had %v", s.Record.ExitCode, s.Attempt.Places[0].Grant.Amount)
	}
	c.cli("describe", "job", id).wants(t, 0, "1 task of 1 GPU, 1 CPU, 72Mi (memory by default)", "")
	c.cli("describe", "job", id).wants(t, 0, "rank 0 on n1 ran out of memory", "")
	// With cgroup version 2 the whole control group has already ended at the file.
	if said := c.cli("logs", id); said.code != 0 || strings.Contains(said.out, "fits") {
		t.Errorf("the task wrote more than its memory into its files: %q", said.out)
	}
	shown := c.cli("get", "job", id, "-o", "yaml")
	shown.wants(t, 0, "memory: 72Mi", "")
	shown.wants(t, 0, "memoryByDefault: true", "")
	c.cli("describe", "node", "n1").wants(t, 0, "1Gi", "")
	file := filepath.Join(t.TempDir(), "again.yaml")
	if err := os.WriteFile(file, []byte(shown.out), 0o600); err != nil {
		t.Fatal(err)
	}
	again := strings.TrimSpace(c.cli("submit", file, "-o", "name").out)
	text := c.cli("get", "job", strings.TrimPrefix(again, "job/"), "-o", "yaml")
	if text.wants(t, 0, "memory: 72Mi", ""); strings.Contains(text.out, "memoryByDefault") {
		t.Errorf("a requested amount is marked as a default: %s", text.out)
	}
}

// TestDiskEnd checks that a task which exceeds its disk limit is ended, and that all commands show which task, where
// and why. Its remaining files must be attributed to its owner.
func TestDiskEnd(t *testing.T) { eachDriver(t, diskEnd) }

func diskEnd(t *testing.T, c *cluster) {
	c.node("n1", "r1")
	spec := gang(2, 1,
		`test $SYNAPSE_RANK = 0 && exec sleep 60; while :; do head -c 10000000 /dev/zero >> f; sleep 0.1; done`)
	spec.DiskBytes = 16 << 20
	id := c.submit(spec)
	if s := c.await(id, "failed"); s.Record.ExitCode != 137 {
		t.Errorf("the job ended with code %d", s.Record.ExitCode)
	} else if got := verdictOf(s); !strings.HasPrefix(got, "storage charged 1 1: ") {
		t.Errorf("the verdict is %s", got)
	}
	c.cli("describe", "job", id).wants(t, 0, "rank 1 on n1 was ended because the disk is full: the task kept", "")
	c.cli("get", "job", id, "-o", "json").wants(t, 0, `"disk": true`, "")
	for limit := pace.Until(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		owners, err := filepath.Glob(filepath.Join(c.dir, "n1", "*", "kept", "*", "owner.json"))
		if err != nil || time.Now().After(limit) {
			t.Fatalf("no output is kept: %v", err)
		}
		if len(owners) == 0 {
			continue
		}
		if text, err := os.ReadFile(owners[0]); !strings.Contains(string(text), `"owner":"anonymous"`) {
			t.Errorf("the output is attributed to %q: %v", text, err)
		}
		break
	}
}

// TestDeafToSIGTERM checks that a task that ignores its stop is killed after its grace, and that no other job gets its
// GPUs earlier.
func TestDeafToSIGTERM(t *testing.T) { eachDriver(t, deafToSIGTERM) }

func deafToSIGTERM(t *testing.T, c *cluster) {
	c.node("n1", "r1")
	out := t.TempDir()
	deaf := writing(t, out, gang(1, 8, `trap "" TERM; (setsid sh -c "trap '' TERM; while :; do date +%s%N > `+out+`/alive; done" &); while :; do sleep 1; done`))
	deaf.Stop.GraceMs = 1000
	first := c.submit(deaf)
	c.await(first, "running")
	next := c.submit(writing(t, out, gang(1, 8, `cat `+out+`/alive > `+out+`/then; sleep 0.3; cmp `+out+`/alive `+out+`/then`)))
	for limit := pace.Until(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(out, "alive")); err == nil {
			break
		}
		if time.Now().After(limit) {
			t.Fatal("the first job is not running")
		}
	}
	told := time.Now()
	c.cancel(first)
	c.await(first, "cancelled")
	if took := time.Since(told); took < time.Second {
		t.Errorf("the task ended %s after its stop, although it ignores signals and had a grace of 1 s", took)
	}
	c.await(next, "succeeded")
}

// TestRequeue checks that the attempt is stopped without counting as a failure, and that the next attempt has the node
// to itself.
func TestRequeue(t *testing.T) { eachDriver(t, requeued) }

func requeued(t *testing.T, c *cluster) {
	c.node("n1", "r1")
	out := t.TempDir()
	id := c.submit(writing(t, out, gang(2, 4, `[ -e `+out+`/$SYNAPSE_RANK ] && exit 0; touch `+out+`/$SYNAPSE_RANK; exec sleep 120`)))
	c.await(id, "running")
	for rank := range 2 {
		for limit := pace.Until(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			if _, err := os.Stat(filepath.Join(out, strconv.Itoa(rank))); err == nil {
				break
			}
			if time.Now().After(limit) {
				t.Fatalf("rank %d does not run", rank)
			}
		}
	}
	c.cli("requeue", id, "--reason", "new data").wants(t, 0, "Job "+id+" requeued: attempt 1 is being stopped\n", "")
	if s := c.await(id, "succeeded"); s.Record.Runs != 2 || s.Record.Failures != 0 ||
		s.Record.InfraRestarts != 0 {
		t.Errorf("the job has run %d times, with %d own failures and %d of nodes",
			s.Record.Runs, s.Record.Failures, s.Record.InfraRestarts)
	}
	c.cli("requeue", id).wants(t, 4, "", "job has already ended: succeeded")
}

// TestGPUsApart checks that two tasks on one node never see each other's GPUs.
func TestGPUsApart(t *testing.T) { eachDriver(t, gpusApart) }

func gpusApart(t *testing.T, c *cluster) {
	c.node("n1", "r1")
	out := t.TempDir()
	id := c.submit(writing(t, out, gang(3, 2, `echo "$CUDA_VISIBLE_DEVICES" > `+out+`/$SYNAPSE_RANK; ls /dev/nvidia* 2>/dev/null; exec sleep 1`)))
	c.await(id, "succeeded")
	var all []string
	for rank := range 3 {
		text, err := os.ReadFile(filepath.Join(out, fmt.Sprint(rank)))
		if err != nil {
			t.Fatal(err)
		}
		own := strings.Split(strings.TrimSpace(string(text)), ",")
		if len(own) != 2 {
			t.Errorf("rank %d saw %q", rank, text)
		}
		all = append(all, own...)
	}
	slices.Sort(all)
	if len(slices.Compact(all)) != 6 {
		t.Errorf("all ranks together saw %q", all)
	}
	if said := c.logs(id); c.driver == "carapace" && said != "" {
		t.Errorf("declared GPUs have no device nodes, but the task saw %q", said)
	}
}

// TestContainerShowsNothing checks that a task sees neither the agent's own directory nor the files of other tasks, and
// that it can write only where permitted.
func TestContainerShowsNothing(t *testing.T) {
	c := clusterOf(t, "carapace")
	c.node("n1", "r1")
	spec := gang(1, 1, `id -u; ls -A /tmp /run; pwd; touch /usr/x /etc/x /x 2>/dev/null && echo wrote; ls `+c.dir+` 2>/dev/null; touch here && cat $SYNAPSE_HOSTFILE`)
	spec.User = ""
	id := c.submit(spec)
	c.await(id, "succeeded")
	if got, want := c.logs(id), "2000001\n/run:\n\n/tmp:\n/scratch\n127.0.0.1 slots=1\n"; got != want {
		t.Errorf("the task saw %q, want %q", got, want)
	}
	c.cli("describe", "job", id).wants(t, 0, "uid 2000001, used only by this job", "")
}
