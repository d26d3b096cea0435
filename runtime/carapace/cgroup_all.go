//go:build linux

package carapace

// The limit that all containers below one parent group have together. Without it, tasks that each stay within a limit
// of their own can use up the machine's process numbers, and then neither its services nor its operator can begin a
// process. Containers that run stay in their groups: what they have counts, and a lower limit ends none of them.

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// LimitAllPids bounds the processes and threads of all containers below the parent group, in either version of cgroups.
// The caller holds the parent, or looks again when it makes the next container. A machine without the controller, or an
// agent to which it is not delegated, gets an error and has no such limit.
func LimitAllPids(cgroups Cgroups, most int64) error {
	if most == 0 {
		return nil
	}
	cgroups = cgroups.filled()
	h := findHierarchies(cgroups.Root)
	if h.unified == "" && h.by["pids"] == "" {
		return errNotMounted
	}
	folder, err := h.parent("pids", cgroups.Parent)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if h.unified != "" {
		(&cgroup{leaves: map[string]string{"": folder}}).delegate(h.unified, filepath.Dir(folder),
			map[string]string{"pids": ""})
	}
	return limitAllPids(h, folder, most)
}

func limitAllPids(h hierarchies, folder string, most int64) error {
	root := h.by["pids"]
	if h.unified != "" {
		root = h.unified
		if !slices.Contains(readFields(folder, "cgroup.controllers"), "pids") {
			return errNotDelegated
		}
	}
	if folder == filepath.Clean(root) {
		return nil // the group of the whole machine has no limit
	}
	if readNumber(filepath.Join(folder, "pids.max")) == most {
		return nil
	}
	return writeFile(folder, "pids.max", strconv.FormatInt(most, 10))
}

// limitAll sets what the containers beside this one share. A parent that is not there any more has no containers.
func (g *cgroup) limitAll(h hierarchies, parent string, limits Limits) {
	if limits.AllPids == 0 || h.unified == "" && h.by["pids"] == "" {
		return
	}
	folder, err := h.parent("pids", parent)
	if err == nil {
		err = limitAllPids(h, folder, limits.AllPids)
	}
	if err != nil && !errors.Is(err, errNotDelegated) && !errors.Is(err, fs.ErrNotExist) {
		g.lacks(LackOfAllPids, err)
	}
}

// LackOfAllPids names the limit that is missing if the parent group takes no limit of processes.
const LackOfAllPids = "pids limit of all tasks"
