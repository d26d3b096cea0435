//go:build linux

package carapace

// One process, told from a later one of the same number, and waited for although it is not our child.

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// endInit kills a dead starter's init, if it is that, and waits until it has gone: its processes go before it does.
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
		return fmt.Errorf("process %d does not die", state.Pid)
	}
	return nil
}

// awaitDeath waits for a process's end, and answers whether it came.
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

// startTicks reads when a process was started: the 22nd field of its stat, counted behind the name, which may hold
// anything.
func startTicks(pid int) (uint64, error) {
	text, err := readFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 20 {
		return 0, fmt.Errorf("stat of process %d is cut short", pid)
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

func bootID() string {
	text, _ := readFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text))
}
