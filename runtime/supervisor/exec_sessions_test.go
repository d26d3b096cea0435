package supervisor

import (
	"errors"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/test/able"
)

// This file tests the reports about exec sessions.

// ender is a charge that only answers ending.
type ender struct {
	charge
	is bool
}

func (e ender) ending() bool { return e.is }

// slain is an exec session that ended with a code.
type slain struct {
	execProcess
	code int
}

func (s slain) Code() int { return s.code }

// TestEndedWithTask checks that a process killed during the end of the task counts as ended with it, no matter how long
// the end takes. A process that was killed earlier, or ended by itself, does not.
func TestEndedWithTask(t *testing.T) {
	const killed = 128 + int(unix.SIGKILL)
	for what, c := range map[string]struct {
		ending, told bool
		code         int
		with         bool
	}{
		"on the way out": {true, false, killed, true}, "killed by somebody": {false, false, killed, false},
		"by a round of killing": {false, true, killed, true}, "by itself": {true, true, 7, false},
	} {
		k := &keeper{charge: ender{is: c.ending}, allGone: make(chan struct{})}
		if c.told {
			k.execs.end()
		}
		if got := k.endedWithTask(slain{code: c.code}); got != c.with {
			t.Errorf("%s: with its task: %v", what, got)
		}
	}
}

// TestEnding checks that the first process of a pid namespace counts as ending while it waits for the others, and still
// exists.
func TestEnding(t *testing.T) {
	able.Need(t, able.Containers)
	first := exec.Command("sleep", "1000")
	first.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	guest := exec.Command("sleep", "1000")
	joined := make(chan error)
	over := make(chan struct{})
	defer close(over)
	go func() {
		runtime.LockOSThread() // never unlocked, so the thread ends with the namespace that it joined
		there, err := unix.PidfdOpen(first.Process.Pid, 0)
		if err == nil {
			err = errors.Join(unix.Setns(there, unix.CLONE_NEWPID), unix.Close(there))
		}
		joined <- errors.Join(err, guest.Start())
		<-over
	}()
	if err := <-joined; err != nil {
		t.Fatal(err)
	}
	p, there := ReadProcess(first.Process.Pid)
	if err := first.Process.Kill(); err != nil || !there || p.Ending {
		t.Errorf("while it runs it is %+v (%v)", p, err)
	}
	if err := unix.Waitid(unix.P_PID, guest.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if p, there := ReadProcess(first.Process.Pid); !there || p.State == 'Z' || !p.Ending {
		t.Errorf("while what it killed is not reaped, it is %+v", p)
	}
	_, _ = guest.Wait(), first.Wait() // both were killed
}
