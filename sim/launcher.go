package sim

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file simulates the launcher of one node. It survives the agent, as supervisors do. It is the ground truth of the
// simulation: which processes exist, with which token, on which GPUs.

// taskState names how far a container is.
type taskState uint8

const (
	taskPreparing taskState = iota
	taskPrepared
	taskRunning
	taskGone
)

// task is one container.
type task struct {
	key       topology.TaskKey
	job       string
	uid       uint32
	node      string
	state     taskState
	prepared  bool
	spawned   bool
	exit      *messages.Exit
	grant     *messages.Grant
	meet      *messages.Rendezvous // from its Start
	agent     *process             // the agent process that gets reports …
	to        *actor.PID
	signal    int32         // the stop signal that its job requests
	fence     time.Duration // stopWhenLost; 0: none
	grace     time.Duration
	deaf      bool
	began     actors.Instant
	spawnedAt instant
	killing   bool // a stop is on its way
	told      bool // it was stopped while it ran
	saves     bool // it saves its work when it is stopped, and exits with 0
	heeds     bool // it does so when it is warned
	warned    []warnedOf
	acks      string             // how it answers a request to save; empty: not at all
	asked     uint64             // the last request to save that it handles
	saved     acknowledged       // the last request that it has acknowledged
	notice    *messages.WarnTask // the last warning
	idleTold  instant            // when it was last told that it does nothing; 0: never
	slow      bool               // it will never be prepared
	stuck     bool               // it was killed, but the kernel does not end it
}

// launcher lasts for one boot of its node.
type launcher struct {
	w       *World
	m       *machine
	tasks   map[topology.TaskKey]*task
	order   []*task          // the same tasks in order of arrival
	used    map[string]int64 // thousandths of each GPU that running processes use
	heard   actors.Instant   // when the last acknowledged heartbeat was sent
	last    instant          // commands do not overtake each other
	faulted []string         // GPUs that are broken
	mended  []string         // GPUs that were repaired
	off     bool             // the node has lost its power
	lacks   shortage         // resources that its kernel does not provide

	kept     []*keptTask
	agent    *process // the agent that gets UIDs …
	node     *actor.PID
	toldUids []uint32 // … and the UIDs that it got

	health health
}

func newLauncher(w *World, m *machine) *launcher {
	return &launcher{w: w, m: m, tasks: map[topology.TaskKey]*task{}, used: map[string]int64{},
		health: health{lookedFor: map[topology.Token]bool{}}}
}

// launcherPort is the launcher as one agent reaches it.
type launcherPort struct {
	l    *launcher
	proc *process
}

// Tell sends the launcher a command. If the agent dies meanwhile, the command may be executed or not.
func (x *launcherPort) Tell(command any, answerTo *actor.PID) {
	l := x.l
	if c, is := command.(*messages.ExecTask); is {
		l.exec(c, x.proc)
		return
	}
	at := l.w.engine.now.plus(l.w.chance.between(20*time.Microsecond, 500*time.Microsecond))
	l.last = max(at, l.last+l.w.apart)
	l.w.engine.at(l.last, action(func() {
		if !l.off && (!x.proc.dead || l.w.chance.chance(0.5)) {
			l.obey(command, x.proc, answerTo)
			l.wantExec(command, x.proc)
		}
	}))
}

func (l *launcher) obey(command any, agent *process, to *actor.PID) {
	switch c := command.(type) {
	case *messages.PrepareTask:
		l.prepare(c, agent, to)
	case *messages.StartTask:
		if !l.stopsBefore(c, agent) {
			l.start(c, agent, to)
		}
	case *messages.AdoptTask:
		l.adopt(c.Id.Key(), agent, to)
	case *messages.StopTask:
		l.stop(c, agent, to)
	case *messages.WarnTask:
		l.warn(c, agent, to)
	case *messages.SignalTask:
		// Signals of users change nothing in the protocol.
	case *messages.ForgetTask:
		l.forget(c.Id.Key())
	case *messages.CheckMachine:
		l.onCheck(c)
	case *messages.ListTasks:
		l.joins()
		list := l.list()
		list.Health = l.healthNow()
		l.listens(agent, to, list)
		agent.tell(to, list)
		l.tellFaults(agent, to)
		for _, gpu := range l.mended {
			l.w.engine.after(deviceLook, func() { l.tellMended(gpu) })
		}
	case *messages.KeepTasks:
		l.heard = max(l.heard, actors.Instant(c.HeardNs))
	case *messages.StatsTask:
		agent.tell(to, &messages.TaskStats{Id: c.Id, Processes: 1})
	default:
		l.w.violate("driver contract", "%s: the launcher was told %T", l.m.address, command)
	}
}

// known returns the task with this ID, which from now on reports to this agent.
func (l *launcher) known(k topology.TaskKey, agent *process, to *actor.PID) *task {
	t := l.tasks[k]
	if t != nil {
		t.agent, t.to = agent, to
	}
	return t
}

func (l *launcher) add(k topology.TaskKey, job string, uid uint32, spec *messages.JobSpec,
	grant *messages.Grant) *task {
	t := &task{key: k, job: job, uid: uid, grant: grant}
	plan := parseScript(wordsOf(spec))
	t.deaf, t.saves, t.heeds = plan.deaf, plan.saves, plan.heeds
	t.acks = plan.acks
	t.signal = spec.GetStop().GetSignal()
	t.fence = time.Duration(spec.GetStopWhenLostMs()) * time.Millisecond
	t.grace = l.w.constants.StopGrace
	if ms := spec.GetStop().GetGraceMs(); ms > 0 {
		t.grace = time.Duration(ms) * time.Millisecond
	}
	l.tasks[k] = t
	l.order = append(l.order, t)
	l.tellUids()
	return t
}

func (l *launcher) prepare(c *messages.PrepareTask, agent *process, to *actor.PID) {
	k := c.Id.Key()
	if t := l.known(k, agent, to); t != nil {
		l.answer(t)
		return
	}
	l.checkUser(c)
	t, plan := l.add(k, c.Job, c.Uid, c.Spec, c.Grant), parseScript(wordsOf(c.Spec))
	t.agent, t.to = agent, to
	switch {
	case !l.evicts(t):
		l.unprepared(t, time.Millisecond, "its uid is another job's here", messages.Fault_FAULT_UNKNOWN)
	case l.lacks != nothing:
		l.starved(t, messages.ExitKind_EXIT_KIND_PREPARE_FAILED, 0)
	case l.w.fires("prepare-hang"):
		t.slow = true
	case l.w.fires("job-wrong"):
		l.unprepared(t, l.w.chance.between(time.Millisecond, 2*time.Second), "the job names what no machine lets it",
			messages.Fault_FAULT_JOB)
	case l.w.fires("prepare-fail"):
		l.unprepared(t, l.w.chance.between(time.Millisecond, 2*time.Second), "the image could not be fetched",
			messages.Fault_FAULT_UNKNOWN)
	case plan.image > 0:
		l.later(t, plan.image, func() { l.ready(t) })
	default:
		l.later(t, l.lasts(2*time.Millisecond, 4*time.Second), func() { l.ready(t) })
	}
}

// unprepared makes a task fail after a while, before it is prepared.
func (l *launcher) unprepared(t *task, after time.Duration, why string, fault messages.Fault) {
	l.later(t, after, func() { l.failed(t, messages.ExitKind_EXIT_KIND_PREPARE_FAILED, 0, why, fault) })
}

func (l *launcher) ready(t *task) {
	if t.state == taskPreparing {
		t.state, t.prepared = taskPrepared, true
		l.w.seen(Event{Kind: TaskPrepared, Machine: l.m, Task: t})
		l.answer(t)
		if l.w.fires("prepared-lost") {
			l.later(t, l.w.chance.skewed(0, 2*time.Second), func() { l.spoil(t) })
		}
	}
}

// spoil discards a prepared task, unless it has started meanwhile.
func (l *launcher) spoil(t *task) {
	if t.state == taskPrepared {
		l.failed(t, messages.ExitKind_EXIT_KIND_PREPARE_FAILED, 0, "its rootfs has vanished", messages.Fault_FAULT_UNKNOWN)
	}
}

// later calls do about a task after a delay, unless the node or the task is gone by then.
func (l *launcher) later(t *task, d time.Duration, do func()) {
	l.w.engine.at(l.w.engine.now.plus(l.m.clock.lasts(d)), action(func() {
		if !l.off && t.state != taskGone {
			do()
		}
	}))
}

// start starts the process of a task, once per ID.
func (l *launcher) start(c *messages.StartTask, agent *process, to *actor.PID) {
	k := c.Id.Key()
	t := l.known(k, agent, to)
	if t == nil {
		t = l.add(k, c.Job, c.Uid, c.Spec, c.Grant)
		t.agent, t.to = agent, to
	}
	if t.spawned || t.state == taskGone || t.killing {
		l.answer(t)
		return
	}
	if l.lacks != nothing {
		l.starved(t, messages.ExitKind_EXIT_KIND_LAUNCH_FAILED, 125)
		return
	}
	if l.w.fires("launch-fail") {
		l.failed(t, messages.ExitKind_EXIT_KIND_LAUNCH_FAILED, 125, "the container could not be set up",
			messages.Fault_FAULT_MACHINE)
		return
	}
	if l.w.fires("launch-wrong") {
		l.failed(t, messages.ExitKind_EXIT_KIND_LAUNCH_FAILED, 125, "a path that the job names cannot be shown to it",
			messages.Fault_FAULT_UNKNOWN)
		return
	}
	l.later(t, l.lasts(time.Millisecond, 300*time.Millisecond), func() { l.spawn(t, c) })
}

// lasts draws how long a step of a process takes.
func (l *launcher) lasts(least, most time.Duration) time.Duration {
	d := l.w.chance.skewed(least, most)
	if limit := l.w.opts.Processes; limit > 0 {
		d = min(d, limit)
	}
	return d
}

func (l *launcher) spawn(t *task, c *messages.StartTask) {
	if t.spawned || t.killing {
		return
	}
	t.spawned, t.state = true, taskRunning
	t.grant, t.node, t.meet = c.Grant, c.Node, c.Rendezvous
	t.began, t.spawnedAt = l.m.now(), l.w.engine.now
	for _, g := range t.grant.GetGpus() {
		l.used[g.GpuId] += g.Milli
	}
	l.w.spawned(l.m, t)
	after, code, oom := parseScript(wordsOf(c.Spec)).end(int32(t.key.Rank), c.Run)
	if l.w.lasts != nil {
		after = l.w.lasts(topology.JobID(t.job))
	}
	switch {
	case l.w.fires("supervisor-lost"):
		l.later(t, after/2, func() { l.end(t, messages.ExitKind_EXIT_KIND_SUPERVISOR_LOST, 0, "its supervisor was killed") })
	case l.w.fires("oom"):
		l.later(t, after/2, func() { l.exited(t, 137, true) })
	case l.w.fires("task-fail"):
		l.later(t, after/2, func() { l.exited(t, 1, false) })
	case l.w.fires("task-hang"):
		t.deaf = true // it never ends by itself
	default:
		l.later(t, after, func() { l.endsItself(t, code, oom) })
	}
	l.progresses(t, c, after)
	if idle := parseScript(wordsOf(c.Spec)).idle; idle.from > 0 {
		l.uses(t, idle, 0)
	}
	if t.fence > 0 {
		l.keep(t)
	}
	l.answer(t)
}

// keep simulates the supervisor's own timer. Without an acknowledged heartbeat for the job's stopWhenLost, the
// supervisor stops its task, even without an agent.
func (l *launcher) keep(t *task) {
	from := l.heard // also if the task began later, because the leader does not know that
	if from == 0 {
		from = t.began
	}
	due := from.Plus(t.fence)
	if l.m.now() >= due {
		l.w.fired("fenced")
		l.terminate(t, t.grace)
		return
	}
	l.later(t, due.Since(l.m.now()), func() { l.keep(t) })
}

func (l *launcher) exited(t *task, code int32, oom bool) {
	if t.state == taskGone || t.stuck {
		return
	}
	l.end(t, messages.ExitKind_EXIT_KIND_EXITED, code, "")
	t.exit.Oom, t.exit.ByItself = oom, !t.told
	if code > 128 {
		t.exit.Signal = code - 128
	}
}

// failed ends a task that never ran, with the fault that caused this.
func (l *launcher) failed(t *task, kind messages.ExitKind, code int32, detail string, fault messages.Fault) {
	if t.state != taskGone {
		l.end(t, kind, code, detail)
		t.exit.Fault = fault
	}
}

// end marks the moment at which the process group has ended and the cgroup is empty.
func (l *launcher) end(t *task, kind messages.ExitKind, code int32, detail string) {
	if t.state == taskGone || t.stuck {
		return
	}
	if t.state == taskRunning {
		for _, g := range t.grant.GetGpus() {
			l.used[g.GpuId] -= g.Milli
		}
		l.w.happened(l.m, t, false)
	}
	t.state = taskGone
	t.exit = &messages.Exit{Rank: int32(t.key.Rank), Kind: kind, Code: code, Detail: detail,
		AtUnixMs: l.m.clock.wall(l.w.engine.now)}
	l.w.seen(Event{Kind: TaskEnded, Machine: l.m, Task: t})
	// The caller adds the last details of the exit before the agent gets it.
	l.w.engine.after(l.w.chance.between(10*time.Microsecond, time.Millisecond), func() { l.answer(t) })
}

// answer reports the state of a task to the agent that asked last.
func (l *launcher) answer(t *task) {
	if l.off || t.agent == nil || l.tasks[t.key] != t {
		return
	}
	switch t.state {
	case taskPrepared:
		t.agent.tell(t.to, &messages.TaskPrepared{Id: messages.ToTaskID(t.key)})
	case taskRunning:
		t.agent.tell(t.to, &messages.TaskStarted{Id: messages.ToTaskID(t.key), StartedNs: int64(t.began)})
	case taskGone:
		t.agent.tell(t.to, &messages.TaskGone{Id: messages.ToTaskID(t.key), Exit: copyOf(t.exit), StartedNs: int64(t.began)})
	}
}

// adopt gives a container of an earlier agent to a new one.
func (l *launcher) adopt(k topology.TaskKey, agent *process, to *actor.PID) {
	if t := l.known(k, agent, to); t != nil {
		l.answer(t)
		return
	}
	exit := &messages.Exit{Rank: int32(k.Rank), Kind: messages.ExitKind_EXIT_KIND_SUPERVISOR_LOST}
	agent.tell(to, &messages.TaskGone{Id: messages.ToTaskID(k), Exit: exit})
}

func (l *launcher) stop(c *messages.StopTask, agent *process, to *actor.PID) {
	k := c.Id.Key()
	t := l.known(k, agent, to)
	if t == nil {
		exit := &messages.Exit{Rank: int32(k.Rank), Kind: messages.ExitKind_EXIT_KIND_NEVER_STARTED}
		agent.tell(to, &messages.TaskGone{Id: messages.ToTaskID(k), Exit: exit})
		return
	}
	// A task that no leader knows any more is stopped with the default signal.
	if known := l.w.books.attempts[k.Token] != nil; known && c.Signal != t.signal {
		l.w.violate("driver contract", "%s: %v of %s is stopped by signal %d, and wants %d", l.m.address, k, t.job,
			c.Signal, t.signal)
	}
	l.terminate(t, time.Duration(c.GraceMs)*time.Millisecond)
}

// terminate signals a task, waits for the grace, and kills it.
func (l *launcher) terminate(t *task, grace time.Duration) {
	switch {
	case t.state == taskGone:
		l.answer(t)
	case t.state != taskRunning:
		t.killing = true
		l.later(t, l.w.chance.between(time.Millisecond, 50*time.Millisecond), func() {
			l.end(t, messages.ExitKind_EXIT_KIND_NEVER_STARTED, 0, "")
		})
	default:
		t.told = true
		l.signal(t, grace)
	}
}

// signal simulates how a running task reacts to a stop signal.
func (l *launcher) signal(t *task, grace time.Duration) {
	switch {
	case t.stuck:
		return
	case l.w.fires("unkillable"):
		l.stick(t, 137, false)
		return
	}
	if t.deaf || l.w.fires("term-ignored") {
		l.later(t, grace, func() { l.exited(t, 137, false) })
		return
	}
	code := int32(143)
	if t.saves {
		code = 0
	}
	soon := l.lasts(2*time.Millisecond, min(3*time.Second, max(grace, 4*time.Millisecond)))
	l.later(t, soon, func() { l.exited(t, code, false) })
}

func (l *launcher) forget(k topology.TaskKey) {
	t := l.tasks[k]
	if t == nil || t.state != taskGone {
		return
	}
	delete(l.tasks, k)
	l.order = slices.DeleteFunc(l.order, func(o *task) bool { return o == t })
	l.keeps(t)
	l.tellUids()
}

func (l *launcher) list() *messages.TaskList {
	all := &messages.TaskList{}
	for _, t := range l.order {
		all.Tasks = append(all.Tasks,
			&messages.TaskEntry{Id: messages.ToTaskID(t.key), Prepared: t.prepared, Started: t.spawned, Exit: copyOf(t.exit),
				Stop: &messages.StopSpec{Signal: t.signal, GraceMs: t.grace.Milliseconds()}})
	}
	return all
}

// powerOff ends every process without a report.
func (l *launcher) powerOff() {
	l.off = true
	for _, t := range l.order {
		if t.state == taskRunning {
			t.state = taskGone
			l.w.seen(Event{Kind: TaskEnded, Machine: l.m, Task: t})
		}
	}
}

// running reports whether a process of this attempt's rank exists.
func (l *launcher) running(k topology.TaskKey) bool {
	t := l.tasks[k]
	return t != nil && t.state == taskRunning
}
