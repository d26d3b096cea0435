package machine

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/messages"
)

// This file computes the capacity of the node. It is limited by the hardware, by the agent's own limits, and by every
// cgroup above the agent.

// Capacity returns the processors and the memory that tasks may use.
func Capacity() (*messages.Resources, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("read the processors: %w", err)
	}
	meminfo, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return nil, fmt.Errorf("read the memory size: %w", err)
	}
	memory := totalMemory(string(meminfo))
	if memory <= 0 {
		return nil, fmt.Errorf("memory: /proc/meminfo has no total")
	}
	limits := ownLimits("/proc/self/cgroup", "/proc/self/mountinfo")
	return &messages.Resources{
		MilliCpu:    milliCPU(set.Count(), limits.milliCPU),
		MemoryBytes: min(memory, limits.memory),
	}, nil
}

// milliCPU returns the cores that a node offers under a quota, at least one. Its tasks then share the quota's part of
// that core. Most jobs request one core, and a small virtual host could run none of them otherwise.
func milliCPU(cores int, quota int64) int64 {
	const atLeast = 1000
	return min(int64(cores)*1000, max(quota, atLeast))
}

func totalMemory(meminfo string) int64 {
	for line := range strings.Lines(meminfo) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			kb, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kb << 10
		}
	}
	return 0
}

// limits holds the limits of the cgroups; the largest number if they set none.
type limits struct{ milliCPU, memory int64 }

// ownLimits reads all cgroups from the agent's own to the root of its view, in both versions. The strictest limit
// applies.
func ownLimits(cgroupFile, mountsFile string) limits {
	all := limits{math.MaxInt64, math.MaxInt64}
	cgroups, err := os.ReadFile(cgroupFile)
	if err != nil {
		return all
	}
	mounts, err := os.ReadFile(mountsFile)
	if err != nil {
		return all
	}
	for line := range strings.Lines(string(cgroups)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		for _, controller := range strings.Split(fields[1], ",") {
			root, inside := mountOf(string(mounts), controller, fields[2])
			for dir := inside; root != ""; dir = filepath.Dir(dir) {
				all.tighten(filepath.Join(root, dir), controller)
				if dir == "/" || dir == "." {
					break
				}
			}
		}
	}
	return all
}

// mountOf returns the mount point of a hierarchy, and the group's path below it. An empty controller means the unified
// hierarchy.
func mountOf(mounts, controller, group string) (root, inside string) {
	for line := range strings.Lines(mounts) {
		before, after, _ := strings.Cut(line, " - ")
		place, kind := strings.Fields(before), strings.Fields(after)
		if len(place) < 5 || len(kind) < 3 {
			continue
		}
		unified := controller == "" && kind[0] == "cgroup2"
		old := controller != "" && kind[0] == "cgroup" && hasOption(kind[2], controller)
		if !unified && !old {
			continue
		}
		below, ok := strings.CutPrefix(group, strings.TrimSuffix(place[3], "/"))
		if !ok {
			below = "/" // the mount shows only the agent's part
		}
		return place[4], filepath.Join("/", below)
	}
	return "", ""
}

func hasOption(options, name string) bool {
	for o := range strings.SplitSeq(options, ",") {
		if o == name {
			return true
		}
	}
	return false
}

func (l *limits) tighten(dir, controller string) {
	switch controller {
	case "":
		quota, period, _ := strings.Cut(readLine(dir, "cpu.max"), " ")
		l.cpu(quota, period)
		l.bytes(readLine(dir, "memory.max"))
	case "cpu":
		l.cpu(readLine(dir, "cpu.cfs_quota_us"), readLine(dir, "cpu.cfs_period_us"))
	case "memory":
		l.bytes(readLine(dir, "memory.limit_in_bytes"))
	}
}

func (l *limits) cpu(quota, period string) {
	q, err := strconv.ParseInt(quota, 10, 64)
	p, wrong := strconv.ParseInt(period, 10, 64)
	if err == nil && wrong == nil && q > 0 && p > 0 {
		l.milliCPU = min(l.milliCPU, max(1, q*1000/p))
	}
}

func (l *limits) bytes(text string) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 {
		l.memory = min(l.memory, n)
	}
}

func readLine(dir, name string) string {
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
