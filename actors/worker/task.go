package worker

import (
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// Task owns one container: one rank of one attempt on this machine. It is a
// child of the Node, which owns everything durable about it; the Task owns the messages to and from the launcher, and
// never decides to start or stop by itself.
//
// It tells: the Node (rankPrepared, rankStarted, rankWarned, rankGone). It asks: the
// launcher (PrepareTask → TaskPrepared, StartTask and AdoptTask → TaskStarted,
// WarnTask → TaskWarned, StopTask → TaskGone).
type Task struct {
	p       *Ports
	states  actors.States[taskState]
	since   actors.Instant // it has been in its state
	work    taskWork
	spawned bool // the launcher was told to start it, by this agent or an earlier one
}

// taskWork is the work of a Task.
type taskWork struct {
	key    topology.TaskKey
	id     *messages.TaskId // the same, as the launcher calls it
	job    topology.JobID
	owner  string // of the job
	proven bool   // the cluster knows who that is
	node   topology.NodeID
	spec   *messages.JobSpec
	uid    uint32 // to run it as; 0: the leader gave none
	grant  *messages.Grant
	// spawned: an earlier agent told the launcher to start it.
	spawned bool
}

// From the Node.
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

// To the Node.
type (
	rankPrepared struct{ key topology.TaskKey }
	rankStarted  struct {
		key   topology.TaskKey
		began actors.Instant // by the clock of this boot; 0: not known
	}
	rankWarned struct {
		key    topology.TaskKey
		number uint64
	}
	rankGone struct {
		key   topology.TaskKey
		exit  *messages.Exit
		began actors.Instant // as of rankStarted
	}
)

func newTask(p *Ports, work taskWork) actor.Actor {
	return &Task{p: p, work: work, spawned: work.spawned, states: actors.NewStates(&taskTable, p.Host)}
}

// ID is the container's attempt and rank, for checks.
func (t *Task) ID() (topology.Token, topology.Rank) { return t.work.key.Token, t.work.key.Rank }

// Receive dispatches: the Node's messages, then the launcher's. An answer about another container is ignored.
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
		OwnerProven: t.work.proven, Grant: t.work.grant,
	})
}

func (t *Task) onPrepared(ctx actor.Context) {
	if t.states.In(taskPreparing) {
		t.become("prepared", taskPrepared)
		ctx.Send(ctx.Parent(), rankPrepared{t.work.key})
	}
}

// onStart spawns. The Node has the mark of the barrier on disk.
func (t *Task) onStart(ctx actor.Context, m taskStart) {
	if !t.states.In(taskPrepared) {
		return // it runs already, or its evidence is on the way to the Node
	}
	t.become("start", taskStarting)
	t.spawned = true
	t.log().Info("STARTING CONTAINER: JobID=%s, Image=%s", t.work.job, t.work.spec.GetImage())
	t.ask(ctx, &messages.StartTask{
		Id: t.work.id, Job: string(t.work.job), Spec: t.work.spec, Uid: t.work.uid, Grant: t.work.grant,
		Rendezvous: m.Start.GetRendezvous(), JobName: m.Start.GetJobName(), Run: m.Start.GetRun(), Node: string(t.work.node),
	})
}

// onAdopt takes over what an earlier agent started.
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

// onWarn tells a task that runs of its end. One that does not yet, or not any more, is not told: the leader says it
// again.
func (t *Task) onWarn(ctx actor.Context, m taskWarn) {
	if !t.states.In(taskRunning) {
		return
	}
	w := m.Warn
	t.ask(ctx, &messages.WarnTask{
		Id: t.work.id, Number: w.Number, Cause: w.Cause, LeftMs: w.LeftMs, Of: w.Of,
		Signal: t.work.spec.GetWarn().GetSignal(),
	})
}

// onStop may come again, when somebody has lost patience.
func (t *Task) onStop(ctx actor.Context, m taskStop) {
	if t.states.In(taskGone) {
		return // its evidence is on the way to the Node
	}
	t.become("stop", taskStopping)
	t.ask(ctx, &messages.StopTask{Id: t.work.id, Signal: m.Signal, GraceMs: m.GraceMs})
}

// onGone takes the launcher's evidence that nothing of the container is left.
func (t *Task) onGone(ctx actor.Context, m *messages.TaskGone) {
	if t.states.In(taskBorn, taskGone) {
		return
	}
	t.become("gone", taskGone)
	exit := t.exitOf(m.Exit)
	if t.spawned {
		t.logEnd(exit)
	}
	ctx.Send(ctx.Parent(), rankGone{t.work.key, exit, actors.Instant(m.StartedNs)})
}

// exitOf completes the launcher's report. A task that was never told to start did not run, so it cannot have succeeded.
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
			exit.Oom, exit.Disk = false, false
		}
	}
	return exit
}

// log is for lines about the task's attempt.
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
