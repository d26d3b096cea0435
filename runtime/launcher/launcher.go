package launcher

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/hook"
	"github.com/yi-json/synapse/topology"
)

// Launcher owns the machine's tasks. Tell never waits: each task has a line of its own, which executes its commands one
// after the other and answers the actor that asked last.
type Launcher struct {
	o Options

	mu     sync.Mutex
	tasks  map[topology.TaskKey]*task
	uses   map[uint32]*use // by uid
	kept   leavings
	node   *actor.PID // the actor that asked for the tasks, and is told of uids
	heard  int64      // of the newest KeepTasks
	closed bool
	done   chan struct{} // closed with it

	scripts map[string]int           // how many tasks need each
	fetches map[string]chan struct{} // those that are being fetched

	jobs    sync.WaitGroup // what is under way
	pruning sync.Mutex
	watch   watch

	promising sync.Mutex // room on the disk is promised to one task at a time

	pruneWaits atomic.Bool // one waits for its turn
	keptMore   atomic.Bool // since the guard of the disk looked
	loaded     atomic.Bool // all tasks of the last agent are known
}

// Options holds the settings of a launcher.
type Options struct {
	System *actor.ActorSystem // answers are sent through its root
	Log    actors.Log
	// Dir is the launcher's own directory. It is made if it does not exist, and other users may pass through it to their
	// tasks' scratch directories.
	Dir    string
	BootID string
	// Supervisor is the command that calls supervisor.Main with the arguments that follow; the directory is added.
	Supervisor []string
	// Drivers: the first one runs new tasks; the others look after tasks that they made under an earlier agent.
	Drivers []Driver
	Gpus    []*messages.Gpu // as the machine announced them
	// Scripts fetches the text of a job's script, however long it takes; nil: there are none.
	Scripts func(ctx context.Context, digest string) ([]byte, error)
	// Health checks the machine; nil: nothing does.
	Health Health
	// Secrets fetches the secrets of an attempt's job, with their values, however long it takes; nil: there are none.
	Secrets func(ctx context.Context, job string, attempt *messages.Token) ([]*messages.Secret, error)
	// Evict removes cached images that nobody uses and that are on the disk of Dir, until enough reports that there is
	// room; nil: there are none.
	Evict func(enough func() bool) error
	// Around runs what the machine's owner has run before and after each job; nil: there is nothing.
	Around *hook.Around
	// Carry comes for an exec session that a scheduler waits for under this name, and has do run it; nil: none are run.
	Carry func(ctx context.Context, session string, do func(Wire) error) error
	// Reach has a scheduler run a command in another task, and do what comes of it; nil: tasks reach no others.
	Reach func(ctx context.Context, r ExecRequest, do func(RemoteExec) error) error
	// Helper is the program that tasks are shown as synapse-exec, as an absolute path; empty: they have none.
	Helper string
	// Grace is the grace of a supervisor's own stop where the job names none.
	Grace time.Duration
	// StuckAfter is how long after a stop's grace the log says that a task does not die; 0: 10 s.
	StuckAfter time.Duration
	// A task's output: bytes in a segment, and segments kept of each stream; 0: the defaults.
	SegmentBytes int64
	Segments     int
	// What is kept of forgotten tasks; 0: the defaults.
	KeepBytes int64
	KeepFor   time.Duration
	KeepTasks int
}

const (
	tasksDir   = "tasks"
	scratchDir = "scratch"
	keptDir    = "kept"
	goneDir    = "gone" // what is being removed

	defaultKeepBytes = 1 << 30
	defaultKeepFor   = 7 * 24 * time.Hour
	defaultKeepTasks = 4096
	defaultStuck     = 10 * time.Second
)

// New takes over what earlier agents left in the directory. Only one launcher may use it; the agent ensures that with a
// lock on its data directory.
func New(o Options) (*Launcher, error) {
	switch {
	case len(o.Drivers) == 0 || len(o.Supervisor) == 0:
		return nil, fmt.Errorf("launcher: a driver and a supervisor are needed")
	case !filepath.IsAbs(o.Dir):
		return nil, fmt.Errorf("launcher: the directory %q is not absolute", o.Dir)
	}
	if o.KeepBytes <= 0 {
		o.KeepBytes = defaultKeepBytes
	}
	if o.KeepFor <= 0 {
		o.KeepFor = defaultKeepFor
	}
	if o.KeepTasks <= 0 {
		o.KeepTasks = defaultKeepTasks
	}
	if o.StuckAfter <= 0 {
		o.StuckAfter = defaultStuck
	}
	if o.Grace <= 0 {
		o.Grace = actors.DefaultConstants().StopGrace
	}
	modes := []os.FileMode{0o711, 0o700, 0o711, 0o700, 0o700, 0o700}
	for i, dir := range []string{"", tasksDir, scratchDir, keptDir, scriptsDir, goneDir} {
		path := filepath.Join(o.Dir, dir)
		if err := os.MkdirAll(path, modes[i]); err != nil {
			return nil, fmt.Errorf("launcher: %w", err)
		}
		if err := os.Chmod(path, modes[i]); err != nil {
			return nil, fmt.Errorf("launcher: %w", err)
		}
	}
	l := &Launcher{
		o: o, tasks: map[topology.TaskKey]*task{}, uses: map[uint32]*use{}, kept: leavings{}, done: make(chan struct{}),
		scripts: map[string]int{}, fetches: map[string]chan struct{}{},
	}
	l.watch.init(l)
	if err := l.load(); err != nil {
		return nil, err
	}
	l.leave()
	if err := l.loadKept(); err != nil {
		return nil, err
	}
	if err := l.sweepScripts(); err != nil {
		return nil, fmt.Errorf("launcher: %w", err)
	}
	l.background(l.watch.run)
	l.background(l.prune) // a tree of millions of files must not delay the machine's return
	return l, nil
}

// Tell is the port. A command outside the contract is not answered.
func (l *Launcher) Tell(command any, answerTo *actor.PID) {
	switch c := command.(type) {
	case *messages.ListTasks:
		l.background(func() { l.tellList(answerTo) })
	case *messages.KeepTasks:
		l.keep(c.HeardNs)
	case *messages.CheckMachine:
		l.background(func() { l.check(c, answerTo) })
	case *messages.LogsTask:
		l.background(func() { l.logs(c, answerTo) })
	case *messages.PrepareTask:
		t := l.reach(c.Id.Key())
		t.post(func() { t.onPrepare(c, answerTo) })
	case *messages.StartTask:
		t := l.reach(c.Id.Key())
		t.post(func() { t.onStart(c, answerTo) })
	case *messages.AdoptTask:
		l.known(c.Id.Key(), func(t *task) { t.onAdopt(answerTo) },
			func() { l.gone(c.Id.Key(), messages.ExitKind_EXIT_KIND_SUPERVISOR_LOST, answerTo) })
	case *messages.StopTask:
		l.known(c.Id.Key(), func(t *task) { t.onStop(c, answerTo) },
			func() { l.gone(c.Id.Key(), messages.ExitKind_EXIT_KIND_NEVER_STARTED, answerTo) })
	case *messages.WarnTask:
		l.known(c.Id.Key(), func(t *task) { t.onWarn(c, answerTo) }, nil)
	case *messages.ExecTask:
		l.known(c.Id.Key(), func(t *task) { t.onExec(c, answerTo) }, func() {
			l.background(func() {
				l.send(answerTo, &messages.ExecRefused{Id: c.Id, Session: c.Session, Text: "it is not on this machine"})
			})
		})
	case *messages.SignalTask:
		l.known(c.Id.Key(), func(t *task) { t.onSignal(int(c.Signal)) }, nil)
	case *messages.StatsTask:
		l.known(c.Id.Key(), func(t *task) { t.onStats(answerTo) }, nil)
	case *messages.ForgetTask:
		l.known(c.Id.Key(), func(t *task) { t.onForget() }, nil)
	default:
		l.o.Log.Info("The launcher received %T, which is not in its contract", command)
	}
}

// Close releases every task and waits until nothing of the launcher is under way. The tasks and their supervisors go
// on.
func (l *Launcher) Close() {
	l.mu.Lock()
	already := l.closed
	l.closed = true
	l.mu.Unlock()
	if !already {
		close(l.done)
	}
	for _, t := range l.all() {
		t.leave()
	}
	l.jobs.Wait()
}

// background runs something that may wait beside everything else, unless the
// launcher is closed.
func (l *Launcher) background(do func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.jobs.Go(do)
	}
	return !l.closed
}

func (l *Launcher) isOpen() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.closed
}

func (l *Launcher) send(to *actor.PID, message any) {
	if to != nil {
		l.o.System.Root.Send(to, message)
	}
}

// gone answers for a task that is not known here.
func (l *Launcher) gone(k topology.TaskKey, kind messages.ExitKind, to *actor.PID) {
	exit := &messages.Exit{Rank: int32(k.Rank), Kind: kind, AtUnixMs: time.Now().UnixMilli()}
	l.background(func() { l.send(to, &messages.TaskGone{Id: messages.ToTaskID(k), Exit: exit}) })
}

// reach is the task of this key, a new one if need be.
func (l *Launcher) reach(k topology.TaskKey) *task {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.tasks[k]
	if t == nil {
		t = l.newTask(k)
		l.tasks[k] = t
	}
	return t
}

// known calls do on the line of a task, or otherwise where there is no such task. A task that is forgotten while the
// command waits counts as known: it was when the command came.
func (l *Launcher) known(k topology.TaskKey, do func(*task), otherwise func()) {
	l.mu.Lock()
	t := l.tasks[k]
	l.mu.Unlock()
	if t != nil {
		t.post(func() { do(t) })
	} else if otherwise != nil {
		otherwise()
	}
}

// all are the tasks in the order of their keys.
func (l *Launcher) all() []*task {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]*task, 0, len(l.tasks))
	for _, t := range l.tasks {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *task) int {
		if c := a.Key.Token.Compare(b.Key.Token); c != 0 {
			return c
		}
		return int(a.Key.Rank - b.Key.Rank)
	})
	return all
}

func (l *Launcher) drop(t *task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tasks[t.Key] == t {
		delete(l.tasks, t.Key)
		l.letGo(t)
		l.release(t)
	}
}

// tellList tells the Node of all tasks here, and from then on which uids are in use.
func (l *Launcher) tellList(to *actor.PID) {
	list := l.list()
	l.showHealth(func(h *messages.MachineHealth) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.node, list.Uids, list.Health = to, l.inUse(), h
		l.send(to, list)
	})
}

// list asks every task on its line, so that the result includes all earlier commands.
func (l *Launcher) list() *messages.TaskList {
	list := &messages.TaskList{}
	for _, t := range l.all() {
		var e *messages.TaskEntry
		if t.ask(func() { e = t.entry() }) && e != nil {
			list.Tasks = append(list.Tasks, e)
		}
	}
	return list
}

// keep passes on when the control plane last certainly received something from this machine.
func (l *Launcher) keep(heardNs int64) {
	l.mu.Lock()
	if heardNs <= l.heard {
		l.mu.Unlock()
		return
	}
	l.heard = heardNs
	l.mu.Unlock()
	for _, t := range l.all() {
		t.post(t.onKeep)
	}
}

func (l *Launcher) heardNs() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.heard
}
