package launcher_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/cluster/link"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/launcher"
	"github.com/yi-json/synapse/runtime/supervisor"
)

// This file tests an agent that is killed at any moment of its exec sessions.

// endless is a wire that requests a process and then sends nothing. It counts the sessions that began.
type endless struct {
	script string
	asked  bool
	began  chan<- string
}

func (e *endless) Receive() (*launcher.Incoming, error) {
	if e.asked {
		select {}
	}
	e.asked = true
	return &launcher.Incoming{Command: []string{"/bin/sh", "-c", e.script}}, nil
}

func (e *endless) Send(out *launcher.Outgoing) error {
	if out.Begun {
		e.began <- e.script
	}
	return nil
}

// execScripts lists the behaviours of the killed agent's processes: end at once, wait, write without end, and leave a
// child with an empty environment.
var execScripts = []string{"true", "exec sleep 1000", "exec yes", "env -i /bin/sleep 1000 & wait"}

// execsOfAgent is the main function of an agent process. It finds the task of rank 0 again and runs exec sessions in
// it, one after the other. It reports each session that began, and waits to be killed.
func execsOfAgent(dir string) {
	began := make(chan string, 64)
	o := options(dir)
	wires := make(chan *endless, 1)
	o.Carry = func(_ context.Context, _ string, do func(launcher.Wire) error) error { return do(<-wires) }
	l, err := launcher.New(o)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	started := make(chan struct{})
	pid := o.System.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		if _, is := ctx.Message().(*messages.TaskStarted); is {
			close(started)
		}
	}, actor.WithMailbox(link.Mailbox)))
	l.Tell(&messages.AdoptTask{Id: id(0)}, pid)
	<-started
	for next := range 40 { // a task may have 64
		wires <- &endless{script: execScripts[next%len(execScripts)], began: began}
		l.Tell(&messages.ExecTask{Id: id(0), Job: "job-1", Epoch: 1, Session: "s"}, pid)
		if next%4 == 3 {
			fmt.Println(<-began)
		}
	}
	select {}
}

// TestAgentKilledInExec checks the effect of a killed agent at any time. Its exec sessions are hung up, the supervisor
// keeps no descriptor of them, and the task continues. The next agent can run more sessions.
func TestAgentKilledInExec(t *testing.T) {
	dir := room(t)
	killedAgent(t, dir, "exec sleep 1000")
	home := filepath.Join(dir, "tasks", id(0).Key().String())
	before, err := supervisor.ReadState(home)
	if err != nil {
		t.Fatal(err)
	}
	command, _ := supervisor.ReadProcess(before.PID)
	kept := func() (files, processes int) {
		open, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", command.Parent))
		return len(open), len(supervisor.Descendants(command.Parent, supervisor.Processes()))
	}
	eventually(t, "the first agent's connection stays", func() bool { files, _ := kept(); return files > 0 })
	settled, _ := kept()
	for round := range 4 {
		c, line := startSelf(t, "execs", dir)
		for range round { // and then at a random time in the next four sessions
			line(t)
		}
		time.Sleep(time.Duration(round) * time.Millisecond)
		killed(t, c)
		eventually(t, "further processes are left", func() bool { _, n := kept(); return n == 1 })
		eventually(t, "descriptors are left", func() bool { n, _ := kept(); return n <= settled })
	}
	w := &execPipe{make(chan *launcher.Incoming, 1), make(chan *launcher.Outgoing, 8), make(chan struct{})}
	r := newRig(t, dir, func(o *launcher.Options) {
		o.Carry = func(_ context.Context, _ string, do func(launcher.Wire) error) error { return do(w) }
	})
	r.tell(&messages.AdoptTask{Id: id(0)})
	take[*messages.TaskStarted](r, 0)
	r.tell(&messages.ExecTask{Id: id(0), Job: "job-1", Epoch: 1, Session: "s"})
	w.in <- &launcher.Incoming{Command: []string{"/bin/sh", "-c", "exit 5"}}
	if _, out := w.end(t); out.Code != 5 {
		t.Errorf("the next one: %+v", out)
	}
	close(w.broken)
	if now, there := supervisor.ReadProcess(before.PID); !there || now.Start != before.Start {
		t.Errorf("the task is %+v, and was %+v", now, before)
	}
}
