//go:build linux

package main

// This file defines the flags of run, and parses their values: sizes, CPUs, mounts, resource limits.

import (
	"flag"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/yi-json/synapse/runtime/carapace"
)

// register declares the flags of run, and returns a pointer to the name of the spec file.
func (r *request) register(flags *flag.FlagSet) *string {
	r.stateFlags.register(flags)
	spec := &r.spec
	list := func(name, help string, add func(string) error) { flags.Func(name, help, add) }
	text := func(to *string, name, help string) { flags.StringVar(to, name, "", help) }
	keep := func(to *[]string) func(string) error {
		return func(value string) error { *to = append(*to, value); return nil }
	}
	file := flags.String("spec", "", "container specification as a JSON `file`")
	flags.IntVar(&r.statusFd, "status-fd", -1, "file `descriptor` that receives events, one JSON object per line")
	flags.DurationVar(&r.timeout, "timeout", 0, "end the container after this `time`, such as 90s (default: no limit)")
	flags.DurationVar(&r.grace, "grace", 10*time.Second, "`time` between TERM and KILL after --timeout")
	text(&spec.Rootfs, "rootfs", "root `directory`, or host for the host's own root, read-only (default ./rootfs)")
	text(&spec.ID, "id", "`name` of the container (default: random)")
	text(&spec.Layer, "layer", "`directory` for writes to the rootfs")
	text(&spec.Scratch, "scratch", "`directory` to mount at /scratch and use as the working directory")
	text(&spec.Workdir, "workdir", "working `directory`")
	text(&spec.User, "user", "user to run as: `name|uid[:group]` (default: nobody if --rootfs is host, else root)")
	text(&spec.Hostname, "hostname", "host `name`")
	text(&spec.Net, "net", "network: `host` or none")
	text(&spec.Seccomp, "seccomp", "seccomp profile: `default` or off")
	flags.BoolVar(&spec.ReadOnly, "read-only", false, "mount the rootfs read-only")
	flags.BoolVar(&spec.Limits.Required, "limits-required", false, "refuse to start if a limit cannot be enforced")
	init := true
	flags.BoolFunc("init", "run an init process that forwards signals and reaps orphans (default true)",
		func(value string) error {
			var err error
			init, err = strconv.ParseBool(value)
			spec.NoInit = !init
			return err
		})
	list("memory", "memory limit in `bytes`, such as 512m or 2g (powers of 1024)", func(value string) (err error) {
		spec.Limits.MemoryBytes, err = bytesOf(value)
		return err
	})
	list("shm", "size of /dev/shm in `bytes`, such as 64m", func(value string) (err error) {
		spec.ShmBytes, err = bytesOf(value)
		return err
	})
	list("cpus", "`number` of CPUs, such as 1.5", func(value string) (err error) {
		spec.Limits.MilliCPU, err = milliOf(value)
		return err
	})
	flags.Int64Var(&spec.Limits.Pids, "pids", 0, "maximum number of processes and threads (default: no limit)")
	text(&spec.Limits.Cpuset, "cpuset", "`list` of processors, such as 0-3,8")
	text(&spec.Limits.CpusetMems, "cpuset-mems", "`list` of NUMA memory nodes")
	list("device", "device `node` to grant; may be repeated", keep(&spec.Devices))
	list("hide", "`path` to hide when --rootfs is host; may be repeated", keep(&spec.Hide))
	list("cap-add", "`capability` to add, or ALL; may be repeated", keep(&spec.CapAdd))
	list("cap-drop", "`capability` to drop, or ALL; may be repeated", keep(&spec.CapDrop))
	list("mount", "bind mount `source:target[:ro]`; may be repeated", func(value string) error {
		mount, err := mountOf(value)
		spec.Mounts = append(spec.Mounts, mount)
		return err
	})
	list("env", "variable `NAME[=value]` (default: carapace's own value); may be repeated", func(value string) error {
		entry, err := environmentEntry(value)
		spec.Env = append(spec.Env, entry)
		return err
	})
	list("rlimit", "limit `name=soft[:hard]`, such as nofile=1024:4096 or memlock=unlimited; may be repeated",
		func(value string) error {
			limit, err := rlimitOf(value)
			spec.Rlimits = append(spec.Rlimits, limit)
			return err
		})
	return file
}

// bytesOf parses 512m, 2g, 2GiB, 1048576.
func bytesOf(text string) (int64, error) {
	number := strings.TrimRight(text, "kKmMgGtTiBb")
	unit := strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(text[len(number):]), "ib"), "b")
	factor, known := map[string]int64{"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}[unit]
	value, err := strconv.ParseInt(number, 10, 64)
	if err != nil || !known || value < 0 || value > math.MaxInt64/factor {
		return 0, fmt.Errorf("%.40q is not a number of bytes; write one like 512m or 2g", text)
	}
	return value * factor, nil
}

// milliOf parses CPUs: 2, 0.5, 1.25.
func milliOf(text string) (int64, error) {
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || !(value >= 0.01) || value > 1e6 {
		return 0, fmt.Errorf("%.40q is not a number of CPUs from 0.01 to 1000000", text)
	}
	return int64(math.Round(value * 1000)), nil
}

func mountOf(text string) (carapace.Mount, error) {
	parts := strings.Split(text, ":")
	if len(parts) == 3 && (parts[2] == "ro" || parts[2] == "rw") {
		return carapace.Mount{Source: parts[0], Target: parts[1], ReadOnly: parts[2] == "ro"}, nil
	}
	if len(parts) != 2 {
		return carapace.Mount{}, fmt.Errorf("%.80q is not source:target or source:target:ro", text)
	}
	return carapace.Mount{Source: parts[0], Target: parts[1]}, nil
}

func rlimitOf(text string) (carapace.Rlimit, error) {
	name, value, found := strings.Cut(text, "=")
	soft, hard, both := strings.Cut(value, ":")
	if !both {
		hard = soft
	}
	limit := carapace.Rlimit{Name: name}
	for _, side := range []struct {
		text string
		to   *int64
	}{{soft, &limit.Soft}, {hard, &limit.Hard}} {
		number, err := strconv.ParseInt(side.text, 10, 64)
		if side.text == "unlimited" {
			number, err = -1, nil
		}
		if err != nil || !found {
			return limit, fmt.Errorf("%.40q is not name=soft or name=soft:hard", text)
		}
		*side.to = number
	}
	return limit, nil
}
