package supervisor

import (
	"os"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/carapace"
)

// This file runs exec sessions of a task of plain processes. The thread that forked the command also forks them, so
// they have the same confinement. With separate rules, the kernel would isolate them from the command.

// spawned is the process of such a session.
type spawned struct {
	pid      int
	terminal *os.File
	done     chan struct{}

	mu     sync.Mutex // prevents signals to a pid that may be reused
	over   bool
	status syscall.WaitStatus
}

// Pid returns the pid of the process.
func (s *spawned) Pid() int { return s.pid }

// Done returns a channel that closes when the process has ended.
func (s *spawned) Done() <-chan struct{} { return s.done }

// Code returns the exit code of the process.
func (s *spawned) Code() int {
	if s.status.Signaled() {
		return 128 + int(s.status.Signal())
	}
	return s.status.ExitStatus()
}

// Signal signals the process group.
func (s *spawned) Signal(sig unix.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return nil
	}
	return unix.Kill(-s.pid, sig)
}

// exec runs a process next to the command.
func (p *plain) exec(what carapace.ExecSpec) (execProcess, error) {
	spec := p.k.spec
	spec.Path, spec.Args = what.Command[0], what.Command
	spec.Env = carapace.WithEnv(spec.Env, what.Env)
	path, failed := lookUp(&spec)
	if failed != nil {
		return nil, &refusal{failed.Code, failed.Detail}
	}
	s := &spawned{done: make(chan struct{})}
	streams := []*os.File{what.Stdin, what.Stdout, what.Stderr}
	if what.Terminal {
		far, err := s.openTerminal(spec.User)
		if err != nil {
			return nil, err
		}
		defer far.Close()
		streams = []*os.File{far, far, far}
	}
	err := p.forkExec(s, &spec, path, streams, what.Terminal)
	if err != nil {
		if s.terminal != nil {
			s.terminal.Close()
		}
		return nil, err
	}
	return s, nil
}

// forkExec forks the process from the command's parent. The lock prevents reap from treating the process as unknown
// before it is recorded.
func (p *plain) forkExec(s *spawned, spec *Spec, path string, streams []*os.File, terminal bool) error {
	attr := &syscall.ProcAttr{Dir: spec.Dir, Env: spec.Env, Sys: &syscall.SysProcAttr{
		Setsid: true, Setctty: terminal, Pdeathsig: syscall.SIGKILL,
	}}
	for _, stream := range streams {
		attr.Files = append(attr.Files, stream.Fd())
	}
	if u := spec.User; u != nil {
		attr.Sys.Credential = &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: u.Groups}
	}
	forked := make(chan error, 1)
	fork := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.sealed || p.k.execs.ended() {
			forked <- errNotRunning
			return
		}
		pid, err := forkInto(spec, path, attr)
		if err != nil {
			failed := spawnFailed(spec, path, err)
			forked <- &refusal{failed.Code, failed.Detail}
			return
		}
		s.pid = pid
		p.others[pid] = s
		forked <- nil
	}
	select {
	case p.forks <- fork:
		return <-forked
	case <-p.k.allGone:
		return errNotRunning
	}
}

// seal reports whether nothing of the task is left. If so, it prevents new sessions.
func (p *plain) seal() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sealed = len(p.others) == 0
	return p.sealed
}

// conclude reports whether a reaped process belongs to an exec session.
func (p *plain) conclude(pid int, status syscall.WaitStatus) bool {
	p.mu.Lock()
	s := p.others[pid]
	delete(p.others, pid)
	p.mu.Unlock()
	if s == nil {
		return false
	}
	s.mu.Lock()
	s.status, s.over = status, true
	s.mu.Unlock()
	close(s.done)
	return true
}

// openTerminal opens a host terminal whose far end belongs to the task's user.
func (s *spawned) openTerminal(user *User) (far *os.File, err error) {
	near, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	fd := int(near.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		far, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err == nil && user != nil {
		err = far.Chown(int(user.UID), -1)
	}
	if err != nil {
		near.Close()
		if far != nil {
			far.Close()
		}
		return nil, err
	}
	s.terminal = near
	return far, nil
}
