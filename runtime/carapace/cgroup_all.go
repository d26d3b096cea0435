//go:build linux

package carapace

// This file limits the processes of all containers below one parent group together. Without this limit, tasks within
// their own limits can use up the host's pids. Then no service and no operator can start a process. Running containers
// stay in their groups: their processes count, and a lower limit ends none of them.

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// LimitAllPids limits the processes and threads of all containers below the parent group, on cgroup v1 and v2. The
// caller holds the parent, or calls again when it makes the next container. If the controller is missing or not
// delegated, it returns an error and there is no such limit.
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
		return nil // the root group has no limit
	}
	if readNumber(filepath.Join(folder, "pids.max")) == most {
		return nil
	}
	return writeFile(folder, "pids.max", strconv.FormatInt(most, 10))
}

// limitAll sets the limit that all containers of the parent share. A parent that no longer exists has no containers.
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
