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
	"github.com/yi-json/synapse/runtime/gpu"
	"github.com/yi-json/synapse/runtime/hook"
	"github.com/yi-json/synapse/runtime/progress"
	"github.com/yi-json/synapse/topology"
)

// Launcher owns the tasks of a node. Tell never waits: each task has a queue, called its line, which runs its commands
// one after the other. A task answers the actor that sent the last command.
type Launcher struct {
	o Options

	mu     sync.Mutex
	tasks  map[topology.TaskKey]*task
	uses   map[uint32]*use // by uid
	kept   leavings
	node   *actor.PID // the actor that requested the tasks, and gets changes of uids
	heard  int64      // the newest time from KeepTasks
	closed bool
	done   chan struct{} // closed when the launcher closes

	scripts map[string]int           // the number of tasks that need each script
	fetches map[string]chan struct{} // the scripts that are being fetched

	jobs    sync.WaitGroup // work in the background
	pruning sync.Mutex
	watch   watch

	kernel kernelLog

	receiver *progress.Receiver // of requests with progress; nil: tasks have no endpoint

	promising sync.Mutex // serializes the reservations of disk space

	pruneWaits atomic.Bool // a call of prune waits for its turn
	keptMore   atomic.Bool // more output was kept after the disk guard last looked
	loaded     atomic.Bool // all tasks of the last agent are known
}

// Options holds the settings of a launcher.
type Options struct {
	System *actor.ActorSystem // sends the answers
	Log    actors.Log
	// Dir is the launcher's own directory. New makes it if it does not exist. Other users may pass through it to
	// the scratch directories of their tasks.
	Dir    string
	BootID string
	// Supervisor is a command that calls supervisor.Main with its further arguments. The launcher appends the
	// directory.
	Supervisor []string
	// Drivers: the first driver runs new tasks. The others manage tasks that they started under an earlier agent.
	Drivers []Driver
	Gpus    []*messages.Gpu // as the node announced them
	// Scripts fetches the text of a job's script and may take any time; nil: there are no scripts.
	Scripts func(ctx context.Context, digest string) ([]byte, error)
	// Health checks the node; nil: there are no checks.
	Health Health
	// Secrets fetches the names and values of an attempt's secrets and may take any time; nil: there are no
	// secrets.
	Secrets func(ctx context.Context, job string, attempt *messages.Token) ([]*messages.Secret, error)
	// Evict removes unused cached images on the disk of Dir until enough returns true; nil: there are none.
	Evict func(enough func() bool) error
	// Around runs the site's prolog and epilog for each job; nil: there are none.
	Around *hook.Around
	// Carry connects to the exec session that a scheduler expects under this name, and calls do with its wire; nil:
	// there are no exec sessions.
	Carry func(ctx context.Context, session string, do func(Wire) error) error
	// Reach asks a scheduler to run a command in another task, and calls do with the session; nil: tasks cannot
	// reach others.
	Reach func(ctx context.Context, r ExecRequest, do func(RemoteExec) error) error
	// OwnJob asks a scheduler to show or change the job of a task, and returns lines about the job; nil: tasks cannot
	// ask.
	OwnJob func(ctx context.Context, r OwnRequest) (lines []string, err error)
	// GpuUse returns the activity of a GPU of the node; false: unknown. nil: it is unknown for all.
	GpuUse func(id string) (gpu.Use, bool)
	// Kubeflow offers tasks on the node's network an endpoint of the Kubeflow Trainer progress protocol.
	Kubeflow bool
	// KernelLog is the log of the kernel, /dev/kmsg, that explains failures; empty: none is read.
	KernelLog string
	// Helper is the absolute path of the program that tasks see as synapse-exec; empty: none.
	Helper string
	// Grace is the time between signal and kill in a supervisor's own stop, if the job names none.
	Grace time.Duration
	// StuckAfter is the time after the grace of a stop until the log reports a task that does not exit; 0: 10 s.
	StuckAfter time.Duration
	// SegmentBytes is the size of a segment of a task's output. Segments is the number of kept segments of each
	// stream. 0 means the default.
	SegmentBytes int64
	Segments     int
	// KeepBytes, KeepFor and KeepTasks limit the kept files of forgotten tasks. 0 means the default.
	KeepBytes int64
	KeepFor   time.Duration
	KeepTasks int
}

const (
	tasksDir   = "tasks"
	scratchDir = "scratch"
	keptDir    = "kept"
	goneDir    = "gone" // files that are being removed

	defaultKeepBytes = 1 << 30
	defaultKeepFor   = 7 * 24 * time.Hour
	defaultKeepTasks = 4096
	defaultStuck     = 10 * time.Second
)

// New takes over the files of earlier agents in the directory. Only one launcher may use a directory. The agent ensures
// this with a lock on its data directory.
func New(o Options) (*Launcher, error) {
	switch {
	case len(o.Drivers) == 0 || len(o.Supervisor) == 0:
		return nil, fmt.Errorf("launcher: Drivers or Supervisor is empty; set both")
	case !filepath.IsAbs(o.Dir):
		return nil, fmt.Errorf("launcher: Dir %q is not an absolute path", o.Dir)
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
	l.listenForProgress()
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
	l.background(l.runProgress)
	l.background(l.runActivity)
	l.background(l.prune) // a tree of millions of files must not delay the start
	return l, nil
}

// Tell implements the port. A command outside the contract gets no answer.
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
				l.send(answerTo, &messages.ExecRefused{Id: c.Id, Session: c.Session, Text: "the task is not on this node"})
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

// Close releases every task and waits until the launcher's background work ends. The tasks and their supervisors
// continue.
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
	if l.receiver != nil {
		l.receiver.Close()
	}
	l.jobs.Wait()
}

// background runs do in a goroutine, where it may wait. It returns false if the launcher is closed.
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

// gone answers for a task that is unknown here.
func (l *Launcher) gone(k topology.TaskKey, kind messages.ExitKind, to *actor.PID) {
	exit := &messages.Exit{Rank: int32(k.Rank), Kind: kind, AtUnixMs: time.Now().UnixMilli()}
	l.background(func() { l.send(to, &messages.TaskGone{Id: messages.ToTaskID(k), Exit: exit}) })
}

// reach returns the task of this key, and creates it if needed.
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

// known calls do on the line of a task, or otherwise if there is no such task. A task that is forgotten while the
// command waits counts as known, because it existed when the command arrived.
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

// all returns the tasks in the order of their keys.
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

// tellList sends the list of tasks to the Node. From then on, the Node also gets changes of the uids in use.
func (l *Launcher) tellList(to *actor.PID) {
	list := l.list()
	l.showHealth(func(h *messages.MachineHealth) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.node, list.Uids, list.Health = to, l.inUse(), h
		l.send(to, list)
	})
}

// list asks every task on its line, so the result includes the effect of all earlier commands.
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

// keep passes on the time at which the control plane last certainly received a message from this node.
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
