// Package e2e runs real processes: a scheduler and node agents as shipped, on loopback, with a separate cluster and
// folder for each test. It tests what a simulation cannot: that the parts fit together, and what users see.
package e2e

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/test/able"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file provides the test rig: the programs, their processes, and the client.

// bin is the folder of the programs, which are built once for all tests.
var bin string

// atOnce is the minimum number of parallel tests, even on a host with two cores, because the tests mostly wait.
const atOnce = 8

func TestMain(m *testing.M) {
	_ = os.Setenv("TZ", "UTC") // the expected output is the same on every host
	time.Local = time.UTC
	if len(os.Args) == 6 && os.Args[1] == intruding {
		_ = os.Setenv(pace.Variable, os.Args[5])
		os.Exit(intrude(os.Args[2], os.Args[3], os.Args[4]))
	}
	if len(os.Args) == 4 && os.Args[1] == keepingSilent {
		os.Exit(keepSilent(os.Args[2], os.Args[3]))
	}
	if len(os.Args) == 4 && os.Args[1] == beingHostile {
		os.Exit(beHostile(os.Args[2], os.Args[3]))
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	folder, err := os.MkdirTemp("", "synapse-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	if err := os.Chmod(folder, 0o755); err != nil { // tasks run as other users
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	bin = folder
	flag.Parse()
	patience = pace.Of(patience)
	if err := flag.Set("test.parallel", strconv.Itoa(max(atOnce, runtime.GOMAXPROCS(0)))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", folder+"/", "../../cmd/...")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building the commands:", err)
		return 1
	}
	code := m.Run()
	if able.Containers.Lacks() == nil { // agents have then left the cgroups that they share
		if err := able.Sweep(filepath.Join(folder, "none"), carapace.Cgroups{}); err != nil {
			fmt.Fprintln(os.Stderr, "what containers left:", err)
			return 1
		}
	}
	return code
}

// process is one process of the cluster, with its output.
type process struct {
	name   string
	cmd    *exec.Cmd
	ended  chan struct{}
	silent chan struct{} // closed when its output has ended
	err    error         // error of its end; read after ended

	mu    sync.Mutex
	lines []logLine
	more  chan struct{} // closed and renewed with every line
}

type logLine struct {
	at   time.Time // when the line was printed, if it has a time; otherwise when it was read
	text string
}

// lineOf returns a line that was just read. The reader may have been delayed.
func lineOf(text string) logLine {
	const stamp = "2006/01/02 15:04:05.000000"
	if len(text) >= len(stamp) {
		if at, err := time.ParseInLocation(stamp, text[:len(stamp)], time.Local); err == nil {
			return logLine{at, text}
		}
	}
	return logLine{time.Now(), text}
}

// launch starts one of the programs, or the program at a path, in a separate process group. The test's end kills it.
func launch(t *testing.T, name, program string, args ...string) *process {
	t.Helper()
	if !filepath.IsAbs(program) {
		program = filepath.Join(bin, program)
	}
	p := &process{
		name: name, cmd: exec.Command(program, args...), ended: make(chan struct{}), silent: make(chan struct{}),
		more: make(chan struct{}),
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout, p.cmd.Stderr = write, write
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	go p.listen(read)
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s said:\n%s", name, p.said())
		}
	})
	return p
}

func (p *process) listen(from io.ReadCloser) {
	defer close(p.silent)
	defer from.Close()
	scanner := bufio.NewScanner(from)
	for scanner.Scan() {
		p.mu.Lock()
		p.lines = append(p.lines, lineOf(scanner.Text()))
		close(p.more)
		p.more = make(chan struct{})
		p.mu.Unlock()
	}
}

func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all strings.Builder
	for _, l := range p.lines {
		all.WriteString(l.text + "\n")
	}
	return all.String()
}

// find returns the first line that ends with the words, because an exact line follows its time.
func (p *process) find(words string) (logLine, bool, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lines {
		if l.text == words || strings.HasSuffix(l.text, " "+words) {
			return l, true, p.more
		}
	}
	return logLine{}, false, p.more
}

// says waits for an exact line.
func (p *process) says(t *testing.T, words string) logLine {
	t.Helper()
	limit := time.After(patience)
	for {
		found, ok, more := p.find(words)
		if ok {
			return found
		}
		select {
		case <-more:
		case <-limit:
			t.Fatalf("%s did not print %q within %s", p.name, words, patience)
		}
	}
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// kill ends the process as a crash would, and waits until it has released its resources. Its tasks are in separate
// groups.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// patience is the time for which a test waits for an event. Other tests keep the host busy for seconds, so it is no
// bound on speed. A test of speed compares the times of events, usually with inTime.
var patience = time.Minute

// cluster is the cluster of one test.
type cluster struct {
	t         *testing.T
	dir       string
	address   string
	scheduler *process
	client    api.SynapseClient
	requests  int
	driver    string // driver of tasks; empty: plain processes
	program   string // the scheduler's program; empty: as shipped
	tls       string // keys folder of the calling user; empty: plaintext
}

// newCluster starts a scheduler, for tests that give the same result on every host.
func newCluster(t *testing.T, more ...string) *cluster {
	t.Helper()
	everywhere(t)
	return newClusterHere(t, more...)
}

// everywhere skips a test in short runs, because its result does not depend on the host's permissions.
func everywhere(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: the same on every host")
	}
}

// newClusterHere starts a scheduler, for tests that depend on the host.
func newClusterHere(t *testing.T, more ...string) *cluster {
	t.Helper()
	t.Parallel()
	return newClusterOf(t, "", more...)
}

// newClusterOf starts a scheduler with another program.
func newClusterOf(t *testing.T, program string, more ...string) *cluster {
	t.Helper()
	dir, err := os.MkdirTemp("", "synapse-e2e-cluster-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, dir: dir, program: program}
	t.Cleanup(func() {
		killAll(dir) // a task outlives its agent
		os.RemoveAll(dir)
	})
	c.lead("127.0.0.1:0", more...)
	c.client = c.dial()
	return c
}

// dial connects to the scheduler.
func (c *cluster) dial() api.SynapseClient {
	c.t.Helper()
	proof := insecure.NewCredentials()
	if c.tls != "" {
		badge, err := credential.OpenBadge(c.tls, identity.People...)
		if err != nil {
			c.t.Fatal(err)
		}
		proof = badge.Credentials(nil)
	}
	conn, err := grpc.NewClient("passthrough:///"+c.address, grpc.WithTransportCredentials(proof))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { conn.Close() })
	return api.NewSynapseClient(conn)
}

// lead starts a scheduler on the cluster's data, and waits until it listens.
func (c *cluster) lead(at string, more ...string) {
	c.t.Helper()
	file := filepath.Join(c.dir, "address")
	os.Remove(file)
	args := append([]string{
		"--listen", at, "--listen-file", file, "--data-dir", filepath.Join(c.dir, "scheduler"), "--levels",
		"zone,rack", "--debug",
	}, more...)
	c.scheduler = launch(c.t, "scheduler", cmp.Or(c.program, "synapse-scheduler"), args...)
	for limit := pace.Until(10 * time.Second); time.Now().Before(limit); {
		if text, err := os.ReadFile(file); err == nil {
			c.address = strings.TrimSpace(string(text))
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	c.t.Fatalf("the scheduler does not listen:\n%s", c.scheduler.said())
}

// node starts a node's agent with 8 declared GPUs, and waits until it has joined.
func (c *cluster) node(id, rack string, more ...string) *process {
	c.t.Helper()
	p := c.agent(id, rack, more...)
	p.says(c.t, "Success! Master says: Welcome to Synapse")
	return p
}

// agent starts a node's agent.
func (c *cluster) agent(id, rack string, more ...string) *process {
	c.t.Helper()
	return launch(c.t, id, "synapse-node", c.agentArgs(id, rack, more...)...)
}

func (c *cluster) agentArgs(id, rack string, more ...string) []string {
	return append([]string{
		"--join", c.address, "--data-dir", filepath.Join(c.dir, id), "--id", id, "--topology", "zone=a,rack=" + rack,
		"--gpus", "8", "--cpus", "64", "--memory", "512Gi", "--address", "127.0.0.1", "--allow-root", "--debug",
		"--driver", cmp.Or(c.driver, "process"),
	}, more...)
}

// gang returns a job whose tasks each run a line of shell.
func gang(tasks int32, gpus float64, shell string) *messages.JobSpec {
	return &messages.JobSpec{
		Name: "gang", Image: "host", Command: []string{"/bin/sh", "-c", shell}, User: user(),
		Gang: &messages.GangSpec{ReplicasMin: tasks, ReplicasMax: tasks},
		Each: &messages.Resources{MilliCpu: 1000, MemoryBytes: 1 << 30, MilliGpu: int64(gpus * 1000)},
		Stop: &messages.StopSpec{Signal: int32(syscall.SIGTERM), GraceMs: 2000},
	}
}

// user returns the user of the tasks, because the tests write into their own folders.
func user() string {
	if os.Geteuid() == 0 {
		return "root"
	}
	return ""
}

func (c *cluster) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), pace.Of(20*time.Second))
	c.t.Cleanup(cancel)
	return ctx
}

// submit submits a job and returns its ID. It retries while the scheduler does not lead yet.
func (c *cluster) submit(spec *messages.JobSpec) string {
	c.t.Helper()
	c.requests++
	request := &messages.Submit{RequestId: fmt.Sprintf("r-%d", c.requests), Spec: spec, AllowInfeasible: true}
	reply, err := c.client.Submit(c.ctx(), request)
	for limit := pace.Until(10 * time.Second); status.Code(err) == codes.Unavailable && time.Now().Before(limit); {
		time.Sleep(20 * time.Millisecond)
		reply, err = c.client.Submit(c.ctx(), request)
	}
	if err != nil {
		c.t.Fatalf("submit: %v", err)
	}
	return reply.Job
}

// job returns a job as users see it. It retries while a new leader requests that.
func (c *cluster) job(id string) *messages.JobStatus {
	c.t.Helper()
	reply, err := c.client.GetJob(c.ctx(), &messages.GetJob{Job: id})
	for limit := pace.Until(10 * time.Second); status.Code(err) == codes.Unavailable && time.Now().Before(limit); {
		time.Sleep(20 * time.Millisecond)
		reply, err = c.client.GetJob(c.ctx(), &messages.GetJob{Job: id})
	}
	if err != nil {
		c.t.Fatalf("get %s: %v", id, err)
	}
	return reply.Job
}

// await waits until a job is in a phase.
func (c *cluster) await(id, phase string) *messages.JobStatus {
	c.t.Helper()
	return c.until(id, phase, func(s *messages.JobStatus) bool { return s.Phase == phase })
}

// until waits until a condition on a job holds.
func (c *cluster) until(id, what string, holds func(*messages.JobStatus) bool) *messages.JobStatus {
	c.t.Helper()
	return c.untilWithin(id, patience, what, holds)
}

// untilWithin is until with another bound.
func (c *cluster) untilWithin(id string, within time.Duration, what string,
	holds func(*messages.JobStatus) bool) *messages.JobStatus {
	c.t.Helper()
	limit := time.Now().Add(within)
	for {
		s := c.job(id)
		if holds(s) {
			return s
		}
		if time.Now().After(limit) {
			c.t.Fatalf("job %s is %s (%s), not %s within %s\n%v", id, s.Phase, s.Reason, what, within, s)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (c *cluster) cancel(id string) {
	c.t.Helper()
	if _, err := c.client.Cancel(c.ctx(), &messages.Cancel{Job: id, Reason: "test"}); err != nil {
		c.t.Fatalf("cancel: %v", err)
	}
}

// explain returns why a job waits.
func (c *cluster) explain(id string) string {
	c.t.Helper()
	// Answers are up to a tenth of a second old, so they may be older than the job.
	for limit := pace.Until(5 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		reply, err := c.client.ExplainJob(c.ctx(), &messages.ExplainJob{Job: id})
		if err != nil {
			c.t.Fatal(err)
		}
		if !strings.HasSuffix(reply.Text, "looks at the job next") || time.Now().After(limit) {
			return reply.Text
		}
	}
}

// logs returns the output of a job's members.
func (c *cluster) logs(id string) string {
	c.t.Helper()
	stream, err := c.client.ReadLogs(c.ctx(), &api.ReadLogs{Job: id})
	if err != nil {
		c.t.Fatalf("logs: %v", err)
	}
	var all strings.Builder
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return all.String()
		}
		if err != nil {
			c.t.Fatalf("logs: %v", err)
		}
		all.Write(part.Data)
		all.WriteString(part.Notice)
	}
}

// machine returns a node as users see it.
func (c *cluster) machine(id string) *messages.NodeStatus {
	c.t.Helper()
	reply, err := c.client.ListNodes(c.ctx(), &messages.ListNodes{})
	if err != nil {
		c.t.Fatalf("nodes: %v", err)
	}
	for _, n := range reply.Nodes {
		if n.Record.Id == id {
			return n
		}
	}
	c.t.Fatalf("node %s does not exist", id)
	return nil
}

// inTime fails the test unless one of three tries is within the limit. Slow code is slow each time, unlike a host that
// was busy for a moment.
func inTime(t *testing.T, what string, limit time.Duration, try func() time.Duration) {
	t.Helper()
	limit = pace.Of(limit)
	var took []time.Duration
	for range 3 {
		d := try()
		if took = append(took, d); d <= limit {
			return
		}
	}
	t.Errorf("%s may take %s, but took longer each time: %v", what, limit, took)
}
