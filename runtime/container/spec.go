//go:build linux

package container

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/account"
	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/runtime/environment"
	"github.com/yi-json/synapse/runtime/gpu"
	"github.com/yi-json/synapse/runtime/launcher"
)

// This file turns a job's task into a container.

// spec returns the container of a task, except for its environment.
func (d *Driver) spec(t *launcher.Task, p prepared, who *account.Account) carapace.Spec {
	s, image := t.Spec, p.Image
	spec := carapace.Spec{
		ID: d.id(t), Rootfs: image.Rootfs, Image: image.Named, Command: s.GetCommand(), Workdir: s.GetWorkdir(),
		Scratch: t.Scratch, Hide: d.o.Hide, ShmBytes: s.GetShmBytes(), Limits: d.limits(t), Rlimits: rlimits(),
		// Numeric ids, because the user names of an image mean nothing to the host.
		User: fmt.Sprintf("%d:%d", who.UID, who.GID), Groups: who.Groups,
	}
	if who.OfJob {
		spec.UserName = who.Name
	}
	if d.o.Policy.NUMA {
		spec.Seccomp = carapace.SeccompNUMA
	}
	if s.GetNetwork() == messages.Network_NETWORK_NONE {
		spec.Net = carapace.NetNone
	}
	if d.o.Unreachable != nil && d.lacks[carapace.LackOfReach] == "" &&
		s.GetNetwork() != messages.Network_NETWORK_NONE {
		spec.Unreachable = d.o.Unreachable()
	}
	if who.Root {
		spec.User, spec.Groups, spec.IDs = "0:0", nil, p.IDs
	}
	if who.Self {
		spec.User, spec.Groups = "0:0", nil // without root, the only user has this name inside
	}
	if image.Layer && d.lacks["layer"] == "" {
		spec.Layer = filepath.Join(t.Dir, layerName)
	}
	spec.ReadOnly = image.Owned && spec.Layer == "" // the next task must find the image unchanged
	if len(spec.Command) == 0 {
		spec.Command = image.Command
	}
	if spec.Workdir == "" && image.Workdir != "/" {
		spec.Workdir = image.Workdir // empty: the scratch directory
	}
	for i, m := range s.GetMounts() {
		if p.Mounts[i].Node != "" {
			continue
		}
		spec.Mounts = append(spec.Mounts, carapace.Mount{
			Named: &p.Mounts[i], Target: m.GetTarget(), ReadOnly: m.GetReadOnly(),
		})
	}
	return spec
}

// minMilliCPU is the smallest share that the kernel can enforce.
const minMilliCPU = 10

// limits returns the granted limits, as far as the node can enforce them. A job that requires limits requires all of
// them, and is refused if one is missing.
func (d *Driver) limits(t *launcher.Task) carapace.Limits {
	amount, required := t.Grant.GetAmount(), t.Spec.GetLimitsRequired()
	limits := carapace.Limits{
		Required: required, AllPids: processes(), MemoryBytes: amount.GetMemoryBytes(), MilliCPU: amount.GetMilliCpu(),
	}
	limits.Pids = cmp.Or(d.o.MaxProcesses,
		processesOf(limits.AllPids, limits.MilliCPU, int64(goruntime.NumCPU())*1000))
	if limits.MilliCPU > 0 {
		limits.MilliCPU = max(limits.MilliCPU, minMilliCPU)
	}
	if required {
		return limits
	}
	for what, limit := range map[string]*int64{
		"memory limit": &limits.MemoryBytes, "pids limit": &limits.Pids, "cpu limit": &limits.MilliCPU,
	} {
		if d.lacks[what] != "" {
			*limit = 0
		}
	}
	if limits.Pids == 0 {
		limits.AllPids = 0
	}
	return limits
}

// The host keeps a tenth of its process ids, and at least reservedPids. A task gets at least leastPids, which is more
// than any observed training task needed. It gets more if it has more of the node's processors.
const (
	reservedPids = 1024
	leastPids    = 4096
	mostPids     = 4 << 20 // the maximum of the kernel
)

// processes returns how many processes and threads all tasks may have together.
func processes() int64 {
	most := int64(mostPids)
	for _, file := range []string{"/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"} {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 1 {
			most = min(most, n)
		}
	}
	return forTasks(most)
}

// forTasks returns the share of a node's process ids that all tasks may use.
func forTasks(numbers int64) int64 {
	return max(numbers-max(reservedPids, numbers/10), numbers/2, 1)
}

// processesOf returns the process limit of one task, by its share of the processors.
func processesOf(all, milliCPU, machineMilliCPU int64) int64 {
	return min(max(leastPids, all*milliCPU/machineMilliCPU), all)
}

// rlimits returns limits that let a task lock as much memory and open as many files as the host allows. Network cards
// lock the buffers of gangs in memory.
func rlimits() []carapace.Rlimit {
	var limits []carapace.Rlimit
	for name, resource := range map[string]int{"memlock": unix.RLIMIT_MEMLOCK, "nofile": unix.RLIMIT_NOFILE} {
		var now unix.Rlimit
		if unix.Getrlimit(resource, &now) != nil {
			continue
		}
		if name == "memlock" && mayRaiseLimits() {
			now.Max = unix.RLIM_INFINITY
		}
		value := int64(-1)
		if now.Max <= math.MaxInt64 {
			value = int64(now.Max)
		}
		limits = append(limits, carapace.Rlimit{Name: name, Soft: value, Hard: value})
	}
	return limits
}

// mayRaiseLimits reports whether the agent may raise limits. Root may lack this right.
func mayRaiseLimits() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&header, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}

// devices returns the view of the task's GPUs. A granted GPU that the node no longer announces is refused. The launcher
// knows only its name, and the task would start with fewer devices than its gang expects.
func (d *Driver) devices(t *launcher.Task, image Image) (*gpu.View, error) {
	for _, share := range t.Grant.GetGpus() {
		if !slices.ContainsFunc(t.Gpus, func(g *messages.Gpu) bool { return g.GetId() == share.GetGpuId() }) {
			return nil, fmt.Errorf("GPU %s was granted, but this node no longer has it", share.GetGpuId())
		}
	}
	if image.Rootfs == HostImage {
		return d.o.Gpus.Granted(t.Gpus)
	}
	return d.o.Gpus.GrantedImage(t.Gpus)
}

// libraries returns the mounts of the GPU driver's libraries.
func libraries(view *gpu.View) []carapace.Mount {
	var mounts []carapace.Mount
	for _, m := range view.Mounts {
		mounts = append(mounts, carapace.Mount{Source: m.Source, Target: m.Target, ReadOnly: true})
	}
	return mounts
}

// remote reports whether a gang has members on other nodes.
func remote(r *messages.Rendezvous) bool {
	for _, p := range r.GetPeers() {
		if p.GetNode() != r.GetPeers()[0].GetNode() {
			return true
		}
	}
	return false
}

// homeOf returns the $HOME of an account on the host's root.
func homeOf(who *account.Account) string {
	if info, err := os.Stat(who.Home); who.Home == "/" || err != nil || !info.IsDir() {
		return scratchTarget
	}
	return who.Home
}

// environment returns the complete environment except HOME in an image, whose accounts only the container can read. The
// driver's libraries are searched last, so they hide no library of the image.
func (d *Driver) environment(image Image, who *account.Account, env []string, view *gpu.View) []string {
	base := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	if who.OfJob { // programs find the name here, or in the user lists of the container
		base = append(base, "HOME="+scratchTarget, "USER="+who.Name, "LOGNAME="+who.Name)
	}
	if image.Rootfs == HostImage {
		base = append(base, "HOME="+homeOf(who), "USER="+who.Name, "LOGNAME="+who.Name, "SHELL=/bin/sh")
	}
	merged := environment.Merge(view.Env, base, d.o.Env, image.Env, env)
	if len(view.LibraryDirs) == 0 {
		return merged
	}
	const name = "LD_LIBRARY_PATH="
	search := strings.Join(view.LibraryDirs, ":")
	for _, line := range merged {
		if own, found := strings.CutPrefix(line, name); found && own != "" {
			search = own + ":" + search
		}
	}
	return environment.Merge(merged, []string{name + search})
}
