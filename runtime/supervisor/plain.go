package supervisor

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// This file owns a task that is processes of the machine: how they are told and
// killed, and the evidence of how the command ended and that no descendant is left.

// plain is such a task.
type plain struct {
	k      *keeper
	pid    int
	death  chan death // has one, once the command has ended
	traced chan stop  // to the thread that forked the command
	forks  chan func()

	mu     sync.Mutex
	others map[int]*spawned // exec sessions
	sealed bool             // nothing more is run: all have gone
}

// death is how the command itself ended.
type death struct {
	status syscall.WaitStatus
	peak   int64
}

// fill writes it into an exit.
func (d death) fill(exit *Exit) {
	exit.PeakMemoryBytes = max(exit.PeakMemoryBytes, d.peak)
	if exit.Code = d.status.ExitStatus(); d.status.Signaled() {
		exit.Signal = int(d.status.Signal())
		exit.Code = 128 + exit.Signal
	}
}

// stop is a process that has called itself traced by its parent, and has stopped at a signal.
type stop struct {
	pid    int
	signal syscall.Signal
}

// letGo lets it run, with the signal, but for the one that its own exec sends it. The kernel takes that from the thread
// alone that forked it.
func (s stop) letGo() {
	if s.signal == syscall.SIGTRAP {
		s.signal = 0
	}
	_, _, _ = syscall.RawSyscall6(syscall.SYS_PTRACE, syscall.PTRACE_DETACH, uintptr(s.pid), 0, uintptr(s.signal), 0, 0)
}

func newPlain(k *keeper) *plain {
	return &plain{
		k: k, death: make(chan death, 1), traced: make(chan stop), forks: make(chan func()), others: map[int]*spawned{},
	}
}

func (p *plain) start() *Exit {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return setUpFailed(errors.Join(errors.New("become the subreaper"), err))
	}
	if failed := p.spawnApart(); failed != nil {
		return failed
	}
	pid := p.pid
	if err := p.k.note(pid); err != nil {
		p.k.explain(err.Error())
		p.k.kill()
	}
	p.k.copyLogs()
	p.k.began <- pid
	go p.reap()
	return nil
}

// spawnApart gives the command a thread of ours as its parent: what confines the command is put on that thread, which
// does nothing else ever after. It lives as long as the task, because the command dies with it.
func (p *plain) spawnApart() *Exit {
	spawned := make(chan *Exit)
	go func() {
		runtime.LockOSThread()
		var failed *Exit
		p.pid, failed = spawn(p.k)
		spawned <- failed
		for failed == nil {
			select {
			case s := <-p.traced:
				s.letGo()
			case fork := <-p.forks:
				fork()
			case <-p.k.allGone:
				return
			}
		}
	}()
	return <-spawned
}

// reap waits for everything. We are the subreaper, so whatever a task leaves
// behind becomes our child; when the kernel says that we have none, no
// descendant exists. No list of processes could say that.
func (p *plain) reap() {
	const all = 0x40000000 // __WALL: those that end without a SIGCHLD too
	for {
		var status syscall.WaitStatus
		var usage syscall.Rusage
		pid, err := syscall.Wait4(-1, &status, all, &usage)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			if p.seal() {
				close(p.k.allGone)
				return
			}
		case status.Stopped():
			p.traced <- stop{pid, status.StopSignal()}
		case p.conclude(pid, status):
		case pid == p.pid && (status.Exited() || status.Signaled()):
			p.death <- death{status: status, peak: usage.Maxrss << 10}
			p.k.ended <- struct{}{}
		}
	}
}

// signal reaches the command's whole process group. The command is not reaped before
// its end is known here, or a later process could have its number.
func (p *plain) signal(sig unix.Signal) {
	leader, ok := ReadProcess(p.pid)
	if p.pid == 0 || len(p.death) > 0 || !ok || leader.Parent != os.Getpid() {
		return
	}
	_ = unix.Kill(-p.pid, sig)
}

// ending never is true: of plain processes none ends with another, but by a round of killing.
func (p *plain) ending() bool { return false }

// killRound ends what the leaf has, and every descendant.
func (p *plain) killRound() {
	if p.k.spec.Cgroup != "" {
		_ = os.WriteFile(filepath.Join(p.k.spec.Cgroup, "cgroup.kill"), []byte("1"), 0)
	}
	self := os.Getpid()
	KillAll(func() []Process { return Descendants(self, Processes()) })
}

// verdict is the exit as everything known has it.
func (p *plain) verdict() *Exit {
	exit := &Exit{Kind: Exited, Detail: p.k.detail}
	select {
	case d := <-p.death:
		d.fill(exit)
	default: // it cannot be: the command was our child
		exit.Kind, exit.Detail = Lost, "its end was not seen"
	}
	if p.k.spec.Cgroup != "" {
		p.readCgroup(exit)
	}
	return exit
}

// readCgroup takes what the leaf knows of the task, and removes it.
func (p *plain) readCgroup(exit *Exit) {
	leaf := p.k.spec.Cgroup
	if n := cgroupNumber(leaf, "memory.peak", ""); n > 0 {
		exit.PeakMemoryBytes = n
	}
	if cgroupNumber(leaf, "memory.events", "oom_kill") > 0 {
		exit.OOM = true
	}
	_ = os.Remove(leaf)
}

// cgroupNumber reads one number of a cgroup's file, or of the line that begins
// with key; 0 when it is not there.
func cgroupNumber(cgroup, file, key string) int64 {
	data, err := os.ReadFile(filepath.Join(cgroup, file))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		value := strings.TrimSpace(line)
		if key != "" {
			name, rest, _ := strings.Cut(value, " ")
			if name != key {
				continue
			}
			value = rest
		}
		n, _ := strconv.ParseInt(value, 10, 64)
		return n
	}
	return 0
}
