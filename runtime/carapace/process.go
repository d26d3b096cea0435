//go:build linux

package carapace

// This file identifies a process despite reuse of its pid, and waits for a process that is not a child.

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// endInit kills the init of a dead starter and waits for its end. All processes of the container end before init. A
// process of the same pid that is not this init is left alone.
func endInit(state State, limit time.Duration) error {
	pidfd, err := unix.PidfdOpen(state.Pid, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(pidfd)
	if ticks, err := startTicks(state.Pid); err != nil || ticks != state.StartTicks {
		return nil
	}
	_ = unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0)
	if !awaitDeath(pidfd, limit) {
		return fmt.Errorf("process %d has not exited after SIGKILL", state.Pid)
	}
	return nil
}

// awaitDeath waits for a process's end and reports whether it ended in time.
func awaitDeath(pidfd int, limit time.Duration) bool {
	poll := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	for deadline := time.Now().Add(limit); ; {
		n, err := unix.Poll(poll, int(time.Until(deadline).Milliseconds()))
		if n > 0 {
			return true
		}
		if err != unix.EINTR {
			return false
		}
	}
}

// startTicks reads the start time of a process: field 22 of its stat. Fields are counted after the name, which may
// contain any character.
func startTicks(pid int) (uint64, error) {
	text, err := readFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 20 {
		return 0, fmt.Errorf("stat of process %d is truncated", pid)
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

func bootID() string {
	text, _ := readFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text))
}
