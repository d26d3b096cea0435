//go:build linux

package oci

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/calls"
	"github.com/yi-json/synapse/runtime/carapace"
)

// This file describes a container to an OCI runtime. The container has the same view, limits and devices as carapace's
// container for the same task, as far as the specification can express them.

const (
	defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	defaultShm  = 64 << 20
	cpuPeriodUs = 100_000
	// version is the oldest version with all features used here. A runtime refuses a version newer than its own.
	version = "1.0.2"
)

// config returns the configuration of the bundle. base is the directory below which the root is composed.
func config(s *carapace.Spec, base, cgroup string) (*specs.Spec, error) {
	process, err := processOf(s)
	if err != nil {
		return nil, err
	}
	devices, rules, err := devicesOf(s.Devices)
	if err != nil {
		return nil, err
	}
	c := &specs.Spec{
		Version: version, Process: process, Hostname: s.Hostname,
		Root:   &specs.Root{Path: carapace.ComposedRoot(base), Readonly: s.ReadOnly || s.Rootfs == "host"},
		Mounts: systemMounts(s),
		Linux: &specs.Linux{
			CgroupsPath: cgroup, RootfsPropagation: "private", Devices: devices, Resources: resourcesOf(s, rules),
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.PIDNamespace}, {Type: specs.MountNamespace}, {Type: specs.IPCNamespace}, {Type: specs.UTSNamespace},
				{Type: specs.CgroupNamespace},
			},
			MaskedPaths: carapace.Masked, ReadonlyPaths: carapace.Guarded,
		},
	}
	if c.Linux.Seccomp, err = calls.OCI(carapace.CallsWith(s)); err != nil {
		return nil, err
	}
	switch {
	case s.Net == carapace.NetNone:
		c.Linux.Namespaces = append(c.Linux.Namespaces, specs.LinuxNamespace{Type: specs.NetworkNamespace})
	case filepath.IsAbs(s.Net):
		c.Linux.Namespaces = append(c.Linux.Namespaces, specs.LinuxNamespace{Type: specs.NetworkNamespace, Path: s.Net})
	}
	if s.IDs != nil {
		own(c, s, base)
	}
	return c, nil
}

// own puts a container into a user namespace with a separate id range. The runtime acts as root of that namespace. The
// steps that this root may not do have already been done, and are not requested.
func own(c *specs.Spec, s *carapace.Spec, base string) {
	numbers := []specs.LinuxIDMapping{{ContainerID: 0, HostID: s.IDs.First, Size: carapace.IDsLen}}
	c.Linux.UIDMappings, c.Linux.GIDMappings = numbers, numbers
	c.Linux.Namespaces = append(c.Linux.Namespaces, specs.LinuxNamespace{Type: specs.UserNamespace})
	c.Process.NoNewPrivileges = false // Set-user-id programs of the image get rights only inside the container.
	if s.Net == carapace.NetNone {
		c.Linux.Sysctl = map[string]string{"net.ipv4.ip_unprivileged_port_start": "0"}
	} else {
		c.Mounts = slices.DeleteFunc(c.Mounts, func(m specs.Mount) bool { return m.Destination == "/sys" })
	}
	for _, node := range c.Linux.Devices {
		c.Mounts = append(c.Mounts, specs.Mount{
			Destination: node.Path, Type: "bind", Source: carapace.ComposedNode(base, node.Path),
			Options: []string{"bind", "nosuid", "noexec"},
		})
	}
	c.Linux.Devices = nil
}

func processOf(s *carapace.Spec) (*specs.Process, error) {
	uid, gid, err := numbers(s.User)
	if err != nil {
		return nil, err
	}
	env := slices.Clone(s.Env)
	for _, standard := range []string{defaultPath, "HOME=/"} {
		name, _, _ := strings.Cut(standard, "=")
		if !slices.ContainsFunc(env, func(entry string) bool { return strings.HasPrefix(entry, name+"=") }) {
			env = append(env, standard)
		}
	}
	names := carapace.Capabilities(s.CapAdd, s.CapDrop)
	capabilities := &specs.LinuxCapabilities{Bounding: names}
	if uid == 0 {
		capabilities.Effective, capabilities.Permitted = names, names
	}
	process := &specs.Process{
		Args: s.Command, Env: env, NoNewPrivileges: true, Capabilities: capabilities,
		Cwd:  cmp.Or(s.Workdir, map[bool]string{true: "/scratch"}[s.Scratch != ""], "/"),
		User: specs.User{UID: uid, GID: gid, AdditionalGids: s.Groups},
	}
	for _, l := range s.Rlimits {
		process.Rlimits = append(process.Rlimits, specs.POSIXRlimit{
			Type: "RLIMIT_" + strings.ToUpper(l.Name), Soft: uint64(l.Soft), Hard: uint64(l.Hard),
		})
	}
	return process, nil
}

// numbers parses uid:gid, the form in which a driver names a user.
func numbers(user string) (uid, gid uint32, err error) {
	if user == "" {
		return 0, 0, nil
	}
	first, second, _ := strings.Cut(user, ":")
	u, err := strconv.ParseUint(first, 10, 32)
	g, wrong := strconv.ParseUint(cmp.Or(second, first), 10, 32)
	if err = errors.Join(err, wrong); err != nil {
		return 0, 0, fmt.Errorf("user %q: %w", user, err)
	}
	return uint32(u), uint32(g), nil
}

func systemMounts(s *carapace.Spec) []specs.Mount {
	shm := cmp.Or(s.ShmBytes, s.Limits.MemoryBytes/2, defaultShm)
	mounts := []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "mode=755", "size=65536k"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts",
			Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"}},
		{Destination: "/dev/shm", Type: "tmpfs", Source: "shm",
			Options: []string{"nosuid", "noexec", "nodev", "mode=1777", fmt.Sprintf("size=%d", shm)}},
		{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
		{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup",
			Options: []string{"nosuid", "noexec", "nodev", "relatime", "ro"}},
	}
	return mounts
}

// resourcesOf returns the limits and the device filter. The filter denies all devices except the granted ones and the
// plain ones, which every runtime adds itself.
func resourcesOf(s *carapace.Spec, rules []specs.LinuxDeviceCgroup) *specs.LinuxResources {
	r := &specs.LinuxResources{Devices: append([]specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}, rules...)}
	limits := s.Limits
	if limits.MemoryBytes > 0 {
		r.Memory = &specs.LinuxMemory{Limit: &limits.MemoryBytes}
	}
	if limits.Pids > 0 {
		r.Pids = &specs.LinuxPids{Limit: limits.Pids}
	}
	if limits.MilliCPU > 0 {
		period, quota := uint64(cpuPeriodUs), limits.MilliCPU*cpuPeriodUs/1000
		r.CPU = &specs.LinuxCPU{Period: &period, Quota: &quota}
	}
	if limits.Cpuset != "" || limits.CpusetMems != "" {
		if r.CPU == nil {
			r.CPU = &specs.LinuxCPU{}
		}
		r.CPU.Cpus, r.CPU.Mems = limits.Cpuset, limits.CpusetMems
	}
	return r
}

// devicesOf returns the granted device nodes of the host.
func devicesOf(paths []string) (nodes []specs.LinuxDevice, rules []specs.LinuxDeviceCgroup, err error) {
	for _, path := range paths {
		var stat unix.Stat_t
		if err := unix.Stat(path, &stat); err != nil {
			return nil, nil, fmt.Errorf("device %s: %w", path, err)
		}
		kind := map[uint32]string{unix.S_IFCHR: "c", unix.S_IFBLK: "b"}[stat.Mode&unix.S_IFMT]
		if kind == "" {
			return nil, nil, fmt.Errorf("device %s is not a device node", path)
		}
		major, minor := int64(unix.Major(stat.Rdev)), int64(unix.Minor(stat.Rdev))
		mode := os.FileMode(0o666)
		nodes = append(nodes, specs.LinuxDevice{Path: path, Type: kind, Major: major, Minor: minor, FileMode: &mode})
		rules = append(rules, specs.LinuxDeviceCgroup{Allow: true, Type: kind, Major: &major, Minor: &minor, Access: "rwm"})
	}
	return nodes, rules, nil
}
