//go:build linux

// Package carapace makes containers: it is Synapse's own runtime, beside others as runc and crun. Start makes one
// container from a Spec and watches it; package fork makes the container's init. It knows no job, no task and no
// driver: package container writes the Spec for a task, `carapace run` the one that a person asks for. Nothing here
// speaks to the scheduler, pulls an image or keeps a log.
//
// This file owns Spec, what a caller may ask of one container, and its validation. It must never look at the machine:
// whether something can be enforced is found out by Start, and told.
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

// Spec is one container. Its JSON is what `carapace run --spec` reads.
type Spec struct {
	// ID names the container, its state directory and its cgroups. Empty: one is drawn.
	ID string `json:"id,omitempty"`
	// Rootfs is a directory, or "host": the machine's own root, read-only.
	Rootfs string `json:"rootfs"`
	// Image is a directory in the place of Rootfs, as somebody named it whose rights it is opened with.
	Image *hostpath.Ticket `json:"image,omitempty"`
	// Layer is a directory on the machine that takes what the task writes to its rootfs, for one that many share.
	Layer string `json:"layer,omitempty"`
	// ReadOnly keeps a rootfs from being written to. The host view always is.
	ReadOnly bool     `json:"readOnly,omitempty"`
	Command  []string `json:"command"`
	Env      []string `json:"env,omitempty"`
	Workdir  string   `json:"workdir,omitempty"`
	// Scratch is a directory on the machine that belongs to the task's user; it is mounted at /scratch.
	Scratch string `json:"scratch,omitempty"`
	// User is a name or uid, with a group if need be: "alice", "1000", "1000:100". Empty: nobody on the host view,
	// else root.
	User   string   `json:"user,omitempty"`
	Groups []uint32 `json:"groups,omitempty"`
	// UserName is what the container's lists of users and groups call a User that is uid:gid and that they lack.
	UserName string `json:"userName,omitempty"`
	// IDs are numbers of users and groups that belong to the container alone, in which it may be root; nil: it has
	// those of the machine.
	IDs      *IDs   `json:"ids,omitempty"`
	Hostname string `json:"hostname,omitempty"`
	// Net is "host", which is the default; "none": a loopback of its own; or the file of a network namespace.
	Net string `json:"net,omitempty"`
	// Names is the file that the task has as /etc/resolv.conf; empty: the rootfs's own.
	Names string `json:"names,omitempty"`
	// Hosts is the file that the task has as /etc/hosts, if its root has a place for it; empty: the rootfs's own.
	Hosts string `json:"hosts,omitempty"`
	// Hostfile is the file that the task has as /job/hostfile; empty: the rootfs's own.
	Hostfile string `json:"hostfile,omitempty"`
	// Helper is the program that the task has as /scratch/.synapse/synapse-exec, where Scratch has a file for it
	// already; empty: it has none.
	Helper string `json:"helper,omitempty"`
	// Secrets are files that the task has in /run/secrets: in memory, and readable by its user alone.
	Secrets []Secret `json:"secrets,omitempty"`
	// Unreachable are places that the task cannot speak to on a network that it shares.
	Unreachable []egress.Place `json:"unreachable,omitempty"`
	Mounts      []Mount        `json:"mounts,omitempty"`
	// Hide are paths of the machine that the task must not see, beside those that are always hidden.
	Hide []string `json:"hide,omitempty"`
	// Devices are device nodes of the machine. Every other one is denied.
	Devices []string `json:"devices,omitempty"`
	// ShmBytes is the size of /dev/shm. Zero: half of the memory limit, or 64 MiB without one.
	ShmBytes int64    `json:"shmBytes,omitempty"`
	Limits   Limits   `json:"limits,omitempty"`
	Rlimits  []Rlimit `json:"rlimits,omitempty"`
	CapAdd   []string `json:"capAdd,omitempty"`
	CapDrop  []string `json:"capDrop,omitempty"`
	// Seccomp is "default", "numa" (where a task may also say from which of the machine's nodes its memory is
	// taken), or "off".
	Seccomp string `json:"seccomp,omitempty"`
	// NoInit makes the command itself the container's first process. It then ignores every signal it has no handler
	// for.
	NoInit bool `json:"noInit,omitempty"`
}

// Mount shows a file or directory of the machine in the container.
type Mount struct {
	Source string `json:"source"`
	// Named is what to show in the place of Source, as somebody named it whose rights it is opened with.
	Named    *hostpath.Ticket `json:"named,omitempty"`
	Target   string           `json:"target"`
	ReadOnly bool             `json:"readOnly,omitempty"`
}

// Secret is a file with a value that nobody else may read.
type Secret struct {
	Name  string `json:"name"`
	Value []byte `json:"value"`
}

// Limits holds the limits of a task. Zero means no limit.
type Limits struct {
	MemoryBytes int64 `json:"memoryBytes,omitempty"`
	MilliCPU    int64 `json:"milliCPU,omitempty"`
	Pids        int64 `json:"pids,omitempty"`
	// AllPids bounds the processes and threads of all containers with the same parent group together.
	AllPids    int64  `json:"allPids,omitempty"`
	Cpuset     string `json:"cpuset,omitempty"`
	CpusetMems string `json:"cpusetMems,omitempty"`
	// Required refuses to start where a limit, or anything else that was asked for, cannot be enforced.
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
	// NetNone is a network of which there is nothing but a loopback.
	NetNone    = "none"
	seccompOff = "off"
	seccompOn  = "default"
	// SeccompNUMA lets a task say from which of the machine's nodes its memory is taken.
	SeccompNUMA = "numa"

	maxStrings     = 4096    // entries of command, environment, mounts and the like
	maxStringBytes = 1 << 17 // of one string; the kernel takes no longer argument
	maxSpecBytes   = 4 << 20
	maxListBytes   = 16 << 10
	minMemoryBytes = 512 << 10 // below, not even a shell can start, and the failure would look like one of the task
	defaultShm     = 64 << 20
)

// The checks of names are written out: regular expressions are compiled at every start of the process, and every
// container has one.

const (
	letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits  = "0123456789"
)

// madeOf reports whether a text has 1 to limit characters, all of them allowed, and begins with a letter or digit.
func madeOf(text string, limit int, others string) bool {
	return text != "" && len(text) <= limit && strings.Trim(text, letters+digits+others) == "" &&
		strings.ContainsRune(letters+digits, rune(text[0]))
}

func goodID(id string) bool { return madeOf(id, 128, "_.-") }

func goodHostname(name string) bool {
	return madeOf(name, 64, ".-") && strings.ContainsRune(letters+digits, rune(name[len(name)-1]))
}

// goodList reports whether a text is numbers and ranges of them, like 0-3,8.
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

// joins reports whether the container goes into a network that is there already.
func (s Spec) joins() bool { return path.IsAbs(s.Net) }

// SpecError is a field of a Spec that cannot be, and what would do.
type SpecError struct{ Field, Reason string }

func (e *SpecError) Error() string { return e.Field + ": " + e.Reason }

// Validate refuses what no machine could run. It touches nothing.
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
			"id", fmt.Sprintf("%.40q is not 1 to 128 of A-Z a-z 0-9 _ . - beginning with a letter or digit", s.ID),
		}
	case len(s.Command) == 0 || s.Command[0] == "":
		return &SpecError{"command", "is empty; name the program to run"}
	case s.Hostname != "" && !goodHostname(s.Hostname):
		return &SpecError{"hostname", fmt.Sprintf("%.80q is not 1 to 64 of A-Z a-z 0-9 . -", s.Hostname)}
	case !slices.Contains([]string{"", netHost, NetNone}, s.Net) && validatePath("net", s.Net) != nil:
		return &SpecError{"net", fmt.Sprintf("%.40q is neither \"host\" nor \"none\", nor the path of a namespace",
			s.Net)}
	case !slices.Contains([]string{"", seccompOn, SeccompNUMA, seccompOff}, s.Seccomp):
		return &SpecError{"seccomp", fmt.Sprintf("%.40q is none of \"default\", \"numa\" and \"off\"", s.Seccomp)}
	}
	for i, secret := range s.Secrets {
		if name := strings.TrimLeft(secret.Name, "_"); secret.Name == "" || name != "" && !madeOf(name, 128, "_.-") {
			return &SpecError{fmt.Sprintf("secrets[%d]", i), fmt.Sprintf("%.40q is not the name of a file", secret.Name)}
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

// validateStrings refuses what the kernel would cut off or misread: a NUL ends a string there.
func (s Spec) validateStrings() error {
	for _, list := range []struct {
		field   string
		entries []string
	}{{"command", s.Command}, {"env", s.Env}, {"hide", s.Hide}, {"devices", s.Devices}, {"capAdd", s.CapAdd},
		{"capDrop", s.CapDrop}} {
		if len(list.entries) > maxStrings {
			return &SpecError{list.field, fmt.Sprintf("has %d entries, at most %d", len(list.entries), maxStrings)}
		}
		for i, entry := range list.entries {
			field := fmt.Sprintf("%s[%d]", list.field, i)
			if strings.ContainsRune(entry, 0) {
				return &SpecError{field, "has a NUL character, which ends a string in the kernel"}
			}
			if len(entry) > maxStringBytes {
				return &SpecError{field, fmt.Sprintf("has %d bytes, at most %d", len(entry), maxStringBytes)}
			}
		}
	}
	for i, entry := range s.Env {
		if name, _, found := strings.Cut(entry, "="); !found || name == "" {
			return &SpecError{fmt.Sprintf("env[%d]", i), fmt.Sprintf("%.40q is not NAME=value", entry)}
		}
	}
	return nil
}

func (s Spec) validatePaths() error {
	if s.Rootfs != hostRootfs && s.Image == nil {
		if err := validatePath("rootfs", s.Rootfs); err != nil {
			return &SpecError{"rootfs", fmt.Sprintf("%.80q is neither \"host\" nor an absolute path", s.Rootfs)}
		}
	}
	if s.Layer != "" && s.Rootfs == hostRootfs {
		return &SpecError{"layer", "the host view is read-only; name a mount for what the task writes"}
	}
	if s.IDs != nil && s.Rootfs != hostRootfs && s.Layer == "" && !s.ReadOnly {
		return &SpecError{"layer", "is missing; root of the container would write to the machine's own directory"}
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
		return &SpecError{"mounts", fmt.Sprintf("has %d entries, at most %d", len(s.Mounts), maxStrings)}
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
			return &SpecError{fmt.Sprintf("mounts[%d].target", i), "is the root; name it as rootfs instead"}
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
			"limits.memoryBytes", fmt.Sprintf("%d is neither 0 (no limit) nor at least %d", limits.MemoryBytes, minMemoryBytes),
		}
	case limits.MilliCPU < 0 || limits.MilliCPU > 0 && limits.MilliCPU < 10 || limits.MilliCPU > 1e9:
		return &SpecError{
			"limits.milliCPU", fmt.Sprintf("%d is neither 0 (no limit) nor from 10 to 1000000000", limits.MilliCPU),
		}
	case limits.Pids < 0 || limits.Pids > 4<<20:
		return &SpecError{"limits.pids", fmt.Sprintf("%d is not from 0 (no limit) to %d", limits.Pids, 4<<20)}
	case limits.AllPids < 0 || limits.AllPids > 4<<20:
		return &SpecError{"limits.allPids", fmt.Sprintf("%d is not from 0 (no limit) to %d", limits.AllPids, 4<<20)}
	case limits.Cpuset != "" && !goodList(limits.Cpuset):
		return &SpecError{"limits.cpuset", fmt.Sprintf("%.80q is not a list like 0-3,8", limits.Cpuset)}
	case limits.CpusetMems != "" && !goodList(limits.CpusetMems):
		return &SpecError{"limits.cpusetMems", fmt.Sprintf("%.80q is not a list like 0-1", limits.CpusetMems)}
	case s.ShmBytes < 0:
		return &SpecError{"shmBytes", "is negative"}
	}
	for i, limit := range s.Rlimits {
		field := fmt.Sprintf("rlimits[%d]", i)
		if _, known := rlimitNumbers[limit.Name]; !known {
			return &SpecError{field, fmt.Sprintf("%.40q is none of %s", limit.Name, strings.Join(rlimitNames(), ", "))}
		}
		if limit.Soft < -1 || limit.Hard < -1 || limit.Hard != -1 && (limit.Soft > limit.Hard || limit.Soft == -1) {
			return &SpecError{
				field, fmt.Sprintf("%d:%d is not soft:hard with soft at most hard; -1 is unlimited", limit.Soft, limit.Hard),
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
					fmt.Sprintf("%s[%d]", list.field, i), fmt.Sprintf("%.40q is not a capability; try one like NET_RAW, or ALL", name),
				}
			}
		}
	}
	return nil
}

// filled answers the spec with its defaults written out, so that its maker and the record show what really holds.
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
