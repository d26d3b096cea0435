package worker

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the simulated node of the Node's scenarios. It has virtual time, one goroutine, and mailboxes that are
// emptied in the order in which they filled. Its disk and launcher outlive the agent. rig_ports_test.go holds the
// ports, rig_words_test.go the commands of scripts.

type nodeRig struct {
	t     rigT
	said  strings.Builder
	taken map[string]bool
	watch func(m any) // receives every message that leaves the Node

	now      actors.Instant
	timers   []rigTimer
	boot     int
	agent    int // number of the agent's start: answers to an earlier one are dropped
	announce *messages.Announcement

	system *actor.ActorSystem
	node   *Node
	boxes  []*rigBox
	hush   bool // hides heartbeats and log lines

	disk     rigDisk
	launcher rigLauncher
	sent     []proto.Message // all commands sent, for replay
	epoch    uint64
}

type rigTimer struct {
	at      actors.Instant
	agent   int
	to      *actor.PID
	message any
}

// rigT is a test or a property.
type rigT interface {
	Errorf(format string, args ...any)
}

func newNodeRig(t rigT, gpus int) *nodeRig {
	r := &nodeRig{t: t, taken: map[string]bool{}, watch: func(any) {}, now: 1e9, boot: 1, epoch: 1}
	r.announce = &messages.Announcement{Total: &messages.Resources{MilliCpu: 8000, MemoryBytes: 64 << 30},
		Address:   "10.0.0.1",
		PortFirst: 30000, PortLast: 30001, AgentVersion: "test"}
	r.haveGPUs(gpus)
	r.launcher = rigLauncher{r: r, auto: true, tasks: map[topology.TaskKey]*rigTask{}}
	return r
}

func (r *nodeRig) haveGPUs(n int) {
	r.announce = proto.Clone(r.announce).(*messages.Announcement)
	r.announce.Gpus = nil
	for i := range n {
		r.announce.Gpus = append(r.announce.Gpus, &messages.Gpu{Id: fmt.Sprintf("gpu-%d", i), Type: "h200"})
	}
	r.announce.Total.MilliGpu = int64(n) * topology.WholeGPU
}

// start starts an agent on the present content of the disk. An earlier agent is gone.
func (r *nodeRig) start() {
	r.agent++
	r.boxes = nil
	r.disk.pending, r.disk.saving = nil, 0
	r.system = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return slog.New(slog.DiscardHandler)
	}))
	r.system.ProcessRegistry.Address = "node-a"
	r.system.ProcessRegistry.RegisterAddressResolver(func(pid *actor.PID) (actor.Process, bool) {
		return &rigWire{r, pid.Address + "/" + pid.Id}, pid.Address != "node-a"
	})
	Assemble(Ports{
		Ports: actors.Ports{
			System: r.system, Host: &rigHost{r}, Clock: &rigClock{r, r.agent}, Log: &rigLog{r: r},
			Constants: actors.DefaultConstants(),
		},
		Node: "a", MachineID: "machine-a", Incarnation: r.incarnation(), Announcement: r.announce,
		Disk: &rigDiskPort{r, r.agent}, Launcher: &r.launcher,
	})
	r.settle()
}

// reboot ends everything of the last boot. Earlier exits are still known.
func (r *nodeRig) reboot() {
	r.boot++
	l := &r.launcher
	l.order = slices.DeleteFunc(l.order, func(k topology.TaskKey) bool {
		if l.tasks[k].exit != nil {
			return false
		}
		delete(l.tasks, k)
		return true
	})
}

func (r *nodeRig) incarnation() *messages.Incarnation {
	return &messages.Incarnation{BootId: fmt.Sprintf("boot-%d", r.boot), StartedNs: int64(r.agent)}
}

// settle delivers messages until none is left, system messages first.
func (r *nodeRig) settle() {
	for {
		i := slices.IndexFunc(r.boxes, func(b *rigBox) bool { return len(b.system)+len(b.user) > 0 })
		if i < 0 {
			return
		}
		r.boxes[i].deliver()
	}
}

// pass advances the clock, timer after timer.
func (r *nodeRig) pass(d time.Duration) {
	until := r.now.Plus(d)
	for {
		due := -1
		for i, t := range r.timers {
			if t.at <= until && (due < 0 || t.at < r.timers[due].at) {
				due = i
			}
		}
		if due < 0 {
			break
		}
		t := r.timers[due]
		r.timers = slices.Delete(r.timers, due, due+1)
		r.now = max(r.now, t.at)
		if t.agent == r.agent {
			r.system.Root.Send(t.to, t.message)
			r.settle()
		}
	}
	r.now = until
}

// tell delivers a message to the Node as the network would: a copy, from an address.
func (r *nodeRig) tell(m proto.Message, sender string) {
	to := actor.NewPID("node-a", actors.NodePath)
	r.system.Root.RequestWithCustomSender(to, proto.Clone(m), actor.NewPID(sender, actors.SchedulerPath))
	r.settle()
}

// order sends a command and keeps it for replay.
func (r *nodeRig) order(m proto.Message) {
	r.sent = append(r.sent, m)
	r.tell(m, "leader")
}

func (r *nodeRig) say(format string, args ...any) { fmt.Fprintf(&r.said, format+"\n", args...) }

func nodeRecordOf(t testing.TB) *messages.LedgerRecord {
	t.Helper()
	return &messages.LedgerRecord{Epoch: 7, BootId: "boot-1", WithdrawnGpus: []string{"gpu-1"},
		Slices: []*messages.SliceRecord{{
			Token: &messages.Token{Epoch: 7, Counter: 1}, Job: "j", State: messages.SliceState_SLICE_STATE_STARTED,
			Grants: []*messages.Grant{{Rank: 3, Amount: &messages.Resources{MilliGpu: 1000},
				Gpus: []*messages.GpuShare{{GpuId: "gpu-0", Milli: 1000}}}},
			Exits: []*messages.Exit{{Rank: 3, Kind: messages.ExitKind_EXIT_KIND_EXITED}},
		}}}
}

func allocationStateName(s topology.AllocationState) string {
	return strings.ToLower(strings.TrimPrefix(messages.ToAllocationState(s).String(), "SLICE_STATE_"))
}
