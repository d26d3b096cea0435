// Package bench measures a whole cluster: the shipped programs on this host, with the process driver. Each figure is
// one line, with the load of the host before the measurement. A figure from a busy host says little.
//
//	make bench BENCH=Body                              all of them, in some two minutes
//	make bench BENCH=Body/real/gang                    one
//	TMPDIR=/dev/shm make bench BENCH=Body/real         without the disk
//	make bench BENCH=Body SMOKE=1                      all of them in small, to see that they work
//
// An agent writes about ten small files for each task, so the file system matters. ext4 without a journal searches for
// an inode that was not freed recently, and that search is half of a task's cost.
package bench

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/test/able/pace"
	"github.com/yi-json/synapse/test/crowd"
)

// This file provides the cluster that is measured, and the measurements.

// bin is the folder of the programs.
var bin string

// size returns the size of a measurement: full, or that of a smoke test, whose figures do not matter.
func size(full, smoke int) int {
	if testing.Short() {
		return smoke
	}
	return full
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run builds the programs, but only if there is something to measure.
func run(m *testing.M) int {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		patience = pace.Of(patience)
		return m.Run()
	}
	folder, err := os.MkdirTemp("", "synapse-bench-bin-")
	if err == nil {
		err = os.Chmod(folder, 0o755) // tasks run as other users
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	bin = folder
	built := filepath.Join(folder, "built")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", built+"/", "../../cmd/...")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	// They are copied, as an installation does. A file written by the linker is in the page cache in small pieces,
	// and starts a fifth slower.
	if err = build.Run(); err == nil {
		err = os.CopyFS(folder, os.DirFS(built))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "building the commands:", err)
		return 1
	}
	return m.Run()
}

// cluster is a scheduler with its other processes.
type cluster struct {
	b         *testing.B
	dir       string
	address   string
	scheduler *exec.Cmd
	agents    []*exec.Cmd
	client    api.SynapseClient
	requests  int
}

// start starts a program whose output goes to a log, which is shown if the measurement fails.
func (c *cluster) start(name, program string, args ...string) *exec.Cmd {
	c.b.Helper()
	log, err := os.Create(filepath.Join(c.dir, name+".log"))
	if err != nil {
		c.b.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(bin, program), args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		c.b.Fatal(err)
	}
	c.b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		log.Close()
		if text, err := os.ReadFile(log.Name()); c.b.Failed() && name == "scheduler" && err == nil {
			c.b.Logf("last output of %s:\n%s", name, text[max(0, len(text)-4000):])
		}
	})
	return cmd
}

// newCluster starts a scheduler with additional flags.
func newCluster(b *testing.B, settings ...string) *cluster {
	b.Helper()
	return newClusterOf(b, "synapse-scheduler", settings...)
}

// newClusterOf starts another program as the scheduler.
func newClusterOf(b *testing.B, program string, settings ...string) *cluster {
	b.Helper()
	dir, err := os.MkdirTemp("", "synapse-bench-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		b.Fatal(err)
	}
	c := &cluster{b: b, dir: dir}
	b.Cleanup(func() {
		c.sweep()
		os.RemoveAll(dir)
	})
	file := filepath.Join(dir, "address")
	c.scheduler = c.start("scheduler", program,
		append([]string{"--listen", "127.0.0.1:0", "--listen-file", file,
			"--data-dir", filepath.Join(dir, "scheduler"), "--levels", "zone,rack"}, settings...)...)
	c.eventually("the scheduler listens", func() bool {
		text, err := os.ReadFile(file)
		c.address = strings.TrimSpace(string(text))
		return err == nil
	})
	conn, err := grpc.NewClient(c.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	c.client = api.NewSynapseClient(conn)
	return c
}

// sweep kills the remains of the agents, because tasks outlive them by design.
func (c *cluster) sweep() {
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range processes {
		pid, _ := strconv.Atoi(filepath.Base(process))
		for _, what := range []string{"cmdline", "environ"} {
			text, err := os.ReadFile(filepath.Join(process, what))
			if err == nil && pid != os.Getpid() && strings.Contains(string(text), c.dir) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}

// patience bounds every wait.
var patience = time.Minute

func (c *cluster) eventually(what string, holds func() bool) {
	c.b.Helper()
	for limit := time.Now().Add(patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			c.b.Fatalf("timeout: %s did not happen", what)
		}
	}
}

// machines starts real agents of 8 declared GPUs each, and waits until all are up.
func (c *cluster) machines(many int) {
	c.b.Helper()
	for i := range many {
		id := crowd.Name(i)
		c.agents = append(c.agents,
			c.start(id, "synapse-node", "--join", c.address, "--data-dir", filepath.Join(c.dir, id), "--id", id,
				"--topology", fmt.Sprintf("zone=a,rack=r%02d", i/perRack), "--gpus", "8", "--cpus", "64", "--memory", "512Gi",
				"--address", "127.0.0.1", "--driver", "process"))
	}
	c.idle(many)
}

const perRack = 16

// idle waits until this many nodes are up and have no allocations.
func (c *cluster) idle(many int) {
	c.b.Helper()
	c.eventually(fmt.Sprintf("%d machines are up and empty", many), func() bool {
		up := 0
		for after := ""; ; {
			reply, err := c.client.ListNodes(c.ctx(), &messages.ListNodes{After: after, Limit: 1000})
			if err != nil {
				return false
			}
			for _, n := range reply.Nodes {
				if n.Phase == "up" && len(n.Ledger.GetSlices()) == 0 {
					up++
				}
			}
			if after = reply.Next; after == "" {
				return up == many
			}
		}
	})
}

func (c *cluster) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	c.b.Cleanup(cancel)
	return ctx
}

// gang returns a job of whole nodes.
func gang(tasks int32, command ...string) *messages.JobSpec {
	return &messages.JobSpec{
		Name: "bench", Image: "host", Command: command, Gang: &messages.GangSpec{ReplicasMin: tasks, ReplicasMax: tasks},
		Each: &messages.Resources{MilliCpu: 1000, MemoryBytes: 1 << 30, MilliGpu: 8000},
	}
}

func (c *cluster) submit(request string, spec *messages.JobSpec) string {
	reply, err := c.client.Submit(c.ctx(), &messages.Submit{RequestId: request, Spec: spec, AllowInfeasible: true})
	if err != nil {
		c.b.Errorf("submit: %v", err)
		return ""
	}
	return reply.Job
}

// submitAll submits jobs from several concurrent callers, and returns their IDs.
func (c *cluster) submitAll(many, callers int, spec *messages.JobSpec) []string {
	c.requests++
	ids := make([]string, many)
	together(callers, many, func(i int) { ids[i] = c.submit(fmt.Sprintf("%d-%d", c.requests, i), spec) })
	if c.b.Failed() {
		c.b.FailNow()
	}
	return ids
}

// together calls do this many times, from several concurrent callers.
func together(callers, many int, do func(i int)) {
	next := make(chan int)
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range many {
		next <- i
	}
	close(next)
	all.Wait()
}

// watch sends every change of every job from now on, until the cluster ends.
func (c *cluster) watch() <-chan *messages.JobStatus {
	c.b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c.b.Cleanup(cancel)
	stream, err := c.client.Watch(ctx, &messages.Watch{Jobs: true, Ids: []string{}, Present: true})
	if err != nil {
		c.b.Fatal(err)
	}
	jobs := make(chan *messages.JobStatus, 1<<16)
	synced := make(chan struct{})
	go func() {
		defer close(jobs)
		var once sync.Once
		for {
			event, err := stream.Recv()
			if err != nil {
				once.Do(func() { close(synced) })
				return
			}
			if event.Synced {
				once.Do(func() { close(synced) })
			}
			if event.Job != nil {
				jobs <- event.Job
			}
		}
	}()
	<-synced
	return jobs
}

// reach waits until all of the jobs have been in a phase, and returns when the last one was.
func (c *cluster) reach(changes <-chan *messages.JobStatus, ids []string, phase string) time.Time {
	c.b.Helper()
	missing := map[string]bool{}
	for _, id := range ids {
		missing[id] = true
	}
	limit := time.After(patience)
	for len(missing) > 0 {
		select {
		case j, more := <-changes:
			if !more {
				c.b.Fatal("the watch ended")
			}
			if j.Phase == "failed" && phase != "failed" && missing[j.Record.Id] {
				c.b.Fatalf("job %s failed: %s", j.Record.Id, j.Record.Outcome)
			}
			if j.Phase == phase {
				delete(missing, j.Record.Id)
			}
		case <-limit:
			c.b.Fatalf("%d of %d jobs have not been %s", len(missing), len(ids), phase)
		}
	}
	return time.Now()
}

func (c *cluster) cancel(id string) {
	c.b.Helper()
	if _, err := c.client.Cancel(c.ctx(), &messages.Cancel{Job: id, Reason: "measured"}); err != nil {
		c.b.Fatalf("cancel: %v", err)
	}
}

// load returns the host's load average over a minute, before the measurement adds to it.
func load(b *testing.B) float64 {
	b.Helper()
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	value, err := strconv.ParseFloat(strings.Fields(string(text))[0], 64)
	if err != nil {
		b.Fatal(err)
	}
	return value
}

// memory returns the memory of a process in megabytes, by the names of /proc/PID/status.
func memory(b *testing.B, pid int, name string) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), name+":")
	kb, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		b.Fatal(err)
	}
	return float64(kb) / 1000
}

// computed returns the CPU time of a process and its ended children since its start.
func computed(b *testing.B, pid int) time.Duration {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	ticks := 0
	for _, field := range fields[11:15] {
		n, err := strconv.Atoi(field)
		if err != nil {
			b.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond // the kernel always counts hundredths of a second
}

// ended returns the CPU time of our own ended children.
func ended(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// costs measures the CPU time of the scheduler and the agents per action. Other load on the host affects it less than
// wall time.
func (c *cluster) costs(b *testing.B, actions int, do func()) {
	b.Helper()
	agents := func() (sum time.Duration) {
		for _, agent := range c.agents {
			sum += computed(b, agent.Process.Pid)
		}
		return sum
	}
	scheduler, others := computed(b, c.scheduler.Process.Pid), agents()
	do()
	for name, used := range map[string]time.Duration{
		"scheduler": computed(b, c.scheduler.Process.Pid) - scheduler, "agents": agents() - others,
	} {
		if name == "scheduler" || len(c.agents) > 0 {
			b.ReportMetric(float64(used)/1e6/float64(actions), name+"-cpu-ms")
		}
	}
}

// busy returns the CPU use of a process in percent of one core, over a span.
func busy(b *testing.B, pid int, span time.Duration) float64 {
	b.Helper()
	before, began := computed(b, pid), time.Now()
	time.Sleep(span)
	return 100 * float64(computed(b, pid)-before) / float64(time.Since(began))
}

// report reports the median and the maximum of the measurements.
func report(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2])/1e6, "p50-ms")
	b.ReportMetric(float64(took[len(took)-1])/1e6, "max-ms")
	b.ReportMetric(float64(len(took)), "times")
}

// once measures a figure that takes long enough to be measured once. The time of one iteration would mean nothing.
func once(b *testing.B, measure func()) {
	b.Helper()
	before := load(b)
	for b.Loop() {
		measure()
	}
	b.ReportMetric(before, "load")
	b.ReportMetric(0, "ns/op")
}

// pipe creates a named pipe that every task may write to. A task can write only to its own files and to public
// directories, so the pipe is in /var/tmp and not with the cluster.
func (c *cluster) pipe() *os.File {
	c.b.Helper()
	folder, err := os.MkdirTemp("/var/tmp", "synapse-bench-")
	if err == nil {
		c.b.Cleanup(func() { os.RemoveAll(folder) })
		err = os.Chmod(folder, 0o755)
	}
	if err != nil {
		c.b.Fatal(err)
	}
	path := filepath.Join(folder, "started")
	if err := syscall.Mkfifo(path, 0o666); err != nil {
		c.b.Fatal(err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		c.b.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0) // also a writer, so that it never ends
	if err != nil {
		c.b.Fatal(err)
	}
	c.b.Cleanup(func() { file.Close() })
	return file
}

// lines waits for this many lines.
func lines(b *testing.B, from *os.File, many int) {
	b.Helper()
	if err := from.SetReadDeadline(time.Now().Add(patience)); err != nil {
		b.Fatal(err)
	}
	for buffer := make([]byte, 4096); many > 0; {
		n, err := from.Read(buffer)
		if err != nil {
			b.Fatal(err)
		}
		many -= strings.Count(string(buffer[:n]), "\n")
	}
}
