package test

// This file runs a whole cluster in one process: the production actors on the production mailboxes and dispatcher, real
// time, the memory store, and nodes whose disks and containers answer at once. It measures the protocol's cost without
// the cost of the environment.

import (
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader"
	"github.com/yi-json/synapse/actors/worker"
	"github.com/yi-json/synapse/cluster/host"
	"github.com/yi-json/synapse/cluster/link"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/test/able/pace"
	"github.com/yi-json/synapse/topology"
)

type inprocess struct {
	actors.NoLog
	tb      testing.TB
	start   time.Time
	mu      sync.RWMutex
	systems map[string]*actor.ActorSystem // by address
	stop    []func()                      // stops the actors of each process
	nodes   map[topology.NodeID]*actor.PID
	leader  *actor.ActorSystem
	pool    *host.Host
	jobs    int
	reached chan state // states that jobs reach
}

// state is a state that a job has reached, and when.
type state struct {
	name string
	at   time.Time
}

func newInprocess(tb testing.TB) *inprocess {
	return &inprocess{tb: tb, start: time.Now(), systems: map[string]*actor.ActorSystem{},
		nodes: map[topology.NodeID]*actor.PID{}, reached: make(chan state, 1024),
		pool: host.New(host.NewLog(io.Discard, false))}
}

// system creates an actor system that reaches the others by their addresses.
func (c *inprocess) system(address string) *actor.ActorSystem {
	s := host.NewSystem(func() {}) // as in production
	s.ProcessRegistry.Address = address
	s.ProcessRegistry.RegisterAddressResolver(func(pid *actor.PID) (actor.Process, bool) {
		c.mu.RLock()
		to := c.systems[pid.Address]
		c.mu.RUnlock()
		if to == nil {
			return nil, false
		}
		return to.ProcessRegistry.GetLocal(pid.Id)
	})
	c.mu.Lock()
	c.systems[address] = s
	c.mu.Unlock()
	return s
}

func (c *inprocess) Props(kind actors.Kind, make actor.Producer) *actor.Props {
	return c.pool.Props(kind, make) // production also uses its pool of goroutines
}

func (c *inprocess) Panicked(who *actor.PID, reason any, _ bool) {
	c.tb.Errorf("%s panicked: %v", who.Id, reason)
}
func (c *inprocess) Deposed(uint64)      { c.tb.Error("deposed") }
func (c *inprocess) Count(string, int64) {}

func (c *inprocess) Took(string, time.Duration) {}
func (c *inprocess) Now() actors.Instant        { return actors.Instant(time.Since(c.start)) }
func (c *inprocess) WallMs() int64              { return time.Now().UnixMilli() }

// Node returns a node's address, which is looked up only once, as on a link.
func (c *inprocess) Node(id topology.NodeID) *actor.PID {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.nodes[id]
}

// Moved reports the states of jobs, for which the benchmark waits.
func (c *inprocess) Moved(kind actors.Kind, _, _, to string) {
	if kind == actors.KindJob {
		c.reached <- state{to, time.Now()}
	}
}

// await waits until some job reaches a state, and returns the time of that.
func (c *inprocess) await(name string) time.Time {
	limit := time.After(pace.Of(20 * time.Second))
	for {
		select {
		case to := <-c.reached:
			if to.name == name {
				return to.at
			}
		case <-limit:
			c.tb.Fatalf("no job reached %q", name)
		}
	}
}

// clock delivers timers to actors of one system.
type clock struct {
	*inprocess
	system *actor.ActorSystem
}

func (k clock) After(d time.Duration, to *actor.PID, m any) {
	time.AfterFunc(d, func() { k.system.Root.Send(to, m) })
}

// disk stores nothing and answers at once.
type disk struct{ system *actor.ActorSystem }

func (d disk) Load(to *actor.PID) { d.system.Root.Send(to, actors.DiskLoaded{}) }
func (d disk) Save(seq uint64, _ []byte, to *actor.PID) {
	d.system.Root.Send(to, actors.DiskSaved{Seq: seq})
}
func (disk) Quarantine() {}

// launcher starts tasks at once and runs them until they are stopped.
type launcher struct{ system *actor.ActorSystem }

func (l launcher) Tell(command any, to *actor.PID) {
	switch m := command.(type) {
	case *messages.ListTasks:
		l.system.Root.Send(to, &messages.TaskList{})
	case *messages.PrepareTask:
		l.system.Root.Send(to, &messages.TaskPrepared{Id: m.Id})
	case *messages.StartTask:
		l.system.Root.Send(to, &messages.TaskStarted{Id: m.Id})
	case *messages.StopTask:
		l.system.Root.Send(to, &messages.TaskGone{Id: m.Id, Exit: &messages.Exit{
			Rank: m.Id.Rank, Kind: messages.ExitKind_EXIT_KIND_EXITED, Code: 143, Signal: 15,
		}})
	}
}

// lead starts the leader.
func (c *inprocess) lead() {
	s := c.system("scheduler")
	c.leader = s
	memory := store.NewMemory()
	epoch, err := memory.Lead("bench")
	if err != nil {
		c.tb.Fatal(err)
	}
	c.ends(s, leader.Assemble(leader.Ports{
		Ports: actors.Ports{
			System: s, Host: c, Clock: clock{c, s}, Log: c, Constants: actors.DefaultConstants(),
		},
		Epoch: epoch, ClusterID: "bench", Levels: []string{"zone", "rack"},
		Store: store.NewPort(memory, s), Peers: c, Calls: c, Planner: policy.Default{},
		NewJobID: func() topology.JobID { c.jobs++; return topology.JobID(fmt.Sprintf("job-%d", c.jobs)) },
		UIDs:     topology.UIDRange{First: 2_000_000, Last: 2_999_999},
	}))
	born(s, actors.SchedulerPath)
}

// ends stops a process's actors when the cluster closes.
func (c *inprocess) ends(s *actor.ActorSystem, root *actor.PID) {
	c.stop = append(c.stop, func() { s.Root.Stop(root) })
}

// close ends all processes, so that they cost the next test neither time nor memory.
func (c *inprocess) close() {
	for _, stop := range c.stop {
		stop()
	}
}

// born waits for an actor, because Assemble returns before the actor exists and an earlier message would be lost.
func born(s *actor.ActorSystem, path string) {
	for {
		if _, there := s.ProcessRegistry.GetLocal(path); there {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// join starts a node of 8 GPUs and notifies the leader that its link is up.
func (c *inprocess) join(i int) {
	id := fmt.Sprintf("n%04d", i)
	s := c.system("node-" + id)
	var gpus []*messages.Gpu
	for g := range 8 {
		gpus = append(gpus, &messages.Gpu{
			Id: fmt.Sprintf("GPU-%s-%d", id, g), Type: "h100", MemoryBytes: 80 << 30, Declared: true,
		})
	}
	c.ends(s, worker.Assemble(worker.Ports{
		Ports: actors.Ports{
			System: s, Host: c, Clock: clock{c, s}, Log: c, Constants: actors.DefaultConstants(),
		},
		Node: topology.NodeID(id), MachineID: "machine-" + id,
		Incarnation: &messages.Incarnation{BootId: "boot-" + id, StartedNs: 1},
		Announcement: &messages.Announcement{
			Total: &messages.Resources{MilliCpu: 64_000, MemoryBytes: 512 << 30, MilliGpu: 8_000}, Gpus: gpus,
			Place:   []*messages.Label{{Key: "zone", Value: "a"}, {Key: "rack", Value: fmt.Sprintf("r%02d", i/16)}},
			Address: "127.0.0.1", PortFirst: 20000, PortLast: 20999, AgentVersion: "test",
		},
		Disk: disk{s}, Launcher: launcher{s},
	}))
	born(s, actors.NodePath)
	c.mu.Lock()
	c.nodes[topology.NodeID(id)] = actor.NewPID("node-"+id, actors.NodePath)
	c.mu.Unlock()
	c.leader.Root.Send(actor.NewPID("scheduler", actors.SchedulerPath), actors.LinkUp{Node: topology.NodeID(id)})
}

// client creates an actor that passes all its messages to a channel.
func (c *inprocess) client() (*actor.PID, chan any) {
	got := make(chan any, 1024)
	pass := func(ctx actor.Context) { got <- ctx.Message() }
	return c.leader.Root.Spawn(actor.PropsFromFunc(pass, actor.WithMailbox(link.Mailbox))), got
}

func (c *inprocess) ask(from *actor.PID, path string, m any) {
	c.leader.Root.RequestWithCustomSender(actor.NewPID("scheduler", path), m, from)
}
