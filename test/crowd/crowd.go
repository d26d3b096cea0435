// Package crowd plays machines by the thousand in one process: real actors and real links, with disks and containers
// that answer at once. It owns nothing of what a machine does, and is for measurements alone.
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

// This file owns the machines, and the process that they are in: another one than the scheduler's, so that what they
// cost is not counted for it.

// variable makes a child of a test binary be that many machines.
const variable = "SYNAPSE_CROWD_MACHINES"

// Be plays the machines where this process was started by Start, until that has seen enough or is gone. It belongs into
// a test named TestBeMachines.
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

// Start starts a process of this many machines, which join the scheduler at the address, and go with the test.
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

// Name is what a machine is called.
func Name(i int) string { return fmt.Sprintf("n%04d", i) }

// Join makes a machine of 8 GPUs, which stands in a rack of so many.
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

// disk keeps nothing and answers at once.
type disk struct{ system *actor.ActorSystem }

func (d disk) Load(to *actor.PID) { d.system.Root.Send(to, actors.DiskLoaded{}) }
func (d disk) Save(seq uint64, _ []byte, to *actor.PID) {
	d.system.Root.Send(to, actors.DiskSaved{Seq: seq})
}
func (disk) Quarantine() {}

// launcher starts at once and runs until it is stopped.
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
