//go:build linux

// This file runs exec sessions with the suite's drivers, and tests properties that only Carapace's containers have.
package conformance

import (
	"os"
	"syscall"
	"testing"

	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/runtime/supervisor"
	"github.com/yi-json/synapse/test/able"
)

func (e ExecSpec) plain() carapace.ExecSpec {
	return carapace.ExecSpec{
		Command: e.Command, Env: e.Env, Terminal: e.Terminal, Stdin: e.Stdin, Stdout: e.Stdout, Stderr: e.Stderr,
	}
}

// Exec runs a session in a container of this process.
func (c contained) Exec(what ExecSpec) (ExecSession, error) {
	f, err := c.Container.Exec(what.plain())
	if err != nil {
		return nil, err
	}
	return joined{f}, nil
}

type joined struct{ *carapace.ExecSession }

func (j joined) Near() *os.File { return j.Terminal }
func (j joined) HangUp()        { _ = j.Signal(syscall.SIGKILL) }
func (j joined) Wait() int {
	<-j.Done()
	return j.Code()
}

// Exec runs a session through the task's supervisor, as the agent does.
func (p *staged) Exec(what ExecSpec) (ExecSession, error) {
	<-p.started
	e, err := supervisor.Exec(p.home(), what.plain())
	if err != nil {
		return nil, err
	}
	return sent{e}, nil
}

type sent struct{ *supervisor.ExecSession }

func (s sent) Near() *os.File                { return s.Terminal }
func (s sent) HangUp()                       { s.Close() }
func (s sent) Signal(n syscall.Signal) error { return s.ExecSession.Signal(int(n)) }
func (s sent) Wait() int {
	defer s.Close()
	code, _, err := s.ExecSession.Wait()
	if err != nil {
		return -1
	}
	return code
}

// TestThousandExecs runs a thousand sessions in a row and fifty at once, and checks that none leaves anything behind.
func TestThousandExecs(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: the suite has a hundred")
	}
	driver := newContainers(t)
	if lack := driver.Lacks(ExecSessions); lack != "" {
		t.Skip(lack)
	}
	Guard(t, driver.Leavings)
	s := &suite{t, driver, able.MakeRootfs(t)}
	s.leavesNothing(1000)
}

// TestExecIsRefused checks a session in a container that has ended, and one without a command.
func TestExecIsRefused(t *testing.T) {
	o := newOwn(t)
	Guard(t, o.Leavings)
	c := o.start(carapace.Spec{ID: NewID(), Rootfs: able.MakeRootfs(t), Command: []string{"/bin/sleep", "1000"}})
	if _, err := c.Exec(carapace.ExecSpec{}); err == nil {
		t.Error("nothing was run")
	}
	_ = c.Kill()
	<-c.Done()
	if _, err := c.Exec(carapace.ExecSpec{Command: []string{"/bin/true"}, Terminal: true}); err == nil {
		t.Error("a process ran in a container that has ended")
	}
}
