package gateway

// This file defines the nodes of the tests: the real Node actor with a disk that stores nothing, and fake
// containers whose output the test sets.

import (
	"fmt"
	"sync"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/worker"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// join starts a node with 8 GPUs and 64 CPUs.
func (r *room) join(id string, leader *actor.ActorSystem) *launcher {
	s := r.system("node-" + id)
	l := &launcher{system: s, logs: map[string]*scripted{}}
	var gpus []*messages.Gpu
	for g := range 8 {
		gpus = append(gpus, &messages.Gpu{Id: fmt.Sprintf("GPU-%s-%d", id, g), Type: "h100", MemoryBytes: 80 << 30,
			Declared: true})
	}
	worker.Assemble(worker.Ports{
		Ports: actors.Ports{
			System: s, Host: r, Clock: roomClock{r, s}, Log: r, Constants: actors.DefaultConstants(),
		},
		Node: topology.NodeID(id), MachineID: "machine-" + id,
		Incarnation: &messages.Incarnation{BootId: "boot-" + id, StartedNs: 1},
		Announcement: &messages.Announcement{
			Total: &messages.Resources{MilliCpu: 64_000, MemoryBytes: 512 << 30, MilliGpu: 8_000}, Gpus: gpus,
			Place:   []*messages.Label{{Key: "zone", Value: "a"}, {Key: "rack", Value: "r1"}},
			Address: "127.0.0.1", PortFirst: 20000, PortLast: 20999, AgentVersion: "test",
		},
		Disk: roomDisk{s}, Launcher: l,
	})
	eventually(r.tb, "the Node is there", func() bool {
		_, there := s.ProcessRegistry.GetLocal(actors.NodePath)
		return there
	})
	leader.Root.Send(actor.NewPID("scheduler", actors.SchedulerPath), actors.LinkUp{Node: topology.NodeID(id)})
	return l
}

type roomDisk struct{ system *actor.ActorSystem }

func (d roomDisk) Load(to *actor.PID) { d.system.Root.Send(to, actors.DiskLoaded{}) }
func (d roomDisk) Save(seq uint64, _ []byte, to *actor.PID) {
	d.system.Root.Send(to, actors.DiskSaved{Seq: seq})
}
func (roomDisk) Quarantine() {}

// launcher runs fake tasks whose output the test sets.
type launcher struct {
	system *actor.ActorSystem
	mu     sync.Mutex
	tasks  []running
	logs   map[string]*scripted // by rank and stream, of any attempt
	asked  int
	mute   bool // it returns no output of its tasks
	execs  func(*messages.ExecTask)
	paged  func(rank int32, stderr bool) // called once, after a page was read and before it is sent
}

// running is a task and the actor that receives its end.
type running struct {
	id *messages.TaskId
	to *actor.PID
}

// scripted is one stream: its output, and how much of it rotation has discarded.
type scripted struct {
	data []byte
	gone int64
}

func logOf(rank int32, stderr bool) string { return fmt.Sprintf("%d %v", rank, stderr) }

func (l *launcher) Tell(command any, to *actor.PID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch m := command.(type) {
	case *messages.ListTasks:
		l.system.Root.Send(to, &messages.TaskList{})
	case *messages.PrepareTask:
		l.system.Root.Send(to, &messages.TaskPrepared{Id: m.Id})
	case *messages.StartTask:
		l.tasks = append(l.tasks, running{m.Id, to})
		l.system.Root.Send(to, &messages.TaskStarted{Id: m.Id})
	case *messages.StopTask:
		l.system.Root.Send(to, gone(m.Id, 143))
	case *messages.LogsTask:
		l.asked++
		if l.mute {
			return
		}
		page, paged := l.page(m), l.paged
		if l.paged = nil; paged == nil {
			l.system.Root.Send(to, page)
			return
		}
		go func() {
			paged(m.Id.Rank, m.Stderr)
			l.system.Root.Send(to, page)
		}()
	case *messages.ExecTask:
		l.execs(m)
	}
}

// onExec sets the reaction of the node to a requested exec session.
func (l *launcher) onExec(do func(*messages.ExecTask)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.execs = do
}

func gone(id *messages.TaskId, code int32) *messages.TaskGone {
	return &messages.TaskGone{Id: id, Exit: &messages.Exit{Rank: id.Rank, Kind: messages.ExitKind_EXIT_KIND_EXITED,
		Code: code}}
}

// page reads like the supervisor's logs.
func (l *launcher) page(m *messages.LogsTask) *messages.TaskLogs {
	s := l.logs[logOf(m.Id.Rank, m.Stderr)]
	if s == nil {
		return &messages.TaskLogs{Id: m.Id, Offset: m.Offset, End: true}
	}
	at := max(m.Offset, s.gone)
	from := min(at, int64(len(s.data)))
	data := s.data[from:min(from+m.LimitBytes, int64(len(s.data)))]
	return &messages.TaskLogs{Id: m.Id, Offset: at, Data: data, End: int64(len(data)) < m.LimitBytes}
}

func (l *launcher) writes(rank int32, stderr bool, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := logOf(rank, stderr)
	if l.logs[key] == nil {
		l.logs[key] = &scripted{}
	}
	l.logs[key].data = append(l.logs[key].data, text...)
}

// exits ends all running tasks. With fresh, it also discards their output.
func (l *launcher) exits(code int32, fresh bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.tasks {
		l.system.Root.Send(t.to, gone(t.id, code))
	}
	l.tasks = nil
	if fresh {
		clear(l.logs)
	}
}
