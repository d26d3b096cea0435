//go:build linux

package local

import (
	"bytes"
	"cmp"
	"maps"
	"os"
	"slices"
	"strconv"
	"syscall"
)

// This file finds the processes that the cluster's processes have started. A node's tasks run in separate sessions
// and outlive the node, so ending the nodes is not enough. This process becomes the parent of orphaned descendants,
// so that all descendants can be found.

// adopt makes this process the parent of its orphaned descendants. If the kernel refuses, only the cluster's own
// processes are ended.
func adopt() {
	const childSubreaper = 36 // PR_SET_CHILD_SUBREAPER
	_, _, _ = syscall.Syscall(syscall.SYS_PRCTL, childSubreaper, 1, 0)
}

// descendants returns all descendants of this process, including zombies, with their parents.
func descendants() map[int]int {
	parents := map[int]int{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if parent := parentOf(pid); parent > 0 {
				parents[pid] = parent
			}
		}
	}
	self := os.Getpid()
	below := map[int]int{}
	for pid := range parents {
		// The number of steps is limited, because a reused process ID could form a cycle.
		for at, steps := pid, 0; at > 1 && steps < 1000; at, steps = parents[at], steps+1 {
			if parents[at] == self {
				below[pid] = parents[pid]
				break
			}
		}
	}
	return below
}

// parentOf reads the parent of a process. The name of the process is in brackets and may contain any character.
func parentOf(pid int) int {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(string(fields[1]))
	return parent
}

// reap collects the exit status of ended orphans. Other goroutines wait for the children in own.
func reap(own []int) {
	self := os.Getpid()
	for pid, parent := range descendants() {
		if parent == self && !slices.Contains(own, pid) {
			var status syscall.WaitStatus
			_, _ = syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
		}
	}
}

// strays sends a signal to all descendants except own, and returns their number. Parents get it first. Otherwise
// the supervisor of a task could see the task end and record a failure.
func strays(own []int, s syscall.Signal) int {
	below := descendants()
	depth := func(pid int) int {
		n := 0
		for at, known := pid, true; known && n < len(below)+1; n++ {
			at, known = below[at]
		}
		return n
	}
	pids := slices.SortedFunc(maps.Keys(below), func(a, b int) int {
		return cmp.Or(cmp.Compare(depth(a), depth(b)), cmp.Compare(a, b))
	})
	pids = slices.DeleteFunc(pids, func(pid int) bool { return slices.Contains(own, pid) })
	for _, pid := range pids {
		_ = syscall.Kill(pid, s)
	}
	return len(pids)
}
