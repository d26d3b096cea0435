// Package process is the driver without containers. A task is a plain session of host processes. It runs as the job's
// user if the agent is root, and is confined by Landlock if the kernel supports it. The driver needs no privileges. It
// never claims to enforce a limit that it cannot enforce.
package process

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/account"
	"github.com/yi-json/synapse/runtime/environment"
	"github.com/yi-json/synapse/runtime/fault"
	"github.com/yi-json/synapse/runtime/gpu"
	"github.com/yi-json/synapse/runtime/hostpath"
	"github.com/yi-json/synapse/runtime/hostpolicy"
	"github.com/yi-json/synapse/runtime/launcher"
	"github.com/yi-json/synapse/runtime/supervisor"
)

// Name is the name of the driver.
const Name = "process"

// HostImage names the only supported image: the host's own root.
const HostImage = "host"

// Driver runs tasks as processes of the host.
type Driver struct {
	o       Options
	cgroups string // the parent folder of leaves; empty: none

	landlock int   // the kernel's version of Landlock …
	missing  error // … or the reason why there is none
}

// Options holds the settings of the driver.
type Options struct {
	// Users decides the user of each task. Policy decides the resources that jobs may name.
	Users  account.Rules
	Policy hostpolicy.Policy
	// Env is added to the environment of every task, for example PATH.
	Env []string
	// Cgroups is a directory of the unified hierarchy in which each task gets a leaf; "auto": below the agent's own
	// cgroup, if writable; empty: none. A leaf provides no isolation. It is used to find and kill all processes of
	// a task.
	Cgroups string
	// MaxProcesses limits the user's processes as the kernel counts them; 0: the agent's own limit.
	MaxProcesses uint64
	// Hide lists host directories that no task may reach: the agent's own.
	Hide []string
	// Gpus lists the nodes of each of the node's GPUs; nil: all GPUs are only declared.
	Gpus *gpu.Hardware
	// Landlock returns the kernel's version of Landlock; nil: the driver asks the kernel.
	Landlock func() (int, error)
}

// New returns a driver for the options.
func New(o Options) *Driver {
	o.Users.Roots = nil // a plain process has no container in which it could be root
	d := &Driver{o: o, cgroups: o.Cgroups}
	if o.Cgroups == "auto" {
		d.cgroups = ownCgroups()
	}
	if d.cgroups != "" && os.MkdirAll(d.cgroups, 0o755) != nil {
		d.cgroups = ""
	}
	if o.Landlock == nil {
		o.Landlock = supervisor.Landlock
	}
	d.landlock, d.missing = o.Landlock()
	return d
}

// Name returns "process".
func (d *Driver) Name() string { return Name }

// Scratch returns the directory itself, because nothing is mounted.
func (d *Driver) Scratch(t *launcher.Task) string { return t.Scratch }

// Helps reports that the driver's tasks can use the helper program.
func (d *Driver) Helps() bool { return true }

// Prepare refuses requests that need a container, and gives the scratch directory to the user.
func (d *Driver) Prepare(_ context.Context, t *launcher.Task) error {
	if err := d.o.Policy.MayProcess(); err != nil {
		return err
	}
	if err := check(t.Spec); err != nil {
		return err
	}
	if err := d.o.Policy.MayHostView(); err != nil {
		return err
	}
	if _, err := d.nodes(t); err != nil {
		return fault.OfMachine(err)
	}
	user, err := d.user(t)
	if err != nil {
		return err
	}
	t.BeginWhereSubmitted(hostpath.Visitor{As: user.Guest(), Rules: d.o.Policy.MountRules(d.o.Hide)})
	if _, err := d.named(t.Spec, user); err != nil {
		return err
	}
	t.NoteHome(user.Guest(), user.Name, user.Home, false)
	if user.Self {
		return nil
	}
	if err := reachable(t.Scratch, user); t.Spec.GetWorkdir() == "" && err != nil {
		return err
	}
	if err := user.Own(t.Scratch); err != nil {
		return fault.OfMachine(fmt.Errorf("scratch directory: %w", err))
	}
	return nil
}

func (d *Driver) user(t *launcher.Task) (*account.Account, error) {
	name, err := d.o.Policy.Users.User(t.Owner, t.OwnerProven, t.Spec.GetUser())
	if err != nil {
		return nil, err
	}
	return d.o.Users.Of(name, t.UID)
}

// reachable refuses a data directory that the task's user cannot pass through. Otherwise the command would later fail
// with a mere access error.
func reachable(scratch string, user *account.Account) error {
	dir, err := user.Barred(scratch)
	if err != nil {
		return fault.OfMachine(fmt.Errorf("scratch directory: %w", err))
	}
	if dir != "" {
		return fmt.Errorf("scratch directory: the user %s cannot pass through %s; move the agent's data directory, run "+
			"chmod o+x on its parent directories, or set a workdir in the job", user.Name, dir)
	}
	return nil
}

func check(s *messages.JobSpec) error {
	switch {
	case s.GetImage() != HostImage:
		return fmt.Errorf("image: %q needs a container, but this node runs plain processes; use `image: host`, or run "+
			"the agent as root with another driver", s.GetImage())
	case len(messages.NetworkLabels(s.GetNetwork())) > 0:
		return fmt.Errorf("network: %s needs a container, but this node runs plain processes; use `network: host`, "+
			"or run the agent as root with another driver", s.GetNetwork().Word())
	case s.GetLimitsRequired():
		return fmt.Errorf("limits: are required, but plain processes cannot be limited; omit `limits: required`, " +
			"or run the agent as root with another driver")
	case len(s.GetCommand()) == 0:
		return fault.OfJob(errors.New("command: is empty, and the host has no entrypoint; add a command to the job"))
	}
	for i, m := range s.GetMounts() {
		if m.GetSource() != m.GetTarget() || m.GetReadOnly() {
			return fmt.Errorf("mounts[%d]: %s at %s needs a container, because plain processes see the host's own files; omit "+
				"the mount, or use the same path for both without readOnly", i, m.GetSource(), m.GetTarget())
		}
	}
	return nil
}

// SecretWays reports how this driver passes secrets to tasks. Files are impossible, because a plain process has no
// private in-memory folder.
func (d *Driver) SecretWays() (files, env bool) { return false, true }

// Command returns the job's own command, as the job's user.
func (d *Driver) Command(t *launcher.Task, _ *messages.StartTask, env []string) (*supervisor.Spec, error) {
	user, err := d.user(t)
	if err != nil {
		return nil, err
	}
	home := user.Home
	if user.OfJob {
		home = t.Scratch
	}
	base := []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + home, "USER=" + user.Name, "LOGNAME=" + user.Name, "SHELL=/bin/sh",
	}
	if slices.Contains(d.Barred(), "/tmp") {
		base = append(base, "TMPDIR="+t.Scratch)
	}
	command := t.Spec.GetCommand()
	spec := &supervisor.Spec{
		Path: command[0], Args: command, Env: environment.Merge(base, d.o.Env, env),
		Dir: t.Spec.GetWorkdir(), User: user.Credential(), Limits: d.limits(),
	}
	if spec.Dir == "" {
		spec.Dir = t.Scratch
	}
	if t.Helper != "" {
		if err := t.HelperLink(); err != nil {
			return nil, fault.OfMachine(err)
		}
	}
	if spec.Confine, err = d.confinement(t, user); err != nil {
		return nil, err
	}
	spec.Cgroup, err = d.makeCgroup(t)
	return spec, fault.OfMachine(err)
}

// limits returns limits that let a task lock as much memory and open as many files as the host allows. Network cards
// lock the buffers of gangs in memory.
func (d *Driver) limits() []supervisor.Limit {
	var limits []supervisor.Limit
	for _, resource := range []int{unix.RLIMIT_MEMLOCK, unix.RLIMIT_NOFILE} {
		var now unix.Rlimit
		if unix.Getrlimit(resource, &now) != nil {
			continue
		}
		if resource == unix.RLIMIT_MEMLOCK && os.Geteuid() == 0 {
			now.Max = unix.RLIM_INFINITY
		}
		limits = append(limits, supervisor.Limit{Resource: resource, Soft: now.Max, Hard: now.Max})
	}
	if n := d.o.MaxProcesses; n > 0 {
		limits = append(limits, supervisor.Limit{Resource: unix.RLIMIT_NPROC, Soft: n, Hard: n})
	}
	return limits
}

// Cleanup removes the task's leaf, if it exists. The launcher removes the scratch directory.
func (d *Driver) Cleanup(t *launcher.Task) error {
	leaf := d.leaf(t)
	if leaf == "" {
		return nil
	}
	if err := os.Remove(leaf); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("remove the cgroup of task %v: %w", t.Key, err)
	}
	return nil
}

func (d *Driver) leaf(t *launcher.Task) string {
	if d.cgroups == "" {
		return ""
	}
	// The agents of two clusters may share the host and a task's name.
	home := crc32.ChecksumIEEE([]byte(t.Dir))
	return filepath.Join(d.cgroups, fmt.Sprintf("%v-%08x", t.Key, home))
}
