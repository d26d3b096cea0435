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

// This file owns what the processes started themselves. A node's tasks are meant
// to outlive it, in sessions of their own, so ending the processes is not enough.
// We make ourselves the one that orphans fall to: then whatever descends from us
// stays our descendant, and can be found.

// adopt makes this process the new parent of its descendants' orphans. Where the
// kernel refuses, only the processes themselves are ended.
func adopt() {
	const childSubreaper = 36 // PR_SET_CHILD_SUBREAPER
	_, _, _ = syscall.Syscall(syscall.SYS_PRCTL, childSubreaper, 1, 0)
}

// descendants are all processes below this one, zombies too, with their parents.
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
		// The walk up is bounded: a pid that is reused meanwhile could close a circle.
		for at, steps := pid, 0; at > 1 && steps < 1000; at, steps = parents[at], steps+1 {
			if parents[at] == self {
				below[pid] = parents[pid]
				break
			}
		}
	}
	return below
}

// parentOf reads a process's parent. Its name, in brackets, may hold anything.
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

// reap takes the exit of orphans that have ended. Our own children are waited
// for by their keepers.
func reap(own []int) {
	self := os.Getpid()
	for pid, parent := range descendants() {
		if parent == self && !slices.Contains(own, pid) {
			var status syscall.WaitStatus
			_, _ = syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
		}
	}
}

// strays signals all descendants that are not ours to keep, and counts them.
// Parents come first: who watches a task must not see it die before itself, and
// write down that it failed.
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
