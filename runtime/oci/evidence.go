//go:build linux

package oci

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/runtime/launcher"
	"github.com/yi-json/synapse/runtime/supervisor"
)

// This file finds a container without its supervisor, confirms its end, and reads its usage.

const (
	sweepPause    = 10 * time.Millisecond
	maxSweepPause = time.Second
)

// Sweep ends the remains of a killed supervisor. Such a container does not end with its supervisor. Sweep ends the
// runtime that may still be making it, its first process with its namespace, and all processes in its cgroups.
func (d *Driver) Sweep(ctx context.Context, t *launcher.Task, state *supervisor.State) error {
	for pause := sweepPause; ; pause = min(2*pause, maxSweepPause) {
		running := supervisor.KillAll(func() []supervisor.Process { return d.remains(t, state) })
		left := d.remove(ctx, t)
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

// remains returns the recorded first process of the container, and the runtime process that works on the bundle.
func (d *Driver) remains(t *launcher.Task, state *supervisor.State) []supervisor.Process {
	bundle := []byte(filepath.Join(t.Dir, bundleName))
	var found []supervisor.Process
	for _, p := range supervisor.Processes() {
		if p.State == 'Z' || p.State == 'X' || p.PID == os.Getpid() {
			continue
		}
		line, _ := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/cmdline")
		maker := bytes.HasPrefix(line, []byte(d.o.Runtime+"\x00")) && bytes.Contains(line, append(bundle, 0))
		if maker || p.PID == state.PID && p.Start == state.Start {
			found = append(found, p)
		}
	}
	return found
}

// remove lets the runtime forget the container, and then verifies that its cgroups are gone.
func (d *Driver) remove(ctx context.Context, t *launcher.Task) error {
	if _, err := os.Lstat(filepath.Join(d.o.StateDir, d.id(t))); err == nil {
		if err := d.delete(ctx, d.id(t), filepath.Join(t.Dir, bundleName)); err != nil {
			return err
		}
	}
	return carapace.RemoveLeaves(d.o.Cgroups.Everywhere(d.id(t)))
}

// Groups returns the cgroups of the containers here that have network filters.
func (d *Driver) Groups() []string {
	var groups []string
	all, _ := os.ReadDir(d.o.StateDir)
	for _, entry := range all {
		groups = append(groups, d.o.Cgroups.WaysOf(entry.Name()))
	}
	return groups
}

// Stats returns the counters of the container's cgroups.
func (d *Driver) Stats(t *launcher.Task, _ *supervisor.State) (*messages.TaskStats, error) {
	now := carapace.StatsOf(d.o.Cgroups.Everywhere(d.id(t)))
	return &messages.TaskStats{
		CpuNs: now.CPUNs, MemoryBytes: now.MemoryBytes, PeakMemoryBytes: now.PeakMemoryBytes, Processes: int32(now.Processes),
	}, nil
}

// Cleanup removes the remains of the container and releases the image.
func (d *Driver) Cleanup(t *launcher.Task) error {
	if err := d.remove(context.Background(), t); err != nil {
		return fmt.Errorf("container of task %v: %w", t.Key, err)
	}
	return d.Driver.Cleanup(t)
}
