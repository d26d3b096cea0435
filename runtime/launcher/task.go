package launcher

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/fault"
	"github.com/yi-json/synapse/runtime/serial"
	"github.com/yi-json/synapse/runtime/supervisor"
	"github.com/yi-json/synapse/topology"
)

// This file owns a task in the launcher: the work for one container on this node. The actor worker.Task has states of
// nearly the same names, and both are needed.
//
// The actor does no work itself: it turns the Node's commands into requests, and answers into facts. It is pure, so the
// simulator can run it with a launcher that fails in every order. Its state ends with its process.
//
// This task does the work that takes long or may fail: it unpacks images, mounts, starts a supervisor and reads a disk.
// That needs goroutines, locks and real files, which no actor may use. Its phase follows from its directory, so a
// restarted agent finds the task in its last state. The actor then sends its request again and gets an answer. One
// state machine for both would put files into the simulator, or leave the order of requests and answers untested. The
// two share only messages: a request may arrive twice, late or after the task's end, and gets the same answer.

// phase is the progress of a task.
type phase uint8

const (
	phaseNew       phase = iota
	phasePreparing       // the driver prepares the task
	phasePrepared
	phaseSpawning // a supervisor is starting the task, or an earlier supervisor is being found again
	phaseRunning
	phaseGone
)

// task owns one container from Prepare to Forget. All methods except post run on its line, one after the other, and
// none waits for long.
type task struct {
	Task
	l      *Launcher
	home   string // its directory
	driver Driver

	line serial.Line

	to        *actor.PID // the actor that gets its answers
	script    string     // the digest of the script that it uses; the launcher's lock guards it
	phase     phase
	prepared  bool
	spawned   bool // a process may have been spawned
	starts    int  // the number of tries to spawn
	cleaning  bool // the driver removes its files
	forgotten bool
	owing     bool // it has gone, but its epilog has not ended
	claimed   bool // its uid is claimed
	notices   notices
	fetched   sync.Mutex         // guards secrets only
	secrets   []*messages.Secret // with values, from the fetch until a supervisor has them
	inherits  *topology.TaskKey  // the ended task whose files it takes over; nil: none
	want      *messages.StartTask
	stop      *messages.StopTask // it must end, regardless of other work
	cancel    context.CancelFunc // cancels the work in the background
	link      *supervisor.Link
	execs     io.Closer // accepts its requests to other tasks of its gang; nil: none are possible
	exit      *messages.Exit
	endedNs   int64 // when the process ended, by the clock of its boot; 0: unknown
	disk      diskUse
	progress  taskProgress
	activity  taskActivity
	use       taskUse
}

func (l *Launcher) newTask(k topology.TaskKey) *task {
	home := filepath.Join(l.o.Dir, tasksDir, k.String())
	return &task{
		Task: Task{Key: k, Dir: filepath.Join(home, "driver"), Scratch: filepath.Join(l.o.Dir, scratchDir, k.String())},
		l:    l, home: home, driver: l.o.Drivers[0], line: serial.Line{Go: l.background},
	}
}

// post appends do to the task's line.
func (t *task) post(do func()) { t.line.Post(do) }

// ask appends do to the line and waits until it is done. It returns false if the launcher is closed first.
func (t *task) ask(do func()) bool {
	done := make(chan struct{})
	t.post(func() { do(); close(done) })
	select {
	case <-done:
		return true
	case <-t.l.done:
		return false
	}
}

// answer reports the phase of the task to the actor that sent the last command. It reports nothing while the phase is
// uncertain.
func (t *task) answer() {
	switch t.phase {
	case phasePrepared:
		t.l.send(t.to, &messages.TaskPrepared{Id: messages.ToTaskID(t.Key)})
	case phaseRunning:
		t.l.send(t.to, &messages.TaskStarted{Id: messages.ToTaskID(t.Key), StartedNs: t.beganNs()})
	case phaseGone:
		if t.owing {
			return // the answer follows when the epilog has ended
		}
		exit := proto.Clone(t.exit).(*messages.Exit)
		t.l.send(t.to, &messages.TaskGone{
			Id: messages.ToTaskID(t.Key), Exit: exit, StartedNs: t.beganNs(), EndedNs: t.endedNs,
		})
	}
}

// beganNs returns the start time of the task's process; 0 if its supervisor left no record of it.
func (t *task) beganNs() int64 {
	state, err := supervisor.ReadState(t.home)
	if err != nil || state == nil {
		return 0
	}
	return state.BeganNs()
}

func (t *task) onPrepare(c *messages.PrepareTask, to *actor.PID) {
	t.to = to
	if t.phase != phaseNew {
		t.answer()
		return
	}
	t.Owner, t.OwnerProven = c.Owner, c.OwnerProven
	if c.Inherits != nil {
		from := c.Inherits.Key()
		t.inherits = &from
	}
	t.take(c)
	t.prepare()
}

// order is the common interface of PrepareTask and StartTask.
type order interface {
	GetJob() string
	GetSpec() *messages.JobSpec
	GetUid() uint32
	GetGrant() *messages.Grant
}

func (t *task) take(o order) {
	t.Job, t.Spec, t.UID, t.Grant = o.GetJob(), t.withScript(o.GetSpec()), o.GetUid(), o.GetGrant()
	t.Gpus = nil
	for _, share := range t.Grant.GetGpus() {
		for _, g := range t.l.o.Gpus {
			if g.GetId() == share.GetGpuId() {
				t.Gpus = append(t.Gpus, g)
			}
		}
	}
}

// prepare lets the driver prepare the task in the background.
func (t *task) prepare() {
	t.ready(func(ctx context.Context) error {
		if err := t.l.claim(t); err != nil {
			return err
		}
		return t.l.watch.whenRoom(ctx, func() error { return t.makeReady(ctx) })
	})
}

// ready runs slow work before the task is prepared or prepared again.
func (t *task) ready(do func(context.Context) error) {
	t.phase = phasePreparing
	ctx, cancel := context.WithCancel(context.Background())
	t.cancel = cancel
	t.l.background(func() {
		defer cancel()
		err := do(ctx)
		t.post(func() { t.onDriverPrepared(err) })
	})
}

// makeReady does all work that precedes a task's start. It can be repeated.
func (t *task) makeReady(ctx context.Context) error {
	if err := t.l.watch.hasRoom(); err != nil {
		return err
	}
	if err := t.makeHome(); err != nil {
		return fault.OfMachine(err)
	}
	if err := t.inherit(); err != nil {
		return fault.OfMachine(err)
	}
	if err := t.promise(); err != nil {
		return err
	}
	if err := errors.Join(t.placeScript(ctx), t.fetchSecrets(ctx)); err != nil {
		return err
	}
	if err := t.before(ctx); err != nil {
		return err
	}
	if err := t.driver.Prepare(ctx, &t.Task); err != nil {
		return err
	}
	t.allow()
	return fault.OfMachine(t.save(true))
}

func (t *task) onDriverPrepared(err error) {
	t.cancel = nil
	t.prepared = err == nil && t.stop == nil
	switch {
	case t.stop != nil:
		t.end(&supervisor.Exit{Kind: supervisor.NeverStarted})
	case errors.Is(err, errNoRoom):
		t.end(&supervisor.Exit{Kind: supervisor.NeverStarted, Detail: err.Error()})
	case err != nil:
		t.end(&supervisor.Exit{Kind: supervisor.PrepareFailed, Detail: err.Error(), Fault: fault.Of(err)})
	case t.want != nil:
		t.phase = phasePrepared
		t.start()
	default:
		t.phase = phasePrepared
		t.answer()
	}
}

// onStart spawns the process once per task.
func (t *task) onStart(c *messages.StartTask, to *actor.PID) {
	t.to = to
	switch t.phase {
	case phaseNew:
		t.take(c)
		t.want = c
		t.prepare()
	case phasePreparing:
		t.want = c
	case phasePrepared:
		t.want = c
		t.start()
	default:
		t.answer()
	}
}

// maxStarts bounds the tries of a start on a full disk.
const maxStarts = 4

func (t *task) start() {
	if t.lacksSecrets() { // an earlier agent had the secrets, or a failed start used them
		t.ready(t.fetchSecrets)
		return
	}
	want, err := t.want, t.l.watch.hasRoom()
	t.want = nil
	if err == nil {
		t.link, err = t.spawn(want)
	}
	t.starts++
	switch {
	case err == nil:
	case errors.Is(err, unix.ENOSPC) && t.starts < maxStarts:
		t.want = want
		t.ready(func(ctx context.Context) error { return t.l.watch.whenRoom(ctx, t.l.watch.hasRoom) })
		return
	case t.l.watch.noRoom(err):
		t.end(&supervisor.Exit{Kind: supervisor.NeverStarted, Detail: err.Error()})
		return
	default:
		t.spawned = true
		t.end(&supervisor.Exit{Kind: supervisor.LaunchFailed, Code: 125, Detail: err.Error(), Fault: fault.Of(err)})
		return
	}
	t.phase, t.spawned = phaseSpawning, true
	t.onKeep()
	t.listen(t.link)
	t.watch()
}

// spawn starts the task's supervisor.
func (t *task) spawn(want *messages.StartTask) (*supervisor.Link, error) {
	spec, err := t.command(want)
	if err != nil {
		return nil, err
	}
	if err := t.handSecrets(spec); err != nil {
		return nil, fault.OfMachine(err)
	}
	link, err := supervisor.Start(t.home, spec, t.l.o.Supervisor)
	return link, fault.OfMachine(err)
}

// listen receives all events of a supervisor in the background.
func (t *task) listen(link *supervisor.Link) {
	t.l.background(func() {
		for {
			event := link.Next()
			t.post(func() { t.onEvent(link, event) })
			if event.Exit != nil || event.Closed {
				return
			}
		}
	})
}

func (t *task) onEvent(link *supervisor.Link, e supervisor.Event) {
	if t.link != link || t.phase == phaseGone {
		return
	}
	switch {
	case e.Started:
		if t.phase == phaseSpawning {
			t.phase = phaseRunning
			t.followProgress()
			t.hearExecs()
			t.answer()
		}
	case e.Exit != nil:
		t.gone(e.Exit)
	case e.Closed:
		t.unlink()
		t.find()
	}
}

func (t *task) unlink() {
	if t.link != nil {
		t.link.Close()
		t.link = nil
	}
}

// leave releases the supervisor, which continues without this agent. Commands that still wait on the line are dropped,
// as if the agent had been killed.
func (t *task) leave() {
	t.line.End(func() {
		t.unlink()
		t.endExecs()
		if t.cancel != nil {
			t.cancel()
		}
	}, t.l.jobs.Go)
}

func (t *task) onAdopt(to *actor.PID) {
	t.to = to
	t.answer()
	t.repeatProgress()
}

// onStop ends the task in any phase. The answer is TaskGone.
func (t *task) onStop(c *messages.StopTask, to *actor.PID) {
	t.to = to
	switch t.phase {
	case phaseGone:
		t.answer()
	case phaseNew, phasePrepared:
		t.end(&supervisor.Exit{Kind: supervisor.NeverStarted})
	case phasePreparing:
		t.stop = c
		t.cancel()
	default:
		t.stop = c
		t.passStop()
		grace := time.Duration(c.GraceMs) * time.Millisecond
		time.AfterFunc(grace+t.l.o.StuckAfter, func() { t.post(t.complain) })
	}
}

func (t *task) passStop() {
	if t.link == nil || t.stop == nil {
		return // the supervisor is being found, and gets the stop then
	}
	signal := int(t.stop.Signal)
	if signal == 0 {
		signal = int(syscall.SIGTERM)
	}
	if err := t.link.Stop(signal, time.Duration(t.stop.GraceMs)*time.Millisecond); err != nil {
		t.l.o.Log.Info("Task %v could not be stopped: %v", t.Key, err)
	}
}

// complain logs that a task does not exit. Its devices remain in use.
func (t *task) complain() {
	if t.phase != phaseGone {
		t.l.o.Log.Info("Task %v of job %s is stuck: it was killed but has not exited", t.Key, t.Job)
	}
}

func (t *task) onSignal(signal int) {
	if t.link == nil || t.phase != phaseRunning {
		return
	}
	if err := t.link.Signal(signal); err != nil {
		t.l.o.Log.Info("Task %v could not be sent a signal: %v", t.Key, err)
	}
}

func (t *task) onKeep() {
	if heard := t.l.heardNs(); t.link != nil && heard > 0 && t.Spec.GetStopWhenLostMs() > 0 {
		_ = t.link.Keep(heard) // the next message compensates a lost one
	}
}

func (t *task) onStats(to *actor.PID) {
	if t.phase != phaseRunning {
		return
	}
	t.l.background(func() {
		state, err := supervisor.ReadState(t.home)
		if err != nil || state == nil {
			return
		}
		if stats, err := t.driver.Stats(&t.Task, state); err == nil {
			stats.Id = messages.ToTaskID(t.Key)
			t.l.send(to, stats)
		}
	})
}

// end ends a task whose end no supervisor saw. If the disk works, the exit record is written before the report. In
// either case no process of the task exists.
func (t *task) end(exit *supervisor.Exit) {
	exit.AtUnixMs = time.Now().UnixMilli()
	if err := t.record(exit); err != nil {
		t.l.o.Log.Info("The exit record of task %v cannot be written: %v", t.Key, err)
	}
	t.gone(exit)
}

func (t *task) record(exit *supervisor.Exit) error {
	if err := os.MkdirAll(t.home, 0o700); err != nil {
		return err
	}
	return supervisor.WriteExit(t.home, exit)
}

func (t *task) gone(exit *supervisor.Exit) {
	t.unlink()
	t.endExecs()
	t.takeSecrets()
	t.endProgress()
	t.disk.over.Store(true)
	if t.spawned {
		t.watch()
	}
	t.phase, t.exit, t.endedNs = phaseGone, t.toExit(exit), exit.EndedNs
	t.after()
}

func (t *task) toExit(e *supervisor.Exit) *messages.Exit {
	return &messages.Exit{
		Rank: int32(t.Key.Rank), Kind: exitKind(e.Kind), Code: int32(e.Code), Signal: int32(e.Signal),
		Oom: e.OOM, Disk: e.Disk, AtUnixMs: e.AtUnixMs, Detail: messages.AsText(e.Detail), PeakMemoryBytes: e.PeakMemoryBytes,
		CpuMs: (e.CPUNs + 1e6 - 1) / 1e6, ByItself: e.ByItself, Fault: faultOf(e), Evidence: t.evidence(e),
	}
}

func exitKind(kind string) messages.ExitKind {
	switch kind {
	case supervisor.Exited:
		return messages.ExitKind_EXIT_KIND_EXITED
	case supervisor.LaunchFailed:
		return messages.ExitKind_EXIT_KIND_LAUNCH_FAILED
	case supervisor.PrepareFailed:
		return messages.ExitKind_EXIT_KIND_PREPARE_FAILED
	case supervisor.NeverStarted:
		return messages.ExitKind_EXIT_KIND_NEVER_STARTED
	case supervisor.Rebooted:
		return messages.ExitKind_EXIT_KIND_REBOOTED
	}
	return messages.ExitKind_EXIT_KIND_SUPERVISOR_LOST
}

func (t *task) begun() bool { return t.phase != phaseNew || t.Spec != nil }

// entry returns the task's entry in the answer to ListTasks; nil if it was never begun or is forgotten.
func (t *task) entry() *messages.TaskEntry {
	if !t.begun() || t.forgotten {
		return nil
	}
	e := &messages.TaskEntry{
		Id: messages.ToTaskID(t.Key), Prepared: t.prepared, Started: t.spawned, Stop: t.Spec.GetStop(),
	}
	if t.exit != nil {
		e.Exit = proto.Clone(t.exit).(*messages.Exit)
	}
	return e
}
