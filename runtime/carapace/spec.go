//go:build linux

// Package carapace makes containers. It is Synapse's own runtime, an alternative to runc and crun. Start makes one
// container from a Spec and watches it. Package fork makes the container's init. Package carapace knows no jobs, tasks
// or drivers. Package container writes the Spec of a task, and `carapace run` the Spec of a user. Package carapace does
// not talk to the scheduler, pull images or keep logs.
//
// This file owns Spec and its validation. Validation must not inspect the host. Start determines whether the host can
// enforce the Spec, and reports it.
package carapace

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/yi-json/synapse/runtime/egress"
	"github.com/yi-json/synapse/runtime/hostpath"
)

// Spec describes one container. `carapace run --spec` reads it as JSON.
type Spec struct {
	// ID names the container, its state directory and its cgroups. Empty: Start chooses one.
	ID string `json:"id,omitempty"`
	// Rootfs is a directory, or "host" for the host's own root, read-only.
	Rootfs string `json:"rootfs"`
	// Image replaces Rootfs with a directory that a user named. It is opened with the rights of that user.
	Image *hostpath.Ticket `json:"image,omitempty"`
	// Layer is a host directory that receives the task's writes to a shared rootfs.
	Layer string `json:"layer,omitempty"`
	// ReadOnly makes the rootfs read-only. The host view is always read-only.
	ReadOnly bool     `json:"readOnly,omitempty"`
	Command  []string `json:"command"`
	Env      []string `json:"env,omitempty"`
	Workdir  string   `json:"workdir,omitempty"`
	// Scratch is a host directory that belongs to the task's user. It is mounted at /scratch.
	Scratch string `json:"scratch,omitempty"`
	// User is a name or uid, optionally with a group: "alice", "1000", "1000:100". Empty: nobody on the host view,
	// otherwise root.
	User   string   `json:"user,omitempty"`
	Groups []uint32 `json:"groups,omitempty"`
	// UserName is a name for a User of the form uid:gid that is missing in the container's user lists.
	UserName string `json:"userName,omitempty"`
	// IDs is a separate range of user and group ids, in which the container may be root; nil: the container has the
	// host's ids.
	IDs      *IDs   `json:"ids,omitempty"`
	Hostname string `json:"hostname,omitempty"`
	// Net is "host" (the default), "none" for only a loopback interface, or the file of a network namespace.
	Net string `json:"net,omitempty"`
	// Names is the file for /etc/resolv.conf; empty: that of the rootfs.
	Names string `json:"names,omitempty"`
	// Hosts is the file for /etc/hosts, if the rootfs has a place for it; empty: that of the rootfs.
	Hosts string `json:"hosts,omitempty"`
	// Hostfile is the file for /job/hostfile; empty: that of the rootfs.
	Hostfile string `json:"hostfile,omitempty"`
	// Helper is the program for /scratch/.synapse/synapse-exec; empty: none. Scratch must already contain a file as
	// mount point.
	Helper string `json:"helper,omitempty"`
	// Secrets are files in /run/secrets: in memory, and readable only by the task's user.
	Secrets []Secret `json:"secrets,omitempty"`
	// Unreachable lists addresses that the task cannot connect to on a shared network.
	Unreachable []egress.Place `json:"unreachable,omitempty"`
	Mounts      []Mount        `json:"mounts,omitempty"`
	// Hide lists host paths that the task must not see, in addition to those that are always hidden.
	Hide []string `json:"hide,omitempty"`
	// Devices lists host device nodes. All other devices are denied.
	Devices []string `json:"devices,omitempty"`
	// ShmBytes is the size of /dev/shm. Zero: half of the memory limit, or 64 MiB without a limit.
	ShmBytes int64    `json:"shmBytes,omitempty"`
	Limits   Limits   `json:"limits,omitempty"`
	Rlimits  []Rlimit `json:"rlimits,omitempty"`
	CapAdd   []string `json:"capAdd,omitempty"`
	CapDrop  []string `json:"capDrop,omitempty"`
	// Seccomp is "default", "numa" or "off". With "numa", a task may also choose the NUMA nodes of its memory.
	Seccomp string `json:"seccomp,omitempty"`
	// NoInit makes the command the container's first process. It then ignores every signal for which it has no
	// handler.
	NoInit bool `json:"noInit,omitempty"`
}

// Mount shows a file or directory of the host in the container.
type Mount struct {
	Source string `json:"source"`
	// Named replaces Source with a path that a user named. It is opened with the rights of that user.
	Named    *hostpath.Ticket `json:"named,omitempty"`
	Target   string           `json:"target"`
	ReadOnly bool             `json:"readOnly,omitempty"`
}

// Secret is a file whose value only the task's user may read.
type Secret struct {
	Name  string `json:"name"`
	Value []byte `json:"value"`
}

// Limits holds the limits of a task. Zero means no limit.
type Limits struct {
	MemoryBytes int64 `json:"memoryBytes,omitempty"`
	MilliCPU    int64 `json:"milliCPU,omitempty"`
	Pids        int64 `json:"pids,omitempty"`
	// AllPids limits the processes and threads of all containers with the same parent group together.
	AllPids    int64  `json:"allPids,omitempty"`
	Cpuset     string `json:"cpuset,omitempty"`
	CpusetMems string `json:"cpusetMems,omitempty"`
	// Required refuses the start if a limit or another request cannot be enforced.
	Required bool `json:"required,omitempty"`
}

// Rlimit is one resource limit of the task's processes. -1 is unlimited.
type Rlimit struct {
	Name string `json:"name"`
	Soft int64  `json:"soft"`
	Hard int64  `json:"hard"`
}

const (
	hostRootfs = "host"
	netHost    = "host"
	// NetNone is a network with only a loopback interface.
	NetNone    = "none"
	seccompOff = "off"
	seccompOn  = "default"
	// SeccompNUMA permits a task to choose the NUMA nodes of its memory.
	SeccompNUMA = "numa"

	maxStrings     = 4096    // entries of command, environment, mounts and so on
	maxStringBytes = 1 << 17 // of one string; the kernel accepts no longer argument
	maxSpecBytes   = 4 << 20
	maxListBytes   = 16 << 10
	minMemoryBytes = 512 << 10 // below this, not even a shell can start, and the failure would look like the task's
	defaultShm     = 64 << 20
)

// Names are checked without regular expressions. These would be compiled at every start of a process, and each
// container has one.

const (
	letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits  = "0123456789"
)

// madeOf reports whether a text has 1 to limit permitted characters and begins with a letter or digit.
func madeOf(text string, limit int, others string) bool {
	return text != "" && len(text) <= limit && strings.Trim(text, letters+digits+others) == "" &&
		strings.ContainsRune(letters+digits, rune(text[0]))
}

func goodID(id string) bool { return madeOf(id, 128, "_.-") }

func goodHostname(name string) bool {
	return madeOf(name, 64, ".-") && strings.ContainsRune(letters+digits, rune(name[len(name)-1]))
}

// goodList reports whether a text is a list of numbers and ranges, like 0-3,8.
func goodList(text string) bool {
	if len(text) > maxListBytes {
		return false
	}
	for part := range strings.SplitSeq(text, ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		from, err := strconv.ParseUint(low, 10, 20)
		to, errTo := strconv.ParseUint(high, 10, 20)
		if err != nil || errTo != nil || from > to {
			return false
		}
	}
	return true
}

// joins reports whether the container joins an existing network.
func (s Spec) joins() bool { return path.IsAbs(s.Net) }

// SpecError reports an invalid field of a Spec and the fix.
type SpecError struct{ Field, Reason string }

func (e *SpecError) Error() string { return e.Field + ": " + e.Reason }

// Validate refuses a spec that no host could run. It has no side effects.
func (s Spec) Validate() error {
	for _, check := range []func() error{
		s.validateNames, s.validateStrings, s.validatePaths, s.validateLimits, s.validateRights,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (s Spec) validateNames() error {
	switch {
	case s.ID != "" && !goodID(s.ID):
		return &SpecError{
			"id", fmt.Sprintf("%.40q is not an id; use 1 to 128 of A-Z a-z 0-9 _ . - and begin with a letter or digit", s.ID),
		}
	case len(s.Command) == 0 || s.Command[0] == "":
		return &SpecError{"command", "is empty; name the program to run"}
	case s.Hostname != "" && !goodHostname(s.Hostname):
		return &SpecError{"hostname", fmt.Sprintf("%.80q is not a hostname; use 1 to 64 of A-Z a-z 0-9 . -", s.Hostname)}
	case !slices.Contains([]string{"", netHost, NetNone}, s.Net) && validatePath("net", s.Net) != nil:
		return &SpecError{"net", fmt.Sprintf("%.40q is not a network; use \"host\", \"none\" or the path of a namespace",
			s.Net)}
	case !slices.Contains([]string{"", seccompOn, SeccompNUMA, seccompOff}, s.Seccomp):
		return &SpecError{"seccomp", fmt.Sprintf("%.40q is unknown; use \"default\", \"numa\" or \"off\"", s.Seccomp)}
	}
	for i, secret := range s.Secrets {
		if name := strings.TrimLeft(secret.Name, "_"); secret.Name == "" || name != "" && !madeOf(name, 128, "_.-") {
			return &SpecError{fmt.Sprintf("secrets[%d]", i), fmt.Sprintf("%.40q is not a file name", secret.Name)}
		}
	}
	if s.User != "" {
		if err := validateUser(s.User); err != nil {
			return err
		}
	}
	if err := s.IDs.validate(); err != nil {
		return err
	}
	return validateUserName(s.UserName, s.User)
}

// validateStrings refuses strings that the kernel would truncate at a NUL, or that are too long.
func (s Spec) validateStrings() error {
	for _, list := range []struct {
		field   string
		entries []string
	}{{"command", s.Command}, {"env", s.Env}, {"hide", s.Hide}, {"devices", s.Devices}, {"capAdd", s.CapAdd},
		{"capDrop", s.CapDrop}} {
		if len(list.entries) > maxStrings {
			return &SpecError{list.field, fmt.Sprintf("has %d entries; the limit is %d", len(list.entries), maxStrings)}
		}
		for i, entry := range list.entries {
			field := fmt.Sprintf("%s[%d]", list.field, i)
			if strings.ContainsRune(entry, 0) {
				return &SpecError{field, "has a NUL character, which ends a string in the kernel"}
			}
			if len(entry) > maxStringBytes {
				return &SpecError{field, fmt.Sprintf("has %d bytes; the limit is %d", len(entry), maxStringBytes)}
			}
		}
	}
	for i, entry := range s.Env {
		if name, _, found := strings.Cut(entry, "="); !found || name == "" {
			return &SpecError{fmt.Sprintf("env[%d]", i), fmt.Sprintf("%.40q is not of the form NAME=value", entry)}
		}
	}
	return nil
}

func (s Spec) validatePaths() error {
	if s.Rootfs != hostRootfs && s.Image == nil {
		if err := validatePath("rootfs", s.Rootfs); err != nil {
			return &SpecError{"rootfs", fmt.Sprintf("%.80q is invalid; use \"host\" or an absolute path", s.Rootfs)}
		}
	}
	if s.Layer != "" && s.Rootfs == hostRootfs {
		return &SpecError{"layer", "the host view is read-only; use a mount for the task's writes"}
	}
	if s.IDs != nil && s.Rootfs != hostRootfs && s.Layer == "" && !s.ReadOnly {
		return &SpecError{"layer", "is required, because the container's root would write to the host's directory"}
	}
	paths := map[string]string{
		"workdir": s.Workdir, "scratch": s.Scratch, "layer": s.Layer, "names": s.Names, "hosts": s.Hosts,
		"hostfile": s.Hostfile, "helper": s.Helper,
	}
	for _, field := range []string{"workdir", "scratch", "layer", "names", "hosts", "hostfile", "helper"} {
		if paths[field] == "" {
			continue
		}
		if err := validatePath(field, paths[field]); err != nil {
			return err
		}
	}
	if len(s.Mounts) > maxStrings {
		return &SpecError{"mounts", fmt.Sprintf("has %d entries; the limit is %d", len(s.Mounts), maxStrings)}
	}
	for i, mount := range s.Mounts {
		err := validatePath(fmt.Sprintf("mounts[%d].target", i), mount.Target)
		if mount.Named == nil {
			err = cmp.Or(validatePath(fmt.Sprintf("mounts[%d].source", i), mount.Source), err)
		}
		if err != nil {
			return err
		}
		if path.Clean(mount.Target) == "/" {
			return &SpecError{fmt.Sprintf("mounts[%d].target", i), "is the root; use rootfs for it"}
		}
	}
	for i, hidden := range s.Hide {
		if err := validatePath(fmt.Sprintf("hide[%d]", i), hidden); err != nil {
			return err
		}
	}
	for i, device := range s.Devices {
		if clean := path.Clean(device); !strings.HasPrefix(clean, "/dev/") {
			return &SpecError{fmt.Sprintf("devices[%d]", i), fmt.Sprintf("%.80q is not a path below /dev", device)}
		}
	}
	return nil
}

func validatePath(field, value string) error {
	if !path.IsAbs(value) || strings.ContainsRune(value, 0) || len(value) >= 4096 {
		return &SpecError{field, fmt.Sprintf("%.80q is not an absolute path", value)}
	}
	return nil
}

func (s Spec) validateLimits() error {
	limits := s.Limits
	switch {
	case limits.MemoryBytes < 0 || limits.MemoryBytes > 0 && limits.MemoryBytes < minMemoryBytes:
		return &SpecError{
			"limits.memoryBytes",
			fmt.Sprintf("%d is invalid; use 0 (no limit) or at least %d", limits.MemoryBytes, minMemoryBytes),
		}
	case limits.MilliCPU < 0 || limits.MilliCPU > 0 && limits.MilliCPU < 10 || limits.MilliCPU > 1e9:
		return &SpecError{
			"limits.milliCPU", fmt.Sprintf("%d is invalid; use 0 (no limit) or 10 to 1000000000", limits.MilliCPU),
		}
	case limits.Pids < 0 || limits.Pids > 4<<20:
		return &SpecError{"limits.pids", fmt.Sprintf("%d is invalid; use 0 (no limit) to %d", limits.Pids, 4<<20)}
	case limits.AllPids < 0 || limits.AllPids > 4<<20:
		return &SpecError{"limits.allPids", fmt.Sprintf("%d is invalid; use 0 (no limit) to %d", limits.AllPids, 4<<20)}
	case limits.Cpuset != "" && !goodList(limits.Cpuset):
		return &SpecError{"limits.cpuset", fmt.Sprintf("%.80q is not a list; use a form like 0-3,8", limits.Cpuset)}
	case limits.CpusetMems != "" && !goodList(limits.CpusetMems):
		return &SpecError{"limits.cpusetMems", fmt.Sprintf("%.80q is not a list; use a form like 0-1", limits.CpusetMems)}
	case s.ShmBytes < 0:
		return &SpecError{"shmBytes", "is negative; use 0 or more"}
	}
	for i, limit := range s.Rlimits {
		field := fmt.Sprintf("rlimits[%d]", i)
		if _, known := rlimitNumbers[limit.Name]; !known {
			return &SpecError{
				field, fmt.Sprintf("%.40q is unknown; use one of %s", limit.Name, strings.Join(rlimitNames(), ", ")),
			}
		}
		if limit.Soft < -1 || limit.Hard < -1 || limit.Hard != -1 && (limit.Soft > limit.Hard || limit.Soft == -1) {
			return &SpecError{
				field, fmt.Sprintf("%d:%d is invalid; use soft:hard with soft at most hard, and -1 for unlimited",
					limit.Soft, limit.Hard),
			}
		}
	}
	return nil
}

func (s Spec) validateRights() error {
	for _, list := range []struct {
		field string
		names []string
	}{{"capAdd", s.CapAdd}, {"capDrop", s.CapDrop}} {
		for i, name := range list.names {
			if _, known := capabilityNumber(name); !known && !strings.EqualFold(name, allCapabilities) {
				return &SpecError{
					fmt.Sprintf("%s[%d]", list.field, i),
					fmt.Sprintf("%.40q is not a capability; use a name like NET_RAW, or ALL", name),
				}
			}
		}
	}
	return nil
}

// filled returns the spec with all defaults filled in, so the maker and the record show the effective values.
func (s Spec) filled() Spec {
	s.Net = cmp.Or(s.Net, netHost)
	s.Seccomp = cmp.Or(s.Seccomp, seccompOn)
	if s.User == "" && s.Rootfs == hostRootfs {
		s.User = "65534:65534"
	}
	s.User = cmp.Or(s.User, "0:0")
	s.ShmBytes = cmp.Or(s.ShmBytes, s.Limits.MemoryBytes/2, defaultShm)
	if s.Workdir == "" && s.Scratch != "" {
		s.Workdir = scratchTarget
	}
	s.Workdir = cmp.Or(s.Workdir, "/")
	return s
}
