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

// This file owns how a container is found without its supervisor, how it is known
// to be gone, and what it uses.

const (
	sweepPause    = 5 * time.Millisecond
	maxSweepPause = time.Second
)

// Sweep ends what a supervisor that was killed left. The container dies with its supervisor, which made it; Sweep makes
// sure. Nothing is left once its init is dead and its state is gone, which is removed last, after its cgroups.
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

// initOf is the container's init as its supervisor noted it, if it lives. A process with its number but another start
// time came later.
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

// Groups are the control groups of the containers here that carry their filters.
func (d *Driver) Groups() []string {
	var groups []string
	all, _ := carapace.List(d.o.StateDir) // where nothing can be read, nothing runs
	for _, state := range all {
		groups = append(groups, d.o.Cgroups.WaysOf(state.ID))
	}
	return groups
}

// forsaken is the age from which an empty cgroup belongs to nobody: a container that is being started has processes in
// its own long before.
const forsaken = 5 * time.Minute

// Collect removes what is left of containers whose starters were killed: this agent's own, and the empty cgroups of
// agents whose directory no longer exists. It harms nothing that lives: the kernel removes no cgroup that has a
// process.
func (d *Driver) Collect() error {
	_, err := carapace.GC(d.o.StateDir, d.o.Cgroups)
	for _, folder := range d.o.Cgroups.Folders() {
		entries, _ := os.ReadDir(folder) // one that is not there has nothing to collect
		for _, entry := range entries {
			info, gone := entry.Info()
			if gone == nil && entry.IsDir() && time.Since(info.ModTime()) > forsaken {
				_ = unix.Rmdir(filepath.Join(folder, entry.Name()))
			}
		}
	}
	return err
}
