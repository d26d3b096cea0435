package supervisor

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// This file owns what is read from /proc about processes. A pid is never
// believed alone: with it goes when the process started.

// Process is one process, as /proc had it a moment ago.
type Process struct {
	PID, Parent, Group, Session int
	State                       byte // R, S, D, Z, T …
	Ending                      bool // it is on its way out, on which the first of a pid namespace waits for all others
	Start                       uint64
	CPUTicks                    uint64
	Resident                    int64 // pages
}

// ReadProcess reads one process; false when there is none.
func ReadProcess(pid int) (Process, bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Process{}, false
	}
	return parseStat(pid, data)
}

// parseStat reads a line of /proc/PID/stat. A command's name may hold blanks and
// brackets, so the fields are counted from its last bracket.
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
		CPUTicks: uint64(number(11) + number(12)), Start: uint64(number(19)), Resident: number(21),
	}, true
}

// Processes are all that /proc shows.
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

// Descendants returns all processes whose line of parents leads to pid.
func Descendants(pid int, all []Process) []Process {
	children := map[int][]Process{}
	for _, p := range all {
		children[p.Parent] = append(children[p.Parent], p)
	}
	var found []Process
	seen := map[int]bool{pid: true} // a pid that is reused while we read must not make a circle
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

// Send signals this very process, and never another that got its pid meanwhile.
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

// KillAll stops and then kills what find finds, round by round, until nothing
// new turns up: a stopped process cannot fork, so that even a fork bomb comes to
// an end. It answers how many there were; zombies are dead already and not
// counted.
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
