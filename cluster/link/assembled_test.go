package link

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader"
	"github.com/yi-json/synapse/actors/worker"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/topology"
)

// This file owns the tests of the link with the real actors of a process: a leader, nodes that join it, and a clone of
// one of them.

// house holds the ports of one process whose disks and containers answer at once.
type house struct {
	tb     testing.TB
	began  time.Time
	system *actor.ActorSystem
	log    lines
	starts func(*messages.StartTask) // if set, containers are prepared and reported as started at once, without a process

	mu   sync.Mutex
	over bool // the process was killed or its test has ended: its clock stops and its messages are dropped
}

func newHouse(tb testing.TB) *house {
	p := &house{tb: tb, began: time.Now(), log: make(lines, 1024), system: newSystem()}
	tb.Cleanup(p.kill)
	return p
}

// kill ends a process like a kill signal: its actors are not stopped one by one.
func (p *house) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
}

// living runs a function unless the process has ended.
func (p *house) living(do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		do()
	}
}

func (*house) Props(_ actors.Kind, make actor.Producer) *actor.Props {
	return actor.PropsFromProducer(make, actor.WithMailbox(Mailbox))
}
func (p *house) Panicked(who *actor.PID, reason any, _ bool) {
	p.living(func() { p.tb.Errorf("%s panicked: %v", who.Id, reason) })
}
func (p *house) Deposed(uint64)                    { p.living(func() { p.tb.Error("deposed") }) }
func (*house) Moved(_ actors.Kind, _, _, _ string) {}
func (*house) Count(string, int64)                 {}
func (*house) Took(string, time.Duration)          {}
func (p *house) Now() actors.Instant               { return actors.Instant(time.Since(p.began)) }
func (*house) WallMs() int64                       { return time.Now().UnixMilli() }
func (p *house) After(d time.Duration, to *actor.PID, m any) {
	time.AfterFunc(d, func() { p.living(func() { p.system.Root.Send(to, m) }) })
}
func (p *house) Load(to *actor.PID) { p.system.Root.Send(to, actors.DiskLoaded{}) }
func (p *house) Save(seq uint64, _ []byte, to *actor.PID) {
	p.system.Root.Send(to, actors.DiskSaved{Seq: seq})
}
func (*house) Quarantine() {}
func (p *house) Tell(command any, to *actor.PID) {
	switch m := command.(type) {
	case *messages.ListTasks:
		p.system.Root.Send(to, &messages.TaskList{})
	case *messages.PrepareTask:
		if p.starts != nil {
			p.system.Root.Send(to, &messages.TaskPrepared{Id: m.Id})
		}
	case *messages.StartTask:
		if p.starts != nil {
			p.starts(m)
			p.system.Root.Send(to, &messages.TaskStarted{Id: m.Id})
		}
	case *messages.StopTask:
		p.system.Root.Send(to, &messages.TaskGone{Id: m.Id, Exit: &messages.Exit{
			Rank: m.Id.Rank, Kind: messages.ExitKind_EXIT_KIND_EXITED, Code: 143, Signal: 15,
		}})
	}
}

func (p *house) says(words string) {
	p.tb.Helper()
	p.saysWithin(patience, words)
}

func (p *house) saysWithin(limit time.Duration, words string) {
	p.tb.Helper()
	var said []string
	for over := time.After(limit); ; {
		select {
		case line := <-p.log:
			if strings.Contains(line, words) {
				return
			}
			said = append(said, line)
		case <-over:
			last := strings.Join(said[max(0, len(said)-20):], "\n")
			p.tb.Fatalf("%q was not logged within %v, but at last:\n%s", words, limit, last)
		}
	}
}

// brisk returns constants with short timeouts.
func brisk() actors.Constants {
	c := actors.DefaultConstants()
	c.Heartbeat, c.DeadAfter = 50*time.Millisecond, 500*time.Millisecond
	c.RackTick, c.ResendCap = 50*time.Millisecond, 200*time.Millisecond
	return c
}

// lead makes the hall's process a leader with real actors.
func lead(t *testing.T, memory *store.Memory) (*house, *hall) { return leadBy(t, memory, brisk()) }

func leadBy(t *testing.T, memory *store.Memory, constants actors.Constants) (*house, *hall) {
	p := newHouse(t)
	h := &hall{tb: t, system: p.system, server: NewServer(p.system, Options{})}
	serve(t, h)
	epoch, err := memory.Lead("here")
	if err != nil {
		t.Fatal(err)
	}
	ids := 0
	leader.Assemble(leader.Ports{
		Ports: actors.Ports{
			System: p.system, Host: p, Clock: p, Log: p.log, Constants: constants,
		},
		Epoch: epoch, ClusterID: "c1", Levels: []string{"rack"}, Store: store.NewPort(memory, p.system), Peers: h.server,
		Calls:    p.log,
		Planner:  policy.Default{},
		NewJobID: func() topology.JobID { ids++; return topology.JobID(fmt.Sprintf("job-%d", ids)) },
	})
	h.server.Lead(epoch)
	return p, h
}

// join creates a node with a real Node actor.
func join(t *testing.T, o Options) (*house, *Client) {
	p := newHouse(t)
	return p, p.join(o, brisk(), &messages.Announcement{
		Total:   &messages.Resources{MilliCpu: 4000, MemoryBytes: 1 << 30},
		Place:   []*messages.Label{{Key: "rack", Value: "a/1"}},
		Address: "127.0.0.1", PortFirst: 20000, PortLast: 20999,
	})
}

func (p *house) join(o Options, constants actors.Constants, a *messages.Announcement) *Client {
	o.Clock = hurried{}
	client := Dial(p.system, o)
	p.tb.Cleanup(client.Close)
	worker.Assemble(worker.Ports{
		Ports: actors.Ports{
			System: p.system, Host: p, Clock: p, Log: p.log, Constants: constants,
		},
		Node: o.Node, MachineID: o.MachineID, Incarnation: o.Incarnation, Disk: p, Launcher: p, Announcement: a,
	})
	return client
}

// TestAssembled checks that nodes join, and that a clone gets the reason of its refusal. The leader's successor at the
// same address finds all nodes again. When the operator removes the first node, the clone takes its name.
func TestAssembled(t *testing.T) {
	memory := store.NewMemory()
	leader, h := lead(t, memory)
	var where moving
	where.to.Store(&h.address)
	options := func(id, machine string) Options {
		o := machineOptions(id, machine, "scheduler.example:9000")
		o.Dialer = where.dial
		return o
	}
	truth, truthLink := join(t, options("n1", "m1"))
	truth.says("Welcome to Synapse")
	other, _ := join(t, options("n2", "m2"))
	other.says("Welcome to Synapse")
	clone, _ := join(t, options("n1", "m3"))
	clone.says("node already registered")
	leader.says("Failed to register node n1: node already registered")

	leader.kill()
	h.close() // the next process leads under a newer epoch
	_, h = lead(t, memory)
	where.to.Store(&h.address)
	truth.says("Welcome to Synapse")
	other.says("Welcome to Synapse")
	clone.says("node already registered")

	truthLink.Close()
	answers := make(chan heard, 16)
	ear(h.system, "operator", func(m heard) { answers <- m })
	remove := &messages.ChangeNode{
		Principal: &messages.Principal{Name: "operator"}, Node: "n1",
		Verb: messages.NodeVerb_NODE_VERB_REMOVE, Reason: "burnt",
	}
	eventually(t, "the machine is removed", func() bool { // not while it still counts as alive
		scheduler, operator := actor.NewPID("scheduler", actors.SchedulerPath), actor.NewPID("scheduler", "operator")
		h.system.Root.RequestWithCustomSender(scheduler, remove, operator)
		reply := hearsType[*messages.ChangeNodeReply](t, answers).message.(*messages.ChangeNodeReply)
		return reply.Outcome.Code == messages.Code_CODE_OK
	})
	clone.says("Welcome to Synapse") // with the next Lead
	eventually(t, "the name is the clone's", func() bool {
		h.server.mu.RLock()
		defer h.server.mu.RUnlock()
		place := h.server.places["n1"]
		return place != nil && place.holder != nil && place.holder.machine == "m3" && len(place.others) == 0
	})
}
