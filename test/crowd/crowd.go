// Package crowd simulates thousands of nodes in one process for measurements, with real actors and real links. Their
// disks and containers answer at once.
package crowd

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/worker"
	"github.com/yi-json/synapse/cluster/host"
	"github.com/yi-json/synapse/cluster/link"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file runs the nodes in a process separate from the scheduler's, so that their cost is not counted for it.

// variable makes a child process of a test binary run this many nodes.
const variable = "SYNAPSE_CROWD_MACHINES"

// Be runs the nodes if Start started this process, until its parent stops it or is gone. It must be called in a test
// named TestBeMachines.
func Be(t testing.TB, perRack int) {
	many, err := strconv.Atoi(os.Getenv(variable))
	if err != nil {
		return
	}
	input := bufio.NewReader(os.Stdin)
	address, err := input.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	for i := range many {
		defer Join(i, perRack, strings.TrimSpace(address)).Close()
	}
	_, _ = io.Copy(io.Discard, input)
}

// Start starts a process with this many nodes, which join the scheduler at the address and end with the test.
func Start(t testing.TB, many int, address string) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^TestBeMachines$")
	child.Env = append(os.Environ(), fmt.Sprintf("%s=%d", variable, many))
	child.Stderr = os.Stderr
	stdin, err := child.StdinPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		_ = child.Wait()
	})
	if _, err := fmt.Fprintln(stdin, address); err != nil {
		t.Fatal(err)
	}
}

// Name returns the name of a node.
func Name(i int) string { return fmt.Sprintf("n%04d", i) }

// Join creates a node of 8 GPUs, in a rack of this size.
func Join(i, perRack int, address string) *link.Client {
	id := Name(i)
	h := host.New(host.NewLog(io.Discard, false))
	incarnation := &messages.Incarnation{BootId: "boot-" + id, StartedNs: 1}
	client := link.Dial(h.System(), link.Options{
		Node: topology.NodeID(id), MachineID: "machine-" + id, Incarnation: incarnation, Schedulers: []string{address},
		Count: h.Count,
	})
	var gpus []*messages.Gpu
	for g := range 8 {
		gpus = append(gpus, &messages.Gpu{
			Id: fmt.Sprintf("GPU-%s-%d", id, g), Type: "gpu", MemoryBytes: 80 << 30, Declared: true,
		})
	}
	worker.Assemble(worker.Ports{
		Ports: actors.Ports{
			System: h.System(), Host: h, Clock: h.Clock(), Log: host.NewLog(io.Discard, false),
			Constants: actors.DefaultConstants(),
		},
		Node: topology.NodeID(id), MachineID: "machine-" + id, Incarnation: incarnation,
		Announcement: &messages.Announcement{
			Total: &messages.Resources{MilliCpu: 64_000, MemoryBytes: 512 << 30, MilliGpu: 8_000}, Gpus: gpus,
			Place:   []*messages.Label{{Key: "zone", Value: "a"}, {Key: "rack", Value: fmt.Sprintf("r%02d", i/perRack)}},
			Address: "127.0.0.1", PortFirst: 20000, PortLast: 20999, AgentVersion: "bench",
		},
		Disk: disk{h.System()}, Launcher: launcher{h.System()},
	})
	return client
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
