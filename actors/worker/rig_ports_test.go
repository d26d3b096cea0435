package worker

import (
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the ports of the simulated node.

// rigBox is a mailbox that the rig empties.
type rigBox struct {
	r            *nodeRig
	invoker      actor.MessageInvoker
	user, system []any
}

func (b *rigBox) PostUserMessage(m any)   { b.user = append(b.user, m) }
func (b *rigBox) PostSystemMessage(m any) { b.system = append(b.system, m) }
func (b *rigBox) UserMessageCount() int   { return len(b.user) }
func (b *rigBox) Start()                  {}

func (b *rigBox) RegisterHandlers(i actor.MessageInvoker, _ actor.Dispatcher) {
	b.invoker = i
	b.r.boxes = append(b.r.boxes, b)
}

func (b *rigBox) deliver() {
	if len(b.system) > 0 {
		m := b.system[0]
		b.system = b.system[1:]
		b.invoker.InvokeSystemMessage(m)
		return
	}
	m := b.user[0]
	b.user = b.user[1:]
	b.invoker.InvokeUserMessage(m)
}

// rigHost is the process: it counts, and records every transition.
type rigHost struct{ r *nodeRig }

func (h *rigHost) Props(kind actors.Kind, produce actor.Producer) *actor.Props {
	make := func() actor.Actor {
		a := produce()
		if n, is := a.(*Node); is {
			h.r.node = n
		}
		return a
	}
	return actor.PropsFromProducer(make, actor.WithMailbox(func() actor.Mailbox { return &rigBox{r: h.r} }))
}

func (h *rigHost) Panicked(who *actor.PID, reason any, _ bool) {
	h.r.t.Errorf("%s: %v", who.Id, reason)
}
func (h *rigHost) Deposed(uint64)             {}
func (h *rigHost) Count(name string, n int64) { h.r.say("count %s", name) }

func (h *rigHost) Took(string, time.Duration) {}
func (h *rigHost) Moved(kind actors.Kind, from, event, to string) {
	h.r.taken[fmt.Sprintf("%s: %s -%s-> %s", kind, from, event, to)] = true
}

type rigClock struct {
	r     *nodeRig
	agent int
}

func (c *rigClock) Now() actors.Instant { return c.r.now }
func (c *rigClock) WallMs() int64       { return int64(c.r.now) / 1e6 }
func (c *rigClock) After(d time.Duration, to *actor.PID, m any) {
	c.r.timers = append(c.r.timers, rigTimer{c.r.now.Plus(d), c.agent, to, m})
}

type rigLog struct {
	actors.NoLog
	r *nodeRig
}

func (l *rigLog) Info(format string, args ...any) { l.r.say("log: "+format, args...) }
func (l *rigLog) Debug(format string, args ...any) {
	if !l.r.hush {
		l.r.say("debug: "+format, args...)
	}
}

// rigWire receives the messages that leave the node.
type rigWire struct {
	r  *nodeRig
	to string
}

func (w *rigWire) SendUserMessage(_ *actor.PID, m any) {
	_, message, sender := actor.UnwrapEnvelope(m)
	if sender == nil {
		w.r.t.Errorf("%T is sent without a sender, so the link would drop it", message)
	}
	if err := message.(interface{ Validate() error }).Validate(); err != nil {
		w.r.t.Errorf("%T leaves that the link refuses at the other end: %v", message, err)
	}
	if _, is := message.(*messages.Heartbeat); is && w.r.hush {
		return
	}
	w.r.say("%s <- %s", w.to, spoken(message))
	w.r.watch(message)
}
func (w *rigWire) SendSystemMessage(*actor.PID, any) {}
func (w *rigWire) Stop(*actor.PID)                   {}

// rigDisk holds a node's record. A save is answered at once unless it is held back.
type rigDisk struct {
	content []byte
	fault   string // error of every save
	keep    bool   // a failing save may still have been written
	held    bool
	pending []byte
	saving  uint64
	to      *actor.PID
}

type rigDiskPort struct {
	r     *nodeRig
	agent int
}

func (p *rigDiskPort) Load(to *actor.PID) {
	m := actors.DiskLoaded{Data: slices.Clone(p.r.disk.content)}
	if p.r.disk.fault != "" {
		m = actors.DiskLoaded{Err: p.r.disk.fault}
	}
	p.r.system.Root.Send(to, m)
}

func (p *rigDiskPort) Save(seq uint64, data []byte, to *actor.PID) {
	d := &p.r.disk
	if d.saving != 0 {
		p.r.t.Errorf("a second save during another one")
	}
	d.saving, d.pending, d.to = seq, slices.Clone(data), to
	if d.held {
		p.r.say("disk <- save, held: %s", recordWords(data))
		return
	}
	p.r.say("disk <- save: %s", recordWords(data))
	p.r.finishSave()
}

func (p *rigDiskPort) Quarantine() {
	p.r.say("disk <- quarantine")
	p.r.disk.content = nil
}

func (r *nodeRig) finishSave() {
	d := &r.disk
	if d.fault == "" || d.keep {
		d.content = d.pending
	}
	m := actors.DiskSaved{Seq: d.saving, Err: d.fault}
	d.saving, d.pending = 0, nil
	r.system.Root.Send(d.to, m)
}

// rigLauncher keeps containers across agents. In automatic mode it answers at once. Otherwise the scenario triggers
// each event.
type rigLauncher struct {
	r     *nodeRig
	auto  bool
	tasks map[topology.TaskKey]*rigTask
	order []topology.TaskKey
	ill   string // the check of the node that failed last
}

type rigTask struct {
	asked    bool // a start was requested
	prepared bool
	spawned  bool
	stopped  bool           // a stop was requested
	began    actors.Instant // of its process; 0: unknown
	grant    *messages.Grant
	exit     *messages.Exit
	to       *actor.PID
}

func (l *rigLauncher) Tell(command any, to *actor.PID) {
	if _, keep := command.(*messages.KeepTasks); !keep || !l.r.hush {
		l.r.say("launcher <- %s", spoken(command))
	}
	l.r.watch(command)
	switch c := command.(type) {
	case *messages.ListTasks:
		l.tell(to, l.list())
	case *messages.ForgetTask:
		l.order = slices.DeleteFunc(l.order, func(k topology.TaskKey) bool { return k == c.Id.Key() })
		delete(l.tasks, c.Id.Key())
	case *messages.KeepTasks:
	case interface{ GetId() *messages.TaskId }:
		l.about(command, c.GetId().Key(), to)
	}
}

func (l *rigLauncher) list() *messages.TaskList {
	m := &messages.TaskList{Health: &messages.MachineHealth{Unwell: l.ill}}
	for _, k := range l.order {
		t := l.tasks[k]
		m.Tasks = append(m.Tasks, &messages.TaskEntry{Id: messages.ToTaskID(k), Prepared: t.prepared, Started: t.spawned,
			Exit: t.exit})
	}
	return m
}

func (l *rigLauncher) task(k topology.TaskKey) *rigTask {
	if l.tasks[k] == nil {
		l.tasks[k] = &rigTask{}
		l.order = append(l.order, k)
	}
	return l.tasks[k]
}

func (l *rigLauncher) about(command any, k topology.TaskKey, to *actor.PID) {
	_, stop := command.(*messages.StopTask)
	if l.tasks[k] == nil && stop {
		l.tell(to,
			&messages.TaskGone{Id: messages.ToTaskID(k), Exit: &messages.Exit{Kind: messages.ExitKind_EXIT_KIND_NEVER_STARTED}})
		return
	}
	t := l.task(k)
	t.to = to
	t.stopped = t.stopped || stop
	if c, is := command.(*messages.StartTask); is {
		t.asked, t.grant = true, c.Grant
	}
	if !l.auto && t.exit == nil {
		return
	}
	switch command.(type) {
	case *messages.PrepareTask:
		t.prepared = true
	case *messages.StartTask:
		t.spawned = true
	case *messages.StopTask:
		l.end(k, messages.ExitKind_EXIT_KIND_EXITED, 143)
		return
	}
	l.answer(k)
}

func (l *rigLauncher) answer(k topology.TaskKey) {
	switch t := l.tasks[k]; {
	case t.exit != nil:
		l.tell(t.to, &messages.TaskGone{Id: messages.ToTaskID(k), Exit: t.exit, StartedNs: int64(t.began)})
	case t.spawned:
		l.tell(t.to, &messages.TaskStarted{Id: messages.ToTaskID(k), StartedNs: int64(t.began)})
	case t.prepared:
		l.tell(t.to, &messages.TaskPrepared{Id: messages.ToTaskID(k)})
	}
}

func (l *rigLauncher) end(k topology.TaskKey, kind messages.ExitKind, code int32) {
	if t := l.task(k); t.exit == nil {
		t.exit = &messages.Exit{Rank: int32(k.Rank), Kind: kind, Code: code, AtUnixMs: int64(l.r.now) / 1e6}
	}
	l.answer(k)
}

func (l *rigLauncher) tell(to *actor.PID, m proto.Message) {
	if to != nil {
		l.r.system.Root.Send(to, m)
	}
}
