package activity

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/calls"
	"github.com/yi-json/synapse/runtime/supervisor"
)

// This file finds out what the threads of a task wait for.

const (
	maxThreads = 1024 // of one task
	maxFiles   = 4096 // open files of one process
)

// Thread is one thread as /proc shows it.
type Thread struct {
	PID, TID int
	Name     string
	State    byte   // R, S, D, T …
	Call     string // the system call; empty: unknown, or none
	Channel  string // the kernel function that it waits in; empty: unknown
	socket   bool   // the first argument of the call is a socket
	empty    bool   // the call waits for no file, only for a time
}

// State describes the present work of a task.
type State struct {
	Wait    messages.Wait
	Call    string
	Unread  int64
	Main    supervisor.Process // the process that does the work
	Threads []Thread
}

// Look examines the threads and sockets of a task.
func Look(members []supervisor.Process) State {
	var s State
	alive := slices.DeleteFunc(slices.Clone(members), func(p supervisor.Process) bool {
		return p.State == 'Z' || p.State == 'X'
	})
	if len(alive) == 0 || len(alive) > maxProcesses {
		return s
	}
	for _, p := range alive {
		s.Threads = append(s.Threads, threadsOf(p.PID, maxThreads-len(s.Threads))...)
	}
	s.Main = worker(alive, s.Threads)
	s.Wait, s.Call = classify(alive, s.Main, s.Threads)
	s.Unread = unread(alive)
	return s
}

// worker returns the process that used most CPU time. If its first thread waits for a child, the child counts.
func worker(alive []supervisor.Process, threads []Thread) supervisor.Process {
	byCPU := func(a, b supervisor.Process) int {
		return cmp.Or(cmp.Compare(a.CPUTicks, b.CPUTicks), cmp.Compare(a.Start, b.Start), cmp.Compare(a.PID, b.PID))
	}
	main := slices.MaxFunc(alive, byCPU)
	for range alive {
		i := slices.IndexFunc(threads, func(t Thread) bool { return t.TID == main.PID })
		other := func(p supervisor.Process) bool { return p.Parent != main.PID }
		children := slices.DeleteFunc(slices.Clone(alive), other)
		if i < 0 || len(children) == 0 || threads[i].kind() != waitsForChild {
			break
		}
		main = slices.MaxFunc(children, byCPU)
	}
	return main
}

// waitsForChild is an additional kind of wait.
const waitsForChild = messages.Wait(100)

// classify returns what a task waits for.
func classify(alive []supervisor.Process, main supervisor.Process, threads []Thread) (messages.Wait, string) {
	stopped := func(p supervisor.Process) bool { return p.State == 'T' || p.State == 't' }
	if slices.ContainsFunc(alive, stopped) {
		return messages.Wait_WAIT_STOPPED, ""
	}
	var first Thread
	for _, t := range threads {
		if t.TID == main.PID {
			first = t
		}
	}
	wait := first.kind()
	if wait == messages.Wait_WAIT_LOCK {
		// The first thread may wait for another thread, which waits for a peer. A thread that polls does not count, because
		// libraries have such threads all the time.
		for _, t := range threads {
			if t.PID == main.PID && t.kind() == messages.Wait_WAIT_PEER && !polls[t.Call] {
				return messages.Wait_WAIT_PEER, t.Call
			}
		}
	}
	if wait == waitsForChild {
		wait = messages.Wait_WAIT_OTHER
	}
	return wait, first.Call
}

// polls lists the calls that wait for several files.
var polls = map[string]bool{
	"poll": true, "ppoll": true, "select": true, "pselect6": true, "epoll_wait": true, "epoll_pwait": true,
	"epoll_pwait2": true,
}

// byCall has the kinds of system calls. The calls of polls and those of files are decided by their arguments.
var byCall = map[string]messages.Wait{
	"recvfrom": messages.Wait_WAIT_PEER, "recvmsg": messages.Wait_WAIT_PEER, "recvmmsg": messages.Wait_WAIT_PEER,
	"sendto": messages.Wait_WAIT_PEER, "sendmsg": messages.Wait_WAIT_PEER, "sendmmsg": messages.Wait_WAIT_PEER,
	"connect": messages.Wait_WAIT_PEER, "accept": messages.Wait_WAIT_PEER, "accept4": messages.Wait_WAIT_PEER,
	"futex": messages.Wait_WAIT_LOCK, "futex_waitv": messages.Wait_WAIT_LOCK, "futex_wait": messages.Wait_WAIT_LOCK,
	"flock": messages.Wait_WAIT_LOCK, "fcntl": messages.Wait_WAIT_LOCK, "semtimedop": messages.Wait_WAIT_LOCK,
	"semop": messages.Wait_WAIT_LOCK, "nanosleep": messages.Wait_WAIT_SLEEP, "clock_nanosleep": messages.Wait_WAIT_SLEEP,
	"wait4": waitsForChild, "waitid": waitsForChild,
	"fsync": messages.Wait_WAIT_DISK, "fdatasync": messages.Wait_WAIT_DISK,
}

// byChannel has the kinds of kernel functions, for agents that may not read the system calls of a task.
var byChannel = []struct {
	part string
	wait messages.Wait
}{
	{"futex", messages.Wait_WAIT_LOCK}, {"nanosleep", messages.Wait_WAIT_SLEEP}, {"do_wait", waitsForChild},
	{"sk_wait", messages.Wait_WAIT_PEER}, {"wait_woken", messages.Wait_WAIT_PEER}, {"inet_", messages.Wait_WAIT_PEER},
	{"unix_stream", messages.Wait_WAIT_PEER}, {"ep_poll", messages.Wait_WAIT_PEER}, {"poll_", messages.Wait_WAIT_PEER},
	{"do_sys_poll", messages.Wait_WAIT_PEER}, {"pipe_", messages.Wait_WAIT_OTHER},
}

func (t Thread) kind() messages.Wait {
	switch {
	case t.State == 0:
		return messages.Wait_WAIT_UNSPECIFIED
	case t.State == 'T' || t.State == 't':
		return messages.Wait_WAIT_STOPPED
	case t.State == 'R':
		return messages.Wait_WAIT_RUNS
	case t.State == 'D':
		return messages.Wait_WAIT_DISK
	case t.Call != "" && t.empty:
		return messages.Wait_WAIT_SLEEP
	case polls[t.Call], t.socket:
		return messages.Wait_WAIT_PEER
	case t.Call != "":
		if w, known := byCall[t.Call]; known {
			return w
		}
		return messages.Wait_WAIT_OTHER
	}
	for _, c := range byChannel {
		if strings.Contains(t.Channel, c.part) {
			return c.wait
		}
	}
	return messages.Wait_WAIT_UNSPECIFIED
}

// threadsOf returns the threads of a process, at most the given number.
func threadsOf(pid, most int) (all []Thread) {
	dir := "/proc/" + strconv.Itoa(pid) + "/task"
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range entries[:min(len(entries), max(most, 0))] {
		tid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		of := func(name string) string {
			data, _ := os.ReadFile(filepath.Join(dir, e.Name(), name)) // a file that cannot be read is unknown
			return strings.TrimSpace(string(data))
		}
		t := Thread{PID: pid, TID: tid, Name: of("comm"), Channel: of("wchan")}
		if stat := of("stat"); strings.LastIndexByte(stat, ')') >= 0 {
			t.State = strings.TrimSpace(stat[strings.LastIndexByte(stat, ')')+1:] + "?")[0]
		}
		if t.Channel == "0" {
			t.Channel = ""
		}
		t.parseCall(of("syscall"))
		all = append(all, t)
	}
	return all
}

// parseCall parses the number and the arguments of a system call. A thread on a CPU has none, and neither has one that
// was stopped outside of a call.
func (t *Thread) parseCall(text string) {
	fields := strings.Fields(text)
	if len(fields) < 4 {
		return
	}
	number, err := strconv.ParseUint(fields[0], 10, 32)
	if err != nil {
		return
	}
	t.Call = calls.Name(uint32(number))
	first, _ := strconv.ParseUint(strings.TrimPrefix(fields[1], "0x"), 16, 64)
	second, _ := strconv.ParseUint(strings.TrimPrefix(fields[2], "0x"), 16, 64)
	switch t.Call {
	case "select", "pselect6":
		t.empty = first == 0
	case "poll", "ppoll":
		t.empty = second == 0
	case "read", "readv", "write", "writev":
		to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", t.PID, first))
		t.socket = strings.HasPrefix(to, "socket:")
	}
}
