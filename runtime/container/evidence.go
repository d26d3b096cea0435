//go:build linux

package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/runtime/launcher"
	"github.com/yi-json/synapse/runtime/supervisor"
)

// This file finds a container without its supervisor, confirms its end, and reads its usage.

const (
	sweepPause    = 5 * time.Millisecond
	maxSweepPause = time.Second
)

// Sweep ends the remains of a killed supervisor. A container dies with its supervisor, which made it, and Sweep
// verifies this. Nothing is left when its init is dead and its state is removed. The state is removed last, after its
// cgroups.
func (d *Driver) Sweep(ctx context.Context, t *launcher.Task, state *supervisor.State) error {
	var left error
	for pause := sweepPause; ; pause = min(2*pause, maxSweepPause) {
		running := supervisor.KillAll(func() []supervisor.Process { return initOf(state) })
		if err := carapace.SignalID(d.o.StateDir, d.id(t), unix.SIGKILL); err == nil {
			running++
		}
		left = carapace.RemoveID(d.o.StateDir, d.id(t), d.o.Cgroups)
		if running == 0 && left == nil {
			return d.LeaveNetwork(t)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("task %v: %w", t.Key, errors.Join(left, ctx.Err()))
		case <-time.After(pause):
		}
	}
}

// initOf returns the container's init as recorded by its supervisor, if it lives. A process with the same pid but
// another start time is another process.
func initOf(state *supervisor.State) []supervisor.Process {
	p, ok := supervisor.ReadProcess(state.PID)
	if !ok || p.Start != state.Start || p.State == 'Z' || p.State == 'X' {
		return nil
	}
	return []supervisor.Process{p}
}

// Stats returns the counters of the container's cgroups.
func (d *Driver) Stats(t *launcher.Task, _ *supervisor.State) (*messages.TaskStats, error) {
	now, err := carapace.StatsID(d.o.StateDir, d.id(t))
	if errors.Is(err, carapace.ErrNotFound) {
		return &messages.TaskStats{}, nil
	}
	if err != nil {
		return nil, err
	}
	return &messages.TaskStats{
		CpuNs: now.CPUNs, MemoryBytes: now.MemoryBytes, PeakMemoryBytes: now.PeakMemoryBytes, Processes: int32(now.Processes),
	}, nil
}

// Groups returns the cgroups of the containers here that have network filters.
func (d *Driver) Groups() []string {
	var groups []string
	all, _ := carapace.List(d.o.StateDir) // if nothing can be read, nothing runs
	for _, state := range all {
		groups = append(groups, d.o.Cgroups.WaysOf(state.ID))
	}
	return groups
}

// forsaken is the age from which an empty cgroup counts as abandoned. A container that is being started has processes
// in its group long before that.
const forsaken = 5 * time.Minute

// Collect removes the remains of containers whose starters were killed: those of this agent, and empty cgroups of
// agents whose directory no longer exists. It cannot harm a living container, because the kernel removes no cgroup with
// processes.
func (d *Driver) Collect() error {
	_, err := carapace.GC(d.o.StateDir, d.o.Cgroups)
	for _, folder := range d.o.Cgroups.Folders() {
		entries, _ := os.ReadDir(folder) // a missing folder has nothing to collect
		for _, entry := range entries {
			info, gone := entry.Info()
			if gone == nil && entry.IsDir() && time.Since(info.ModTime()) > forsaken {
				_ = unix.Rmdir(filepath.Join(folder, entry.Name()))
			}
		}
	}
	return err
}
