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

	"github.com/yi-json/synapse/runtime/carapace"
)

// This file runs a task of plain host processes. It signals and kills them, and confirms that the command has ended and
// no descendant is left.

// plain is a task of plain processes.
type plain struct {
	k      *keeper
	pid    int
	death  chan death // contains one entry after the command has ended
	traced chan stop  // to the thread that forked the command
	forks  chan func()

	mu     sync.Mutex
	others map[int]*spawned // exec sessions
	sealed bool             // all processes have ended, and no session may begin
}

// death describes how the command itself ended.
type death struct {
	status syscall.WaitStatus
	peak   int64
}

// fill copies the death into an exit.
func (d death) fill(exit *Exit) {
	exit.PeakMemoryBytes = max(exit.PeakMemoryBytes, d.peak)
	if exit.Code = d.status.ExitStatus(); d.status.Signaled() {
		exit.Signal = int(d.status.Signal())
		exit.Code = 128 + exit.Signal
	}
}

// stop is a process that asked its parent to trace it, and has stopped at a signal.
type stop struct {
	pid    int
	signal syscall.Signal
}

// letGo continues the process and delivers the signal, except the one that the process's exec causes. The kernel
// accepts this only from the thread that forked the process.
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

// spawnApart forks the command on a separate thread. The confinement of the command applies to this thread, which does
// nothing else afterwards. The thread lives as long as the task, because the command dies with it.
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

// reap waits for all processes. This process is the subreaper, so it becomes the parent of all descendants that the
// task leaves. When the kernel reports that it has no child, no descendant exists. No list of processes could prove
// that.
func (p *plain) reap() {
	const all = 0x40000000 // __WALL: includes those that end without a SIGCHLD
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

// signal signals the command's process group. The command is not reaped before its end is known here, so its pid cannot
// be reused.
func (p *plain) signal(sig unix.Signal) {
	leader, ok := ReadProcess(p.pid)
	if p.pid == 0 || len(p.death) > 0 || !ok || leader.Parent != os.Getpid() {
		return
	}
	_ = unix.Kill(-p.pid, sig)
}

// ending returns false, because the end of one plain process does not end the others.
func (p *plain) ending() bool { return false }

// killRound kills all processes in the cgroup and every descendant.
func (p *plain) killRound() {
	if p.k.spec.Cgroup != "" {
		_ = os.WriteFile(filepath.Join(p.k.spec.Cgroup, "cgroup.kill"), []byte("1"), 0)
	}
	self := os.Getpid()
	KillAll(func() []Process { return Descendants(self, Processes()) })
}

// verdict returns the exit of the task from all available records.
func (p *plain) verdict() *Exit {
	exit := &Exit{Kind: Exited, Detail: p.k.detail}
	select {
	case d := <-p.death:
		d.fill(exit)
	default: // impossible, because the command was a child of this process
		exit.Kind, exit.Detail = Lost, "the end of the command was not seen"
	}
	// The kernel adds up the children that were waited for, with their children. This process adopts the orphans.
	var used unix.Rusage
	if unix.Getrusage(unix.RUSAGE_CHILDREN, &used) == nil {
		exit.CPUNs = used.Utime.Nano() + used.Stime.Nano()
	}
	if p.k.spec.Cgroup != "" {
		p.readCgroup(exit)
	}
	return exit
}

// readCgroup reads the usage of the task from its cgroup, and removes the cgroup.
func (p *plain) readCgroup(exit *Exit) {
	leaf := p.k.spec.Cgroup
	if n := cgroupNumber(leaf, "memory.peak", ""); n > 0 {
		exit.PeakMemoryBytes = n
	}
	if n := cgroupNumber(leaf, "cpu.stat", "usage_usec"); n > 0 {
		exit.CPUNs = n * 1000
	}
	if cgroupNumber(leaf, "memory.events", "oom_kill") > 0 {
		exit.OOM, exit.OOMScope = true, carapace.OOMScope([]string{leaf})
	}
	_ = os.Remove(leaf)
}

// cgroupNumber reads one number of a cgroup's file, or of the line that begins with key. It returns 0 if there is none.
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
