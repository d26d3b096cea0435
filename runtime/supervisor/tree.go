package supervisor

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// This file reads process information from /proc. A pid is always combined with the start time of its process.

// Process describes one process as /proc showed it.
type Process struct {
	PID, Parent, Group, Session int
	State                       byte // R, S, D, Z, T …
	Ending                      bool // exiting; the first process of a pid namespace then waits for the others
	Start                       uint64
	CPUTicks                    uint64
	WaitedTicks                 uint64 // CPU time of its children that have ended and were waited for
	Resident                    int64  // pages
}

// ReadProcess reads one process; false if there is none.
func ReadProcess(pid int) (Process, bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Process{}, false
	}
	return parseStat(pid, data)
}

// parseStat parses a line of /proc/PID/stat. A command's name may contain spaces and parentheses, so the fields are
// counted from the last parenthesis.
func parseStat(pid int, data []byte) (Process, bool) {
	end := bytes.LastIndexByte(data, ')')
	if end < 0 {
		return Process{}, false
	}
	fields := bytes.Fields(data[end+1:])
	if len(fields) < 22 || len(fields[0]) != 1 {
		return Process{}, false
	}
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(string(fields[i]), 10, 64)
		return n
	}
	const exiting = 4 // PF_EXITING
	return Process{
		PID: pid, State: fields[0][0], Ending: number(6)&exiting != 0,
		Parent: int(number(1)), Group: int(number(2)), Session: int(number(3)),
		CPUTicks: uint64(number(11) + number(12)), WaitedTicks: uint64(number(13) + number(14)),
		Start: uint64(number(19)), Resident: number(21),
	}, true
}

// Processes returns all processes in /proc.
func Processes() []Process {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var all []Process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, ok := ReadProcess(pid); ok {
			all = append(all, p)
		}
	}
	return all
}

// Descendants returns all processes whose chain of parents leads to pid.
func Descendants(pid int, all []Process) []Process {
	children := map[int][]Process{}
	for _, p := range all {
		children[p.Parent] = append(children[p.Parent], p)
	}
	var found []Process
	seen := map[int]bool{pid: true} // a pid that is reused during the read must not create a cycle
	for next := []int{pid}; len(next) > 0; next = next[1:] {
		for _, p := range children[next[0]] {
			if !seen[p.PID] {
				seen[p.PID] = true
				found = append(found, p)
				next = append(next, p.PID)
			}
		}
	}
	return found
}

// Send signals exactly this process, and never another process that reused its pid.
func (p Process) Send(signal unix.Signal) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if now, ok := ReadProcess(p.PID); !ok || now.Start != p.Start {
		return unix.ESRCH
	}
	return unix.PidfdSendSignal(fd, signal, nil, 0)
}

// KillAll stops and then kills the processes that find returns. It repeats this until there are no new ones. A stopped
// process cannot fork, so this ends even a fork bomb. It returns the number of killed processes without zombies.
func KillAll(find func() []Process) int {
	const rounds = 64
	stopped := map[int]uint64{}
	var victims []Process
	for range rounds {
		fresh := 0
		for _, p := range find() {
			if start, known := stopped[p.PID]; known && start == p.Start || p.State == 'Z' || p.State == 'X' {
				continue
			}
			fresh++
			stopped[p.PID] = p.Start
			victims = append(victims, p)
			_ = p.Send(unix.SIGSTOP)
		}
		if fresh == 0 {
			break
		}
	}
	for _, p := range victims {
		_ = p.Send(unix.SIGKILL)
	}
	return len(victims)
}
