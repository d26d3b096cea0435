//go:build linux

package carapace

// This file makes the group of cgroup v2, which has one tree. A controller works in a group only if every group above
// delegates it. The command is created in its group (clone3), so no process is moved.

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

func createV2(h hierarchies, parent string, spec Spec, devices []deviceRule) *cgroup {
	g := &cgroup{unified: true, leaves: map[string]string{}}
	wanted := wants(spec)
	folder, err := h.parent("", parent)
	if err == nil {
		var leaf string
		if leaf, err = makeLeaf(folder, spec.ID,
			func(folder string) error { return os.MkdirAll(folder, 0o755) }); err == nil {
			g.leaves[""] = leaf
		}
	}
	if err != nil {
		for _, loss := range wanted {
			if loss != "" {
				g.lacks(loss, err)
			}
		}
		slices.Sort(g.unenforced)
		return g
	}
	g.delegate(h.unified, folder, wanted)
	g.limitV2(spec, wanted)
	if err := attachDeviceFilter(g.leaves[""], devices); err != nil {
		g.lacks(wanted["devices"], err)
	}
	return g
}

// delegate lets every group from the root to the leaf's parent delegate the wanted controllers. For all containers but
// the first, nothing is missing, and delegate reads one file.
func (g *cgroup) delegate(root, folder string, wanted map[string]string) {
	controllers := []string{"memory", "pids", "cpu", "cpuset"}
	controllers = slices.DeleteFunc(controllers, func(name string) bool { _, asked := wanted[name]; return !asked })
	g.controllers = readFields(g.leaves[""], "cgroup.controllers")
	missing := slices.DeleteFunc(slices.Clone(controllers),
		func(name string) bool { return slices.Contains(g.controllers, name) })
	if len(missing) == 0 {
		return
	}
	below, err := filepath.Rel(root, folder)
	if err != nil {
		return
	}
	for _, name := range append([]string{"."}, strings.Split(below, string(filepath.Separator))...) {
		root = filepath.Join(root, name)
		have := readFields(root, "cgroup.subtree_control")
		for _, controller := range missing {
			if !slices.Contains(have, controller) {
				_ = writeFile(root, "cgroup.subtree_control", "+"+controller) // The result is read below.
			}
		}
	}
	g.controllers = readFields(g.leaves[""], "cgroup.controllers")
}

func (g *cgroup) limitV2(spec Spec, wanted map[string]string) {
	limits := spec.Limits
	leaf := g.leaves[""]
	type setting struct{ controller, file, value string }
	var settings []setting
	if limits.MemoryBytes > 0 {
		settings = append(settings, setting{"memory", "memory.max", strconv.FormatInt(limits.MemoryBytes, 10)},
			setting{"memory", "memory.swap.max", "0"},
			// A training task that lost a process hangs, so all processes end together.
			setting{"memory", "memory.oom.group", "1"})
	}
	if limits.Pids > 0 {
		settings = append(settings, setting{"pids", "pids.max", strconv.FormatInt(limits.Pids, 10)})
	}
	if limits.MilliCPU > 0 {
		settings = append(settings, setting{
			"cpu", "cpu.max", fmt.Sprintf("%d %d", limits.MilliCPU*cpuPeriodUs/1000, cpuPeriodUs),
		})
	}
	if limits.Cpuset != "" {
		settings = append(settings, setting{"cpuset", "cpuset.cpus", limits.Cpuset})
	}
	if limits.CpusetMems != "" {
		settings = append(settings, setting{"cpuset", "cpuset.mems", limits.CpusetMems})
	}
	told := map[string]bool{}
	for _, set := range settings {
		err := errNotDelegated
		if slices.Contains(g.controllers, set.controller) {
			err = writeFile(leaf, set.file, set.value)
		}
		if errors.Is(err, fs.ErrNotExist) && set.file == "memory.swap.max" {
			continue // A kernel without swap accounting.
		}
		if err != nil && !told[set.controller] {
			told[set.controller] = true
			g.lacks(wanted[set.controller], err)
		}
	}
}

func readFields(folder, name string) []string {
	text, _ := readFile(filepath.Join(folder, name))
	return strings.Fields(string(text))
}
