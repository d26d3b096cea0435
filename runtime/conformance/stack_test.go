//go:build linux

// This file runs the suite on the parts of a node: the launcher, a supervisor per task, and a driver. Requests that the
// launcher does not offer to jobs are declared as missing traits.
package conformance

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/cluster/link"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/account"
	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/runtime/container"
	"github.com/yi-json/synapse/runtime/egress"
	"github.com/yi-json/synapse/runtime/hostpolicy"
	"github.com/yi-json/synapse/runtime/launcher"
	"github.com/yi-json/synapse/runtime/process"
	"github.com/yi-json/synapse/runtime/supervisor"
)

// stack holds a node's launcher and the actor that receives its answers.
type stack struct {
	launcher *launcher.Launcher
	options  launcher.Options
	pid      *actor.PID
	dir      string
	cgroups  carapace.Cgroups // parent groups of another program's containers
	image    string           // empty: the task's rootfs
	noise    []byte           // output of a driver's program before that of the task
	lacks    map[Trait]string
	leavings func() ([]string, error)
	remake   func() (launcher.Driver, error) // makes the driver of the next agent; nil: the driver has no memory
	besides  func(*messages.JobSpec)         // changes the jobs; nil: no change
	drawn    atomic.Uint64
	runs     sync.Map // of *staged, by the counter of their token
}

type silence struct {
	actors.NoLog
	t testing.TB
}

func (s silence) Info(format string, args ...any) { s.t.Logf(format, args...) }

func newStack(t testing.TB, binary string, driver launcher.Driver) *stack {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil { // the parent made by t.TempDir is private to one user
		t.Fatal(err)
	}
	system := actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }),
	)
	s := &stack{dir: filepath.Join(dir, "launcher")}
	s.options = launcher.Options{
		System: system, Log: silence{t: t}, Dir: s.dir, BootID: "boot",
		Supervisor: []string{binary, supervisor.SubCommand}, Drivers: []launcher.Driver{driver},
	}
	var err error
	if s.launcher, err = launcher.New(s.options); err != nil {
		t.Fatal(err)
	}
	s.leavings = func() ([]string, error) { return filepath.Glob(filepath.Join(s.dir, "tasks", "*")) }
	hear := func(ctx actor.Context) { s.hear(ctx.Message()) }
	s.pid = system.Root.Spawn(actor.PropsFromFunc(hear, actor.WithMailbox(link.Mailbox)))
	t.Cleanup(func() {
		s.launcher.Close()
		system.Shutdown()
	})
	return s
}

// restart ends the agent, calls meanwhile, and starts the next agent.
func (s *stack) restart(t testing.TB, meanwhile func()) {
	t.Helper()
	s.launcher.Close()
	meanwhile()
	if s.remake != nil {
		driver, err := s.remake()
		if err != nil {
			t.Fatal(err)
		}
		s.options.Drivers = []launcher.Driver{driver}
	}
	var err error
	if s.launcher, err = launcher.New(s.options); err != nil {
		t.Fatal(err)
	}
}

func (s *stack) hear(message any) {
	about, ok := message.(interface{ GetId() *messages.TaskId })
	if !ok {
		return
	}
	found, ok := s.runs.Load(about.GetId().GetToken().GetCounter())
	if !ok {
		return
	}
	p := found.(*staged)
	switch m := message.(type) {
	case *messages.TaskPrepared:
		close(p.prepared)
	case *messages.TaskStarted:
		p.running.Do(func() { close(p.started) })
	case *messages.TaskWarned:
		p.told.Store(m.Number)
	case *messages.TaskGone:
		p.running.Do(func() { close(p.started) })
		p.once.Do(func() { // each request for the end repeats it
			p.exit = m.Exit
			close(p.gone)
		})
	}
}

func (s *stack) Lacks(trait Trait) string    { return s.lacks[trait] }
func (s *stack) Leavings() ([]string, error) { return s.leavings() }

// staged is a task of the launcher.
type staged struct {
	of            *stack
	id            *messages.TaskId
	spec          *messages.JobSpec
	grant         *messages.Grant
	job           string // empty: one common job
	uid           uint32 // of the job; 0: none was given
	exit          *messages.Exit
	told          atomic.Uint64 // the number of the last warning to the launcher
	running, once sync.Once
	prepared      chan struct{}
	started       chan struct{} // closed when it has started, or ended before that
	gone, done    chan struct{}
}

// prepare lets the launcher prepare a task.
func (s *stack) prepare(task Task) (*staged, error) {
	counter := s.drawn.Add(1)
	p := &staged{
		of: s, id: &messages.TaskId{Token: &messages.Token{Epoch: 1, Counter: counter}}, spec: s.job(task),
		grant:    &messages.Grant{Amount: &messages.Resources{MemoryBytes: task.MemoryBytes, MilliCpu: task.MilliCPU}},
		prepared: make(chan struct{}), started: make(chan struct{}), gone: make(chan struct{}), done: make(chan struct{}),
	}
	s.runs.Store(counter, p)
	s.launcher.Tell(&messages.PrepareTask{Id: p.id, Job: "job", Spec: p.spec, Grant: p.grant}, s.pid)
	select {
	case <-p.prepared:
		return p, nil
	case <-p.gone:
		s.runs.Delete(counter)
		s.launcher.Tell(&messages.ForgetTask{Id: p.id}, nil)
		return nil, coded{errors.New(p.exit.Detail), carapace.CodeSetupFailed}
	case <-time.After(limit):
		return nil, fmt.Errorf("it was not prepared within %v", limit)
	}
}

func (s *stack) job(task Task) *messages.JobSpec {
	spec := &messages.JobSpec{
		Name: "conformance", Image: s.image, Command: task.Command, User: task.User, DiskBytes: task.DiskBytes,
	}
	if spec.Image == "" {
		spec.Image = task.Rootfs
		_ = os.Chmod(filepath.Dir(task.Rootfs), 0o711) // the launcher refuses a root directory that its user cannot reach
	}
	if spec.User == "" && os.Geteuid() == 0 {
		spec.User = "0"
	}
	for _, line := range task.Env {
		name, value, _ := strings.Cut(line, "=")
		spec.Env = append(spec.Env, &messages.EnvVar{Name: name, Value: value})
	}
	for target, source := range task.Mounts {
		spec.Mounts = append(spec.Mounts, &messages.Mount{Source: source, Target: target})
	}
	if s.besides != nil {
		s.besides(spec)
	}
	return spec
}

// start starts a prepared task.
func (p *staged) start() {
	peers := []*messages.Peer{{Node: "here", Address: "127.0.0.1"}}
	if p.spec.GetGang().GetReplicasMin() == 2 {
		peers = append(peers, &messages.Peer{Rank: 1, Node: "there", Address: "127.0.0.2"})
	}
	p.of.launcher.Tell(&messages.StartTask{
		Id: p.id, Job: cmp.Or(p.job, "job"), Spec: p.spec, Uid: p.uid, Grant: p.grant, JobName: "conformance", Run: 1,
		Node:       "here",
		Rendezvous: &messages.Rendezvous{Address: "127.0.0.1", Port: 20000, Peers: peers},
	}, p.of.pid)
}

func (s *stack) Start(task Task) (Running, error) {
	p, err := s.prepare(task)
	if err != nil {
		return nil, err
	}
	var copies []func() bool
	var ends []*os.File
	for stream, to := range map[string]*os.File{supervisor.Stdout: task.Stdout, supervisor.Stderr: task.Stderr} {
		if to != nil {
			fd, err := syscall.Dup(int(to.Fd())) // the suite closes its own copy, as after a fork
			if err != nil {
				return nil, err
			}
			end := os.NewFile(uintptr(fd), stream)
			copies, ends = append(copies, p.copying(stream, end)), append(ends, end)
		}
	}
	p.start()
	go p.see(copies, ends)
	return p, nil
}

func (p *staged) home() string {
	return filepath.Join(p.of.dir, "tasks", p.id.Key().String())
}

// copying returns a function that copies the next part of a stream; false: there is none now.
func (p *staged) copying(stream string, to *os.File) func() bool {
	var offset int64
	noise := p.of.noise // it precedes the task's output, in one or several parts
	return func() bool {
		at, part, _, err := supervisor.ReadLog(p.home(), stream, offset, 1<<16)
		if err != nil || len(part) == 0 {
			return false
		}
		offset = at + int64(len(part))
		if bytes.HasPrefix(noise, part) {
			noise = noise[len(part):]
			return true
		}
		_, _ = to.Write(bytes.TrimPrefix(part, noise))
		noise = nil
		return true
	}
}

// see copies the output until the task has ended, and then makes the launcher forget it.
func (p *staged) see(copies []func() bool, ends []*os.File) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for over := false; !over; {
		select {
		case <-p.gone:
			over = true
		case <-tick.C:
			if len(copies) == 0 {
				<-p.gone
			}
		}
		for _, more := range copies {
			for more() {
			}
		}
	}
	for _, end := range ends {
		end.Close()
	}
	p.of.launcher.Tell(&messages.ForgetTask{Id: p.id}, nil)
	for { // the suite limits this with its wait for Done
		if _, err := os.Stat(p.home()); os.IsNotExist(err) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	p.of.runs.Delete(p.id.Token.Counter)
	close(p.done)
}

func (p *staged) Done() <-chan struct{} { return p.done }
func (p *staged) Kill() error {
	p.of.launcher.Tell(&messages.StopTask{Id: p.id, Signal: int32(syscall.SIGKILL)}, p.of.pid)
	return nil
}
func (p *staged) Signal(signal syscall.Signal) error {
	<-p.started // the output may be visible before the start is reported, and signals are not passed on before that
	p.of.launcher.Tell(&messages.SignalTask{Id: p.id, Signal: int32(signal)}, p.of.pid)
	return nil
}
func (p *staged) Exit() Exit { return Exit{Code: int(p.exit.Code), OOM: p.exit.Oom} }

const notOfAJob = "no job can ask for it"

// allRoot lets the suite's tasks run as root, as most cases need.
var allRoot = account.Rules{AllowRoot: true}

// newContainers returns the stack with carapace.
func newContainers(t testing.TB) *stack { return containersFor(t, allRoot) }

func containersFor(t testing.TB, users account.Rules, policy ...hostpolicy.Policy) *stack {
	t.Helper()
	place := newLibrary(t)
	binary := buildCommand(t)
	options := container.Options{
		Binary: binary, StateDir: place.options.StateDir, Cgroups: place.options.Cgroups, Users: users, MaxProcesses: 64,
		Unreachable: func() []egress.Place { return withheld }, Private: networks,
	}
	for _, options.Policy = range policy {
	}
	made := func() (launcher.Driver, error) {
		driver, err := container.New(options)
		if err == nil {
			err = driver.Check(context.Background())
		}
		return driver, err
	}
	driver, err := made()
	if err != nil {
		t.Fatal(err)
	}
	s := newStack(t, binary, driver)
	s.remake = made
	own := s.leavings
	s.leavings = func() ([]string, error) {
		tasks, err := own()
		containers, wrong := place.Leavings()
		return append(tasks, containers...), errors.Join(err, wrong)
	}
	s.lacks = map[Trait]string{
		PidsExact: notOfAJob, Devices: notOfAJob, Handed: "its output is kept in files", Memory: place.Lacks(Memory),
		ReportsOOM: place.Lacks(ReportsOOM), Pids: place.Lacks(Pids), Namespaces: place.Lacks(Namespaces),
		ExecSessions: place.Lacks(ExecSessions),
	}
	return s
}

// TestContainersOfAMachine runs the suite on launcher, supervisor and carapace.
func TestContainersOfAMachine(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: builds a binary, and TestCarapace has the same cases")
	}
	Run(t, newContainers(t))
}

func newProcesses(t testing.TB) *stack { return processesFor(t, allRoot) }

func processesFor(t testing.TB, users account.Rules, policy ...hostpolicy.Policy) *stack {
	t.Helper()
	options := process.Options{Users: users}
	for _, options.Policy = range policy {
	}
	s := newStack(t, buildCommand(t), process.New(options))
	s.image = process.HostImage
	const none = "plain processes are not isolated"
	s.lacks = map[Trait]string{
		Rootfs: none, Namespaces: none, Memory: none, Pids: none, Devices: none, ReportsOOM: none, PidsExact: none,
		PlainRoot: none, SetupCode: none, Handed: "its output is kept in files",
	}
	return s
}

// TestProcessesOfAMachine runs the suite on launcher, supervisor and plain processes.
func TestProcessesOfAMachine(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: builds a binary")
	}
	Run(t, newProcesses(t))
}
