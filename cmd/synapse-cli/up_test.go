//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/server/authn"
	"github.com/yi-json/synapse/test/able/pace"
)

// TestMain lets the test binary act as any program of a cluster, selected by its name.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "synapse-cli":
		main()
	case "synapse-scheduler":
		fakeScheduler(flagsOf(os.Args[1:]))
	case "synapse-node":
		if os.Args[1] == "leftovers" {
			fmt.Println(0)
			syscall.Exit(0) // os.Exit waits a second under the race detector, which would delay up
		}
		fakeNode(flagsOf(os.Args[1:]))
	case "task":
		signal.Ignore(syscall.SIGTERM)
		time.Sleep(time.Minute) // longer than any test, so a process that remains is detected
	default:
		time.Local = time.UTC          // the expected output is the same on every host
		soonEnded = pace.Of(soonEnded) // the child process runs no tests
		os.Exit(m.Run())
	}
}

// flagsOf parses --name value pairs.
func flagsOf(args []string) map[string]string {
	flags := map[string]string{}
	for i := 0; i < len(args); i++ {
		name := strings.TrimPrefix(args[i], "--")
		if i+1 == len(args) || strings.HasPrefix(args[i+1], "--") {
			flags[name] = "" // a switch
			continue
		}
		i++
		flags[name] = args[i]
	}
	return flags
}

func fatal(err error) {
	if err != nil {
		fmt.Println("fake:", err)
		os.Exit(99)
	}
}

// fakeScheduler answers for the nodes whose files are in the folder next to its own.
func fakeScheduler(flags map[string]string) {
	listener, err := net.Listen("tcp", flags["listen"])
	fatal(err)
	fmt.Println("Synapse Master running")
	folder, err := identity.OpenFolder(flags["tls"])
	fatal(err)
	entrance, err := authn.New(authn.Options{Folder: folder})
	fatal(err)
	server := grpc.NewServer(grpc.Creds(entrance.Credentials()))
	api.RegisterSynapseServer(server, &neighbours{dir: filepath.Dir(flags["data-dir"])})
	fatal(os.WriteFile(flags["listen-file"]+".new", []byte(listener.Addr().String()+"\n"), 0o600))
	fatal(os.Rename(flags["listen-file"]+".new", flags["listen-file"]))
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	go func() { <-ended; os.Exit(0) }()
	fatal(server.Serve(listener))
}

type neighbours struct {
	api.UnimplementedSynapseServer
	dir string
}

func (n *neighbours) ListNodes(context.Context, *messages.ListNodes) (*messages.ListNodesReply, error) {
	files, err := filepath.Glob(filepath.Join(n.dir, "*", "joined"))
	reply := &messages.ListNodesReply{Outcome: ok()}
	for _, file := range files {
		reply.Nodes = append(reply.Nodes, machine(filepath.Base(filepath.Dir(file))))
	}
	return reply, err
}

func (n *neighbours) ListJobs(context.Context, *messages.ListJobs) (*messages.ListJobsReply, error) {
	return &messages.ListJobsReply{Outcome: ok()}, nil
}

// fakeNode starts a task in a separate session, like a real node, and joins.
func fakeNode(flags map[string]string) {
	fmt.Println("Starting Worker Node - ID: " + flags["id"])
	if os.Getenv("FAKE_DIES") == flags["id"] {
		fmt.Println("no GPUs here\nI give up")
		os.Exit(3)
	}
	if os.Getenv("FAKE_STUBBORN") != "" {
		signal.Ignore(syscall.SIGTERM)
	}
	self, err := os.Executable()
	fatal(err)
	task := exec.Command(self)
	task.Args = []string{"task"}
	task.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	fatal(task.Start())
	text := fmt.Sprintf("%d %d %s", os.Getpid(), task.Process.Pid, strings.Join(os.Args[1:], " "))
	fatal(os.WriteFile(filepath.Join(flags["data-dir"], "joined.new"), []byte(text), 0o600))
	if os.Getenv("FAKE_ABSENT") != flags["id"] {
		fatal(os.Rename(filepath.Join(flags["data-dir"], "joined.new"), filepath.Join(flags["data-dir"], "joined")))
	}
	time.Sleep(time.Minute)
}

// running is an `up` in a separate process.
type running struct {
	cmd    *exec.Cmd
	dir    string
	stdout *bufio.Reader
	stderr *lines
}

// startUp runs `up` with the test binary as every program.
func startUp(t *testing.T, env []string, args ...string) *running {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	for _, name := range []string{"synapse-cli", "synapse-scheduler", "synapse-node"} {
		if err := os.Symlink(self, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	r := &running{cmd: exec.Command(filepath.Join(bin, "synapse-cli"), append([]string{"up"}, args...)...),
		dir: t.TempDir(), stderr: &lines{}}
	r.cmd.Env = append(append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "TMPDIR="+r.dir,
		"SYNAPSE_NODE_JOIN=nowhere:1"), env...)
	r.cmd.Stderr = r.stderr
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.stdout = bufio.NewReader(out)
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.cmd.Process.Kill() })
	return r
}

// ready waits for the ready line, and returns the address and the state folder.
func (r *running) ready(t *testing.T) (address, dir string) {
	t.Helper()
	line, err := r.stdout.ReadString('\n')
	if err != nil {
		_ = r.cmd.Wait()
		t.Fatalf("no line: %v: %s", err, r.stderr)
	}
	if !strings.HasPrefix(line, "ready: scheduler 127.0.0.1:") {
		t.Fatalf("%q", line)
	}
	var config string
	await(t, "the settings", func() bool { // both outputs are read concurrently
		_, rest, _ := strings.Cut(r.stderr.String(), "SYNAPSE_CONFIG=")
		var whole bool
		config, _, whole = strings.Cut(rest, "\n")
		return whole
	})
	return strings.TrimSuffix(strings.Fields(line)[2], ","), filepath.Dir(config)
}

// end waits for the end, and returns the exit code and the duration.
func (r *running) end(t *testing.T) (int, time.Duration) {
	t.Helper()
	began := time.Now()
	_, _ = io.Copy(io.Discard, r.stdout)
	err := r.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return r.cmd.ProcessState.ExitCode(), time.Since(began)
}

// joined returns the process IDs and the flags of nodes and their tasks.
func joined(t *testing.T, dir string) (pids []int, flags []map[string]string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "joined*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		words := strings.Fields(string(text))
		for _, word := range words[:2] {
			pid, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
		flags = append(flags, flagsOf(words[2:]))
	}
	return pids, flags
}

// alive reports whether a process exists and is not a zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func wantGone(t *testing.T, pids []int) {
	t.Helper()
	await(t, fmt.Sprintf("the end of %v", pids), func() bool { return !slices.ContainsFunc(pids, alive) })
}

// soonEnded limits the time until a cluster has ended. By design it takes up to 3.5 s. A process that remains lives
// for a minute.
var soonEnded = 20 * time.Second

func TestUp(t *testing.T) {
	keep := filepath.Join(t.TempDir(), "cluster")
	r := startUp(t, nil, "--nodes", "3", "--racks", "2", "--gpus", "4", "--data-dir", keep, "--verbose")
	address, dir := r.ready(t)
	if dir != keep {
		t.Errorf("state is in %s, want %s", dir, keep)
	}
	cliWith("", "", map[string]string{"SYNAPSE_CONFIG": filepath.Join(dir, "cli.yaml")}, "get", "nodes", "-q").wants(t,
		0, "node-1\nnode-2\nnode-3\n", "")
	pids, flags := joined(t, dir)
	if len(pids) != 6 || slices.ContainsFunc(pids, func(pid int) bool { return !alive(pid) }) {
		t.Fatalf("nodes and tasks are %v", pids)
	}
	var racks, addresses []string
	var ranges [][2]int
	for _, f := range flags {
		if f["join"] != address || f["gpus"] != "4" || f["cpus"] != "32" || f["memory"] != "256Gi" ||
			!strings.HasPrefix(f["address"], "127.") {
			t.Errorf("%v", f)
		}
		if slices.Contains(addresses, f["address"]) {
			t.Errorf("two nodes have the address %s", f["address"])
		}
		addresses = append(addresses, f["address"])
		racks = append(racks, f["topology"])
		var a, b int
		if n, err := fmt.Sscanf(f["ports"], "%d-%d", &a, &b); n != 2 || err != nil || b < a {
			t.Errorf("ports %q", f["ports"])
		}
		ranges = append(ranges, [2]int{a, b})
	}
	if got := strings.Join(racks, " "); got != "zone=local,rack=r1 zone=local,rack=r1 zone=local,rack=r2" {
		t.Errorf("racks are %s", got)
	}
	if ranges[0][1] >= ranges[1][0] || ranges[1][1] >= ranges[2][0] {
		t.Errorf("ports are not disjoint: %v", ranges)
	}
	if err := r.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code, took := r.end(t); code != 0 || took > soonEnded {
		t.Errorf("ends with %d after %s: %s", code, took, r.stderr)
	}
	wantGone(t, pids)
	log, err := os.ReadFile(filepath.Join(keep, "logs", "node-2.log"))
	if err != nil || !strings.Contains(string(log), "ID: node-2") ||
		!strings.Contains(r.stderr.String(), "node-2    | Starting Worker Node - ID: node-2\n") {
		t.Errorf("%v: log %q, shown %s", err, log, r.stderr)
	}
}

// TestUpLeavesNothing checks that without --data-dir the state is removed, and that nodes that ignore SIGTERM end
// too.
func TestUpLeavesNothing(t *testing.T) {
	r := startUp(t, []string{"FAKE_STUBBORN=1"}, "--nodes", "2")
	_, dir := r.ready(t)
	pids, _ := joined(t, dir)
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code, took := r.end(t); code != 0 || took > soonEnded {
		t.Errorf("ends with %d after %s: %s", code, took, r.stderr)
	}
	wantGone(t, pids)
	if left, err := os.ReadDir(r.dir); err != nil || len(left) > 0 {
		t.Errorf("%v left, %v", left, err)
	}
	if strings.Contains(r.stderr.String(), "Starting Worker") {
		t.Errorf("the output of the processes is printed by default: %s", r.stderr)
	}
}

// TestASecondSignalEndsAtOnce checks that no wait remains after the second signal. Several tries are made, because
// a busy host may be slow once.
func TestASecondSignalEndsAtOnce(t *testing.T) {
	var took []time.Duration
	for range 3 {
		d := endedTwice(t)
		if took = append(took, d); d <= 2*time.Second {
			return
		}
	}
	t.Errorf("a second signal ended it after %v", took)
}

// endedTwice returns how long a cluster lived after the second signal.
func endedTwice(t *testing.T) time.Duration {
	r := startUp(t, []string{"FAKE_STUBBORN=1"}, "--nodes", "1")
	_, dir := r.ready(t)
	pids, _ := joined(t, dir)
	if err := r.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	await(t, "the first signal's words", func() bool {
		return strings.Contains(r.stderr.String(),
			"stopping the cluster")
	})
	if err := r.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	code, took := r.end(t)
	if code != 0 {
		t.Errorf("ends with %d after %s: %s", code, took, r.stderr)
	}
	wantGone(t, pids)
	return took
}

// TestUpIsKilled checks that the kernel ends the processes of a killed `up`.
func TestUpIsKilled(t *testing.T) {
	r := startUp(t, nil, "--nodes", "2")
	_, dir := r.ready(t)
	pids, _ := joined(t, dir)
	if err := r.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	r.end(t)
	wantGone(t, []int{pids[0], pids[2]}) // the tasks outlive their nodes by design
	for _, task := range []int{pids[1], pids[3]} {
		if err := syscall.Kill(task, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	}
	wantGone(t, pids)
}

func TestANodeThatDies(t *testing.T) {
	r := startUp(t, []string{"FAKE_DIES=node-2"}, "--nodes", "2")
	code, took := r.end(t)
	if code != exit.Failed || took > pace.Of(10*time.Second) ||
		!strings.Contains(r.stderr.String(),
			"  no GPUs here\n  I give up\nsynapse-cli: node-2 ended: exit status 3\nhint: ") {
		t.Errorf("%d after %s: %s", code, took, r.stderr)
	}
	if left, err := os.ReadDir(r.dir); err != nil || len(left) > 0 {
		t.Errorf("%v left, %v", left, err)
	}
}

func TestANodeThatDoesNotJoin(t *testing.T) {
	r := startUp(t, []string{"FAKE_ABSENT=node-1"}, "--nodes", "2", "--join-timeout", "5s") // the other node must start
	if code, _ := r.end(t); code != exit.TimedOut ||
		!strings.Contains(r.stderr.String(), "1 of 2 nodes joined in time") {
		t.Errorf("%d: %s", code, r.stderr)
	}
}

func TestUpWithoutPrograms(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	cli("", "up").wants(t, exit.Failed, "", "synapse-scheduler not found next to this program or in PATH\nhint: ")
}
