// Package process is the driver without containers: a task is a plain session of processes on the host, as the
// job's user where the agent is root, confined by Landlock where the kernel has it. It needs no privilege at all.
// It never claims to keep a limit that it cannot keep.
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

// Name is the driver's name.
const Name = "process"

// HostImage is the only image: the machine's own root.
const HostImage = "host"

// Driver runs tasks as processes of the host.
type Driver struct {
	o       Options
	cgroups string // where leaves are made; empty: nowhere

	landlock int   // the kernel's version of it …
	missing  error // … or why there is none
}

// Options holds the settings of the driver.
type Options struct {
	// Users decides as which users tasks run, and Policy what jobs may name.
	Users  account.Rules
	Policy hostpolicy.Policy
	// Env is what every task has in its environment beside its own, PATH for example.
	Env []string
	// Cgroups is a directory of the unified hierarchy under which each task gets
	// a leaf; "auto": below the agent's own, where that can be written; empty: none.
	// A leaf is no isolation: through it all processes of a task are found and killed.
	Cgroups string
	// MaxProcesses bounds the user's processes as the kernel counts them; 0: the agent's own limit.
	MaxProcesses uint64
	// Hide are directories of the machine that no task may reach: the agent's own.
	Hide []string
	// Gpus says which nodes belong to which of the machine's GPUs; nil: all are only declared.
	Gpus *gpu.Hardware
	// Landlock returns the kernel's version of it; nil: asks the kernel.
	Landlock func() (int, error)
}

// New makes the driver.
func New(o Options) *Driver {
	o.Users.Roots = nil // a plain process has no container to be root of
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

// Name is "process".
func (d *Driver) Name() string { return Name }

// Scratch is the directory itself: nothing is mounted elsewhere.
func (d *Driver) Scratch(t *launcher.Task) string { return t.Scratch }

// Helps reports that its tasks can be shown the program of ours.
func (d *Driver) Helps() bool { return true }

// Prepare refuses what needs a container, and gives the scratch directory to the user.
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

// reachable refuses a data directory that the task's user cannot pass through: here the error says so; later the
// command would only be denied access.
func reachable(scratch string, user *account.Account) error {
	dir, err := user.Barred(scratch)
	if err != nil {
		return fault.OfMachine(fmt.Errorf("scratch directory: %w", err))
	}
	if dir != "" {
		return fmt.Errorf("scratch directory: user %s cannot pass through %s; move the agent's data directory, chmod o+x "+
			"what is above it, or give the job a workdir", user.Name, dir)
	}
	return nil
}

func check(s *messages.JobSpec) error {
	switch {
	case s.GetImage() != HostImage:
		return fmt.Errorf("image: %q needs a container, and this machine runs plain processes; use `image: host`, or run "+
			"the agent as root with another driver", s.GetImage())
	case len(messages.NetworkLabels(s.GetNetwork())) > 0:
		return fmt.Errorf("network: %s needs a container, and this machine runs plain processes; use `network: host`, "+
			"or run the agent as root with another driver", s.GetNetwork().Word())
	case s.GetLimitsRequired():
		return fmt.Errorf("limits: are required, and plain processes cannot be held to them; leave `limits: required` out, " +
			"or run the agent as root with another driver")
	case len(s.GetCommand()) == 0:
		return fault.OfJob(errors.New("command: is empty, and the host has no entrypoint; give the job a command"))
	}
	for i, m := range s.GetMounts() {
		if m.GetSource() != m.GetTarget() || m.GetReadOnly() {
			return fmt.Errorf("mounts[%d]: %s at %s needs a container; plain processes see the host's own files: leave it "+
				"out, or use the same path for both and no readOnly", i, m.GetSource(), m.GetTarget())
		}
	}
	return nil
}

// SecretWays reports how this driver gives secrets to tasks: a plain process has no place of its own for a file that
// nobody else sees and no disk holds.
func (d *Driver) SecretWays() (files, env bool) { return false, true }

// Command is the job's own command, as its user.
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

// limits let a task lock as much memory and open as many files as the machine
// allows: network cards for gangs pin their buffers.
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

// Cleanup removes the task's leaf, if it is still there. The scratch directory does not concern the driver.
func (d *Driver) Cleanup(t *launcher.Task) error {
	leaf := d.leaf(t)
	if leaf == "" {
		return nil
	}
	if err := os.Remove(leaf); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("cgroup of task %v: %w", t.Key, err)
	}
	return nil
}

func (d *Driver) leaf(t *launcher.Task) string {
	if d.cgroups == "" {
		return ""
	}
	// Two agents of two clusters may share the machine, and a task's name.
	home := crc32.ChecksumIEEE([]byte(t.Dir))
	return filepath.Join(d.cgroups, fmt.Sprintf("%v-%08x", t.Key, home))
}
