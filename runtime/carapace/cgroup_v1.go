//go:build linux

package carapace

// This file makes the groups of cgroup v1, which has one tree per controller. To write another process into a group
// waits for every processor (about 12 ms). A thread that writes "0" into `tasks` moves only itself, at once. The
// command therefore joins its groups itself, before exec and while it has one thread.

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func createV1(h hierarchies, parent string, spec Spec, devices []deviceRule) *cgroup {
	g := &cgroup{leaves: map[string]string{}}
	wanted := wants(spec)
	made := map[string]string{} // by the parent's folder, because cpu and cpuacct may share a tree
	for _, controller := range v1Controllers {
		loss, asked := wanted[controller]
		if !asked {
			continue
		}
		if err := g.joinV1(h, controller, parent, spec.ID, made); err != nil {
			if loss != "" {
				g.lacks(loss, err)
			}
			continue
		}
		set := map[string]func(string) error{
			"memory":  func(leaf string) error { return limitMemoryV1(leaf, spec.Limits) },
			"pids":    func(leaf string) error { return limitPidsV1(leaf, spec.Limits) },
			"devices": func(leaf string) error { return limitDevicesV1(leaf, devices) },
			"cpu":     func(leaf string) error { return limitCPUV1(leaf, spec.Limits) },
			"cpuset":  func(leaf string) error { return limitCpusetV1(h.by["cpuset"], leaf, spec.Limits) },
		}[controller]
		if set == nil {
			continue
		}
		if err := set(g.leaves[controller]); err != nil {
			g.lacks(loss, err)
		}
	}
	return g
}

func (g *cgroup) joinV1(h hierarchies, controller, parent, id string, made map[string]string) error {
	if h.by[controller] == "" {
		return errNotMounted
	}
	folder, err := h.parent(controller, parent)
	if err != nil {
		return err
	}
	leaf := made[folder]
	if leaf == "" {
		leaf, err = makeLeaf(folder, id, func(folder string) error {
			if controller == "cpuset" {
				return inheritCpuset(h.by[controller], folder)
			}
			return os.MkdirAll(folder, 0o755)
		})
		if err != nil {
			return err
		}
		made[folder] = leaf
	}
	g.leaves[controller] = leaf
	return nil
}

func limitMemoryV1(leaf string, limits Limits) error {
	if limits.MemoryBytes == 0 {
		return nil
	}
	limit := strconv.FormatInt(limits.MemoryBytes, 10)
	if err := writeFile(leaf, "memory.limit_in_bytes", limit); err != nil {
		return err
	}
	// Swap beyond the limit would hide the lack of memory from the user who set the limit. Some kernels do not
	// count swap.
	err := writeFile(leaf, "memory.memsw.limit_in_bytes", limit)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	return err
}

func limitPidsV1(leaf string, limits Limits) error {
	if limits.Pids == 0 {
		return nil
	}
	return writeFile(leaf, "pids.max", strconv.FormatInt(limits.Pids, 10))
}

func limitDevicesV1(leaf string, devices []deviceRule) error {
	if err := writeFile(leaf, "devices.deny", "a"); err != nil {
		return err
	}
	allow, err := openFile(filepath.Join(leaf, "devices.allow"), unix.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer allow.Close()
	for _, rule := range devices {
		if _, err := allow.WriteString(rule.word()); err != nil { // One rule per write: the kernel reads one line.
			return fmt.Errorf("allow %s: %w", rule.word(), err)
		}
	}
	return nil
}

func limitCPUV1(leaf string, limits Limits) error {
	if err := writeFile(leaf, "cpu.cfs_period_us", strconv.Itoa(cpuPeriodUs)); err != nil {
		return err
	}
	return writeFile(leaf, "cpu.cfs_quota_us", strconv.FormatInt(limits.MilliCPU*cpuPeriodUs/1000, 10))
}

func limitCpusetV1(root, leaf string, limits Limits) error {
	// A new cpuset group has neither CPUs nor memory nodes, and accepts no task until it has both. The same is true
	// for its parent, which another starter may have just made and not yet filled.
	if err := inheritCpuset(root, leaf); err != nil {
		return err
	}
	if limits.Cpuset != "" {
		if err := writeFile(leaf, "cpuset.cpus", limits.Cpuset); err != nil {
			return err
		}
	}
	if limits.CpusetMems != "" {
		return writeFile(leaf, "cpuset.mems", limits.CpusetMems)
	}
	return nil
}

// inheritCpuset makes the folders from root to folder, and copies missing values from the parent.
func inheritCpuset(root, folder string) error {
	below, err := filepath.Rel(root, folder)
	if err != nil {
		return err
	}
	for _, name := range strings.Split(below, string(filepath.Separator)) {
		above := root
		root = filepath.Join(root, name)
		if err := os.Mkdir(root, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			have, err := readFile(filepath.Join(root, file))
			if err != nil {
				return err
			}
			if strings.TrimSpace(string(have)) != "" {
				continue
			}
			from, err := readFile(filepath.Join(above, file))
			if err != nil {
				return err
			}
			if err := writeFile(root, file, strings.TrimSpace(string(from))); err != nil {
				return err
			}
		}
	}
	return nil
}
