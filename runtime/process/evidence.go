package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/launcher"
	"github.com/yi-json/synapse/runtime/supervisor"
)

// This file finds a task's processes without their supervisor, and reads their usage.

// makeCgroup makes the task's leaf. If that fails, the task runs without it, because its supervisor finds all processes
// anyway.
func (d *Driver) makeCgroup(t *launcher.Task) (string, error) {
	leaf := d.leaf(t)
	if leaf == "" {
		return "", nil
	}
	if err := os.Mkdir(leaf, 0o755); err != nil && !os.IsExist(err) {
		return "", nil
	}
	return leaf, nil
}

// ownCgroups returns a folder below the agent's own cgroup in the unified hierarchy. It returns an empty text if there
// is none or it is not writable.
func ownCgroups() string {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	path, found := "", false
	for line := range strings.Lines(string(own)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			path, found = rest, true
		}
	}
	root := unifiedRoot(string(mounts))
	if !found || root == "" {
		return ""
	}
	dir := filepath.Join(root, path, "synapse-tasks")
	if os.MkdirAll(dir, 0o755) != nil {
		return ""
	}
	return dir
}

// unifiedRoot returns the mount point of the unified hierarchy.
func unifiedRoot(mountinfo string) string {
	for line := range strings.Lines(mountinfo) {
		before, after, _ := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if strings.HasPrefix(after, "cgroup2 ") && len(fields) > 4 && fields[3] == "/" {
			return fields[4]
		}
	}
	return ""
}

const (
	sweepPause    = 20 * time.Millisecond
	maxSweepPause = time.Second
)

// Sweep kills the remains of a killed supervisor until no process of the task is found twice in a row. The command
// itself died with its supervisor. Its descendants are found by their session, leaf and environment.
func (d *Driver) Sweep(ctx context.Context, t *launcher.Task, state *supervisor.State) error {
	leaf := d.leaf(t)
	clean := 0
	for pause := sweepPause; clean < 2; pause = min(2*pause, maxSweepPause) {
		if leaf != "" {
			_ = os.WriteFile(filepath.Join(leaf, "cgroup.kill"), []byte("1"), 0)
		}
		n := supervisor.KillAll(func() []supervisor.Process { return find(t, state) })
		if n > 0 || !empty(leaf) {
			clean = 0
		} else {
			clean++
		}
		if clean == 2 {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("task %v: %d of its processes still run: %w", t.Key, n, ctx.Err())
		case <-time.After(pause):
		}
	}
	return d.Cleanup(t)
}

// empty reports whether a leaf has no process or does not exist.
func empty(leaf string) bool {
	if leaf == "" {
		return true
	}
	data, err := os.ReadFile(filepath.Join(leaf, "cgroup.procs"))
	return errors.Is(err, os.ErrNotExist) || err == nil && len(bytes.TrimSpace(data)) == 0
}

// find returns the running processes of a task.
func find(t *launcher.Task, state *supervisor.State) []supervisor.Process {
	// This variable is unique among all tasks of all agents on this host, and users cannot set it.
	mark := []byte("SYNAPSE_HOSTFILE=" + launcher.Hostfile(t.Scratch))
	var found []supervisor.Process
	for _, p := range supervisor.Processes() {
		if p.State == 'Z' || p.State == 'X' || p.PID == os.Getpid() {
			continue
		}
		if inSession(p, state) || marked(p.PID, mark) {
			found = append(found, p)
		}
	}
	return found
}

// inSession reports whether a process is in the task's session. The number of a session is not reused while one of its
// processes lives. A process with the leader's pid but another start time is a later process.
func inSession(p supervisor.Process, state *supervisor.State) bool {
	if state.PID == 0 || p.Session != state.PID || p.Start < state.Start {
		return false
	}
	return p.PID != state.PID || p.Start == state.Start
}

func marked(pid int, mark []byte) bool {
	env, err := supervisor.Environ(pid)
	if err != nil {
		return false
	}
	for line := range bytes.SplitSeq(env, []byte{0}) {
		if bytes.Equal(line, mark) {
			return true
		}
	}
	return false
}

// userHz is the unit of times in /proc, which is the same on every platform of Go.
const userHz = 100

// Stats adds up the usage of the task's processes.
func (d *Driver) Stats(t *launcher.Task, state *supervisor.State) (*messages.TaskStats, error) {
	stats := &messages.TaskStats{}
	all := supervisor.Processes()
	leader, alive := supervisor.ReadProcess(state.PID)
	if !alive || leader.Start != state.Start {
		return stats, nil
	}
	page := int64(os.Getpagesize())
	// The supervisor is the leader's parent and also adopts the task's orphans.
	for _, p := range supervisor.Descendants(leader.Parent, all) {
		stats.Processes++
		stats.CpuNs += int64(p.CPUTicks) * int64(time.Second/userHz)
		stats.MemoryBytes += p.Resident * page
		stats.PeakMemoryBytes += max(peak(p.PID), p.Resident*page) // the process may have ended meanwhile
	}
	return stats, nil
}

// peak returns the peak memory of one process.
func peak(pid int) int64 {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kb << 10
		}
	}
	return 0
}
