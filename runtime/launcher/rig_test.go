package launcher_test

import (
	"bufio"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	ports "github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/cluster/link"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/launcher"
	"github.com/yi-json/synapse/runtime/process"
	"github.com/yi-json/synapse/runtime/supervisor"
	"github.com/yi-json/synapse/test/able/pace"
	"github.com/yi-json/synapse/topology"
)

// This file provides the test rig of the launcher: real supervisors, real processes, and an agent that can run as a
// separate process and be killed.

// TestMain runs this test binary as a supervisor or as the agent that is killed, if its arguments say so.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case supervisor.SubCommand:
			syscall.Exit(supervisor.Main(os.Args[2:])) // With the race detector, os.Exit waits for a second.
		case "agent":
			agent(os.Args[2], os.Args[3:])
		case "execs":
			execsOfAgent(os.Args[2])
		case "line":
			sendLine(os.Args[2], os.Args[3:])
		}
	}
	soon = pace.Of(soon) // a child of this binary measures nothing
	os.Exit(m.Run())
}

var soon = 30 * time.Second

// rig holds an agent's launcher and an actor that receives its answers.
type rig struct {
	t      testing.TB
	dir    string
	l      *launcher.Launcher
	system *actor.ActorSystem
	pid    *actor.PID

	mu  sync.Mutex
	got []any
}

// room returns a directory that the tasks' user can reach, like a data directory.
func room(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil { // the parent made by t.TempDir is private to one user
		t.Fatal(err)
	}
	return dir
}

// quiet is a log that shows its lines only if the test fails.
type quiet struct {
	ports.NoLog
	t testing.TB
}

func (q quiet) Info(format string, args ...any) {
	if q.t != nil {
		q.t.Logf(format, args...)
	}
}

// actors returns an actor system without logs.
func actors() *actor.ActorSystem {
	return actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }),
	)
}

func options(dir string) launcher.Options {
	return launcher.Options{
		System: actors(), Log: quiet{}, Dir: dir, BootID: "boot-1",
		Supervisor: []string{"/proc/self/exe", supervisor.SubCommand},
		Drivers:    []launcher.Driver{process.New(process.Options{Cgroups: os.Getenv("SYNAPSE_TEST_CGROUPS")})},
	}
}

func newRig(t testing.TB, dir string, change func(*launcher.Options)) *rig {
	t.Helper()
	o := options(dir)
	if change != nil {
		change(&o)
	}
	l, err := launcher.New(o)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, dir: dir, l: l, system: o.System}
	r.pid = o.System.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		if m, ok := ctx.Message().(interface{ Validate() error }); ok {
			r.mu.Lock()
			defer r.mu.Unlock()
			if err := m.Validate(); err != nil {
				t.Errorf("the launcher said %v: %v", m, err)
			}
			r.got = append(r.got, m)
		}
	}, actor.WithMailbox(link.Mailbox)))
	t.Cleanup(func() {
		for k := range r.keys() {
			r.l.Tell(&messages.StopTask{Id: messages.ToTaskID(k), Signal: 9}, nil)
		}
		for k := range r.keys() {
			eventually(t, "a supervisor is left", func() bool {
				alive, err := supervisor.Lives(filepath.Join(dir, "tasks", k.String()))
				return err != nil || !alive
			})
		}
		r.close()
	})
	return r
}

func (r *rig) close() {
	r.l.Close()
	r.system.Shutdown()
}

// keys returns the tasks that have a directory.
func (r *rig) keys() map[topology.TaskKey]bool {
	keys := map[topology.TaskKey]bool{}
	entries, _ := os.ReadDir(filepath.Join(r.dir, "tasks"))
	for _, e := range entries {
		if k, ok := launcher.ParseKey(e.Name()); ok {
			keys[k] = true
		}
	}
	return keys
}

func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	if !pace.Wait(soon, holds) {
		t.Fatal(what)
	}
}

func (r *rig) tell(command any) { r.l.Tell(command, r.pid) }

// take waits for a message of this type about this task and removes it. A negative rank matches any task.
func take[M any](r *rig, rank int32) M {
	r.t.Helper()
	var found M
	var other []any
	for end := time.Now().Add(soon); ; time.Sleep(500 * time.Microsecond) {
		r.mu.Lock()
		for i, m := range r.got {
			about, ok := m.(interface{ GetId() *messages.TaskId })
			if match, is := m.(M); is && (rank < 0 || ok && about.GetId().GetRank() == rank) {
				r.got = append(r.got[:i:i], r.got[i+1:]...)
				r.mu.Unlock()
				return match
			}
		}
		other = r.got
		r.mu.Unlock()
		if time.Now().After(end) {
			r.t.Fatalf("no %T about rank %d; there was %v", found, rank, other)
		}
	}
}

func (r *rig) silent() {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	// What a task does is reported at any time.
	other := slices.DeleteFunc(slices.Clone(r.got), func(m any) bool {
		p, is := m.(*messages.TaskProgress)
		return is && (p.State != nil || p.Use != nil) && p.ChangedNs == 0
	})
	if len(other) > 0 {
		r.t.Errorf("it also said %v", other)
	}
}

func id(rank int32) *messages.TaskId {
	return &messages.TaskId{Token: &messages.Token{Epoch: 3, Counter: 7}, Rank: rank}
}

func script(lines string) *messages.JobSpec {
	return &messages.JobSpec{Name: "test", Image: "host", Command: []string{"/bin/sh", "-c", lines}}
}

func prepareOf(rank int32, spec *messages.JobSpec) *messages.PrepareTask {
	return &messages.PrepareTask{Id: id(rank), Job: "job-1", Spec: spec, Grant: &messages.Grant{Rank: rank}}
}

func startOf(rank int32, spec *messages.JobSpec) *messages.StartTask {
	return &messages.StartTask{
		Id: id(rank), Job: "job-1", Spec: spec, Grant: &messages.Grant{Rank: rank}, JobName: "test", Run: 1, Node: "node-1",
		Rendezvous: &messages.Rendezvous{
			Address: "127.0.0.1", Port: 20000, Peers: []*messages.Peer{{Rank: rank, Node: "node-1", Address: "127.0.0.1"}},
		},
	}
}

// run prepares and starts a task.
func (r *rig) run(rank int32, spec *messages.JobSpec) {
	r.t.Helper()
	r.tell(prepareOf(rank, spec))
	take[*messages.TaskPrepared](r, rank)
	r.tell(startOf(rank, spec))
}

// untilGo makes a script wait for letGo.
const untilGo = "while [ ! -e go ]; do sleep 0.05; done; "

func letGo(t testing.TB, dir string, rank int32) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "scratch", id(rank).Key().String(), "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) gone(rank int32) *messages.Exit {
	r.t.Helper()
	return take[*messages.TaskGone](r, rank).Exit
}

// agent is the main function of an agent process. It runs one script per rank, reports when all have started, and waits
// to be killed.
func agent(dir string, scripts []string) {
	o := options(dir)
	l, err := launcher.New(o)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	left := len(scripts)
	pid := o.System.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		switch m := ctx.Message().(type) {
		case *messages.TaskStarted:
			if left--; left == 0 {
				fmt.Println("started")
			}
		case *messages.TaskGone:
			if left > 0 {
				fmt.Println(m)
			}
		}
	}, actor.WithMailbox(link.Mailbox)))
	for i, s := range scripts {
		spec := script(s)
		spec.StopWhenLostMs, spec.Stop = 60_000, &messages.StopSpec{Signal: 15, GraceMs: 45_000}
		l.Tell(prepareOf(int32(i), spec), pid)
		l.Tell(startOf(int32(i), spec), pid)
	}
	select {}
}

// killedAgent runs scripts under a separate agent process and kills the agent with SIGKILL after they have started.
func killedAgent(t *testing.T, dir string, scripts ...string) {
	t.Helper()
	c, lines := startSelf(t, append([]string{"agent", dir}, scripts...)...)
	line := lines(t)
	killed(t, c)
	if line != "started" {
		t.Fatalf("the agent said %q", line)
	}
}

// startSelf starts this test binary as a separate process, which ends with the test at the latest. lines returns its
// next line, and fails the test after a timeout.
func startSelf(t *testing.T, args ...string) (c *exec.Cmd, lines func(*testing.T) string) {
	t.Helper()
	c = exec.Command("/proc/self/exe", args...)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill() })
	from := bufio.NewReader(out)
	return c, func(t *testing.T) string {
		t.Helper()
		if err := out.(*os.File).SetReadDeadline(time.Now().Add(soon)); err != nil {
			t.Fatal(err)
		}
		line, err := from.ReadString('\n')
		if err != nil {
			t.Fatalf("%q said %q, and then: %v", args, line, err)
		}
		return strings.TrimSpace(line)
	}
}

func killed(t *testing.T, c *exec.Cmd) {
	t.Helper()
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
}
