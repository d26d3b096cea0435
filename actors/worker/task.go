package worker

import (
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// Task owns one container: one rank of one attempt on this node. A Task is a child of the Node, which owns all durable
// state of the container. The Task exchanges messages with the launcher. It never decides to start or stop by itself.
//
// A Task sends facts to the Node (rankPrepared, rankStarted, rankWarned, rankSaved, rankProgress, rankGone). It sends
// requests to the launcher (PrepareTask → TaskPrepared, StartTask and AdoptTask → TaskStarted, WarnTask → TaskWarned,
// StopTask → TaskGone).
type Task struct {
	p       *Ports
	states  actors.States[taskState]
	since   actors.Instant // time at which it entered its state
	work    taskWork
	spawned bool // this agent or an earlier one asked the launcher to start it
}

// taskWork describes the container of a Task.
type taskWork struct {
	key       topology.TaskKey
	id        *messages.TaskId // the launcher's name of the task
	job       topology.JobID
	owner     string // of the job
	proven    bool   // the owner's name is authenticated
	node      topology.NodeID
	spec      *messages.JobSpec
	uid       uint32 // UID of the container; 0: the leader gave none
	grant     *messages.Grant
	inherits  *messages.TaskId    // the ended task whose files it takes over; nil: none
	inherited *messages.Inherited // as in Commit
	// spawned reports that an earlier agent asked the launcher to start the container.
	spawned bool
}

// These messages come from the Node.
type (
	taskPrepare struct{}
	taskStart   struct{ Start *messages.Start }
	taskAdopt   struct{}
	taskWarn    struct{ Warn *messages.Warn }
	taskExec    struct {
		Exec *messages.ExecTask
		from *actor.PID
	}
	taskStop struct {
		Signal  int32
		GraceMs int64
	}
)

// These messages go to the Node.
type (
	rankPrepared struct{ key topology.TaskKey }
	rankStarted  struct {
		key   topology.TaskKey
		began actors.Instant // by the clock of this boot; 0: unknown
	}
	rankWarned struct {
		key    topology.TaskKey
		number uint64
	}
	rankSaved struct {
		key   topology.TaskKey
		saved *messages.RankSaved
	}
	rankProgress struct {
		key  topology.TaskKey
		told *messages.TaskProgress
	}
	rankGone struct {
		key   topology.TaskKey
		exit  *messages.Exit
		began actors.Instant // as in rankStarted
		ended actors.Instant // when its process ended, by the clock of this boot; 0: unknown
	}
)

func newTask(p *Ports, work taskWork) actor.Actor {
	return &Task{p: p, work: work, spawned: work.spawned, states: actors.NewStates(&taskTable, p.Host)}
}

// ID returns the container's attempt and rank, for checks.
func (t *Task) ID() (topology.Token, topology.Rank) { return t.work.key.Token, t.work.key.Rank }

// Receive dispatches the messages of the Node and of the launcher. It ignores an answer about another container.
func (t *Task) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case taskPrepare:
		t.onPrepare(ctx)
	case taskStart:
		t.onStart(ctx, m)
	case taskAdopt:
		t.onAdopt(ctx)
	case taskWarn:
		t.onWarn(ctx, m)
	case taskExec:
		t.onExec(ctx, m)
	case taskStop:
		t.onStop(ctx, m)
	case interface{ GetId() *messages.TaskId }:
		if m.GetId().Key() != t.work.key {
			t.p.Host.Count("task.foreign_answer", 1)
			return
		}
		t.onAnswer(ctx, m)
	}
}

func (t *Task) onAnswer(ctx actor.Context, m any) {
	switch m := m.(type) {
	case *messages.TaskPrepared:
		t.onPrepared(ctx)
	case *messages.TaskStarted:
		t.onStarted(ctx, m)
	case *messages.TaskWarned:
		ctx.Send(ctx.Parent(), rankWarned{t.work.key, m.Number})
	case *messages.TaskSaved:
		ctx.Send(ctx.Parent(), rankSaved{t.work.key, m.Saved})
	case *messages.TaskProgress:
		ctx.Send(ctx.Parent(), rankProgress{t.work.key, m})
	case *messages.TaskGone:
		t.onGone(ctx, m)
	}
}

func (t *Task) ask(ctx actor.Context, command any) { t.p.Launcher.Tell(command, ctx.Self()) }

func (t *Task) onPrepare(ctx actor.Context) {
	if !t.states.In(taskBorn) {
		return
	}
	t.become("prepare", taskPreparing)
	t.ask(ctx, &messages.PrepareTask{
		Id: t.work.id, Job: string(t.work.job), Spec: t.work.spec, Uid: t.work.uid, Owner: t.work.owner,
		OwnerProven: t.work.proven, Grant: t.work.grant, Inherits: t.work.inherits,
	})
}

func (t *Task) onPrepared(ctx actor.Context) {
	if t.states.In(taskPreparing) {
		t.become("prepared", taskPrepared)
		ctx.Send(ctx.Parent(), rankPrepared{t.work.key})
	}
}

// onStart starts the container. The Node has recorded the start on disk.
func (t *Task) onStart(ctx actor.Context, m taskStart) {
	if !t.states.In(taskPrepared) {
		return // it already runs, or its exit is on the way to the Node
	}
	t.become("start", taskStarting)
	t.spawned = true
	t.log().Info("STARTING CONTAINER: JobID=%s, Image=%s", t.work.job, t.work.spec.GetImage())
	t.ask(ctx, &messages.StartTask{
		Id: t.work.id, Job: string(t.work.job), Spec: t.work.spec, Uid: t.work.uid, Grant: t.work.grant,
		Rendezvous: m.Start.GetRendezvous(), JobName: m.Start.GetJobName(), Run: m.Start.GetRun(), Node: string(t.work.node),
		Inherited: t.work.inherited,
	})
}

// onAdopt adopts a container that an earlier agent started.
func (t *Task) onAdopt(ctx actor.Context) {
	if !t.states.In(taskBorn) {
		return
	}
	t.become("adopt", taskAdopting)
	t.ask(ctx, &messages.AdoptTask{Id: t.work.id})
}

func (t *Task) onStarted(ctx actor.Context, m *messages.TaskStarted) {
	if t.states.In(taskPreparing, taskPrepared, taskStarting, taskAdopting) {
		t.become("started", taskRunning)
		ctx.Send(ctx.Parent(), rankStarted{t.work.key, actors.Instant(m.StartedNs)})
	}
	t.spawned = true
}

// onWarn sends a warning to a running task. A task that does not run gets no warning, because the leader repeats it.
func (t *Task) onWarn(ctx actor.Context, m taskWarn) {
	if !t.states.In(taskRunning) {
		return
	}
	w := m.Warn
	_, signal := t.work.spec.Announced()
	if w.IdleMs > 0 { // the signal of a checkpoint requests one
		signal = t.work.spec.GetWarn().GetSignal()
	}
	t.ask(ctx, &messages.WarnTask{
		Id: t.work.id, Number: w.Number, Cause: w.Cause, LeftMs: w.LeftMs, Of: w.Of, Signal: signal,
		Request: w.Request, Subject: w.Subject, IdleMs: w.IdleMs,
	})
}

// onStop may be called again with a shorter grace.
func (t *Task) onStop(ctx actor.Context, m taskStop) {
	if t.states.In(taskGone) {
		return // its exit is on the way to the Node
	}
	t.become("stop", taskStopping)
	t.ask(ctx, &messages.StopTask{Id: t.work.id, Signal: m.Signal, GraceMs: m.GraceMs})
}

// onGone handles the launcher's evidence that no process of the container is left.
func (t *Task) onGone(ctx actor.Context, m *messages.TaskGone) {
	if t.states.In(taskBorn, taskGone) {
		return
	}
	t.become("gone", taskGone)
	exit := t.exitOf(m.Exit)
	if t.spawned {
		t.logEnd(exit)
	}
	ctx.Send(ctx.Parent(), rankGone{t.work.key, exit, actors.Instant(m.StartedNs), actors.Instant(m.EndedNs)})
}

// exitOf completes the launcher's report. A task that was never asked to start did not run, so it cannot have
// succeeded.
func (t *Task) exitOf(told *messages.Exit) *messages.Exit {
	exit := &messages.Exit{}
	if told != nil {
		exit = actors.CopyOf(told)
	}
	exit.Rank = int32(t.work.key.Rank)
	if exit.AtUnixMs == 0 {
		exit.AtUnixMs = t.p.Clock.WallMs()
	}
	switch exit.Kind {
	case messages.ExitKind_EXIT_KIND_PREPARE_FAILED, messages.ExitKind_EXIT_KIND_LAUNCH_FAILED,
		messages.ExitKind_EXIT_KIND_NEVER_STARTED:
	case messages.ExitKind_EXIT_KIND_UNSPECIFIED:
		exit.Kind = messages.ExitKind_EXIT_KIND_SUPERVISOR_LOST
		fallthrough
	default:
		if !t.spawned {
			exit.Kind, exit.Code, exit.Signal = messages.ExitKind_EXIT_KIND_NEVER_STARTED, 0, 0
			exit.Oom, exit.Disk, exit.Evidence = false, false, nil
		}
	}
	return exit
}

// log returns a log for lines about the task's attempt.
func (t *Task) log() actors.Log {
	return actors.About(t.p.Log, actors.FieldAttempt, t.work.key.Token.String)
}

func (t *Task) logEnd(e *messages.Exit) {
	switch {
	case e.Kind == messages.ExitKind_EXIT_KIND_EXITED && e.Code == 0 && e.Signal == 0:
		t.log().Info("Job %s finished successfully", t.work.job)
	case e.Kind == messages.ExitKind_EXIT_KIND_EXITED:
		t.log().Info("Job %s failed: rank %d exited with code %d%s", t.work.job, e.Rank, e.Code, actors.Because(e.Detail))
	default:
		kind := strings.TrimPrefix(e.Kind.String(), "EXIT_KIND_")
		kind = strings.ToLower(strings.ReplaceAll(kind, "_", " "))
		t.log().Info("Job %s failed: rank %d: %s%s", t.work.job, e.Rank, kind, actors.Because(e.Detail))
	}
}
