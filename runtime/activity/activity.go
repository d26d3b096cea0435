// Package activity measures what the processes of a task do: the time that they use a CPU, the bytes that they read and
// write, and what their threads wait for. It only reads /proc, so that it never disturbs a task. A value that cannot be
// read is unknown, and never counts as no activity.
package activity

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/yi-json/synapse/runtime/supervisor"
)

// This file measures the activity of a task between two looks.

const (
	// tick is the unit of the times in /proc, which is the same on every platform of Go.
	tick = time.Second / 100
	// busyPercent is the share of one core from which a task is busy. It is far below a compilation, and above the
	// threads of libraries that only wait.
	busyPercent = 20
	// busyBytes is the number of bytes per second from which a task is busy.
	busyBytes = 32 << 10
	// maxProcesses bounds the processes of a task that are measured.
	maxProcesses = 1024
)

// Sample holds the use of a task up to one moment.
type Sample struct {
	AtNs      int64 // by the clock of this boot
	CPU       time.Duration
	Bytes     int64 // read and written by files, pipes and devices
	OnDisk    int64 // of Bytes, those of disks
	Resident  int64 // bytes of memory
	Processes int
	Runs      bool // a thread was on a CPU or waited for one
	Disk      bool // a thread waited for a disk or another device
	Known     bool // all processes could be measured
}

// Root is the first process of a task.
type Root struct {
	PID   int
	Start uint64
	// Around reports that the parent of the first process belongs to the task alone and adopts its orphans.
	Around bool
}

// Members returns the processes of a task among all processes.
func (r Root) Members(all []supervisor.Process) []supervisor.Process {
	var first supervisor.Process
	for _, p := range all {
		if p.PID == r.PID && p.Start == r.Start {
			first = p
		}
	}
	switch {
	case first.PID == 0:
		return nil
	case r.Around && first.Parent > 1:
		return supervisor.Descendants(first.Parent, all)
	}
	return append([]supervisor.Process{first}, supervisor.Descendants(first.PID, all)...)
}

// Take measures the processes of a task.
func Take(nowNs int64, members []supervisor.Process) Sample {
	s := Sample{AtNs: nowNs, Known: len(members) > 0 && len(members) <= maxProcesses, Processes: len(members)}
	if !s.Known {
		return s
	}
	page := int64(os.Getpagesize())
	for _, p := range members {
		s.CPU += time.Duration(p.CPUTicks+p.WaitedTicks) * tick
		s.Resident += p.Resident * page
		s.Runs = s.Runs || p.State == 'R'
		s.Disk = s.Disk || p.State == 'D'
		if p.State == 'Z' {
			continue
		}
		n, disk, ok := bytesOf(p.PID)
		s.Bytes, s.OnDisk = s.Bytes+n, s.OnDisk+disk
		if _, lives := supervisor.ReadProcess(p.PID); !ok && lives {
			s.Known = false
		}
	}
	return s
}

// bytesOf returns the bytes that a process and its former children have read and written in any way, and on disks.
func bytesOf(pid int) (total, disk int64, ok bool) {
	data, err := supervisor.ReadOwned("/proc/" + strconv.Itoa(pid) + "/io")
	if err != nil {
		return 0, 0, false
	}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		n, _ := strconv.ParseInt(value, 10, 64)
		switch name {
		case "rchar", "wchar":
			total += n
		case "read_bytes", "write_bytes":
			disk += n
		}
	}
	return total, disk, len(bytes.TrimSpace(data)) > 0
}

// Busy reports whether the task has used a CPU or a disk since an earlier sample. The second value is false if that is
// not known.
func (s Sample) Busy(since Sample) (busy, known bool) {
	took := time.Duration(s.AtNs - since.AtNs)
	if !s.Known || !since.Known || took <= 0 {
		return false, false
	}
	if s.Runs || s.Disk || s.CPU-since.CPU >= took*busyPercent/100 {
		return true, true
	}
	// Processes that ended without being waited for can make the sum smaller. Then something has happened.
	moved := s.Bytes - since.Bytes
	return moved < 0 || s.CPU < since.CPU || moved >= int64(took.Seconds()*busyBytes), true
}
