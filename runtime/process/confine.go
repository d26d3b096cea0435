package process

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/account"
	"github.com/yi-json/synapse/runtime/calls"
	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/runtime/fault"
	"github.com/yi-json/synapse/runtime/hostpath"
	"github.com/yi-json/synapse/runtime/launcher"
	"github.com/yi-json/synapse/runtime/supervisor"
)

// This file lists the paths that a task may write, the devices that it may use, and the paths that it must not see. It
// follows the rules of the containers' host view as far as Landlock can enforce them. A task can read the host, and
// writes only where its job says.

// ofSameUser lists paths that are hidden from tasks that run as the agent's own user or as root. File modes protect
// these paths from other users. A file that is later added next to a hidden path becomes unreadable too, so the list is
// short.
var ofSameUser = []string{
	"/var/lib/synapse", "/etc/synapse", "/var/lib/docker", "/var/lib/containerd", "/var/lib/kubelet", "/etc/kubernetes",
	"/var/spool/cron", "/boot",
}

// shared lists the host's directories that are open to all users.
var shared = []string{"/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/dev/hugepages"}

// plainDevices lists devices that any program expects, and the network cards that connect the members of a gang.
var plainDevices = []string{
	"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts",
	"/dev/infiniband", "/dev/hfi1*", "/dev/cxi*", "/dev/xpmem", "/dev/knem", "/dev/gdrdrv",
}

// Lacks lists the limits that this driver or this node does not enforce, each with its reason.
func (d *Driver) Lacks() []string {
	lacks := []string{"limits of memory, CPU and processes (plain processes have none)"}
	if d.missing != nil {
		return append(lacks, fmt.Sprintf("confinement of tasks (%v)", d.missing))
	}
	lacks = append(lacks, "sockets of other programs (Landlock does not hide them)",
		"namespaces made by clone3 (the filter cannot see its flags)")
	if _, err := calls.Program(nil); err != nil {
		lacks = append(lacks, fmt.Sprintf("system calls (%v)", err))
	}
	return append(lacks, supervisor.LandlockLacks(d.landlock)...)
}

// Confined reports whether tasks may write only where their jobs say.
func (d *Driver) Confined() bool { return d.missing == nil }

// Barred returns the shared directories that no task may write, because they contain a hidden path.
func (d *Driver) Barred() []string {
	if !d.Confined() {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(shared), func(place string) bool { return !d.bars(place) })
}

// bars reports whether a path contains a hidden path or is inside one.
func (d *Driver) bars(place string) bool {
	return slices.ContainsFunc(d.o.Hide, func(hidden string) bool {
		place, hidden := real(place), real(hidden)
		return carapace.Within(hidden, place) || carapace.Within(place, hidden)
	})
}

// real returns the path with links resolved, or the path itself if it does not exist.
func real(path string) string {
	if at, err := filepath.EvalSymlinks(path); err == nil {
		return at
	}
	return path
}

// named opens the paths of a job as its user, and returns those that the job may write.
func (d *Driver) named(s *messages.JobSpec, user *account.Account) ([]hostpath.Ticket, error) {
	visitor := hostpath.Visitor{As: user.Guest(), Rules: d.o.Policy.MountRules(d.o.Hide)}
	var tickets []hostpath.Ticket
	for i, m := range s.GetMounts() {
		ticket, err := visitor.Ask(hostpath.Named(m.GetSource()))
		if err != nil {
			return nil, fmt.Errorf("mounts[%d].source: %w", i, err)
		}
		ticket.Close() // the task itself opens the path later, as its user
		tickets = append(tickets, ticket)
	}
	if s.GetWorkdir() == "" {
		return tickets, nil
	}
	dir := hostpath.Named(s.GetWorkdir())
	folder, err := visitor.As.Look(dir)
	if err != nil {
		return nil, fmt.Errorf("workdir: %w, or omit workdir to use the scratch directory", err)
	}
	if !folder {
		return nil, fmt.Errorf("workdir: %v is not a directory that the task's user can enter", dir)
	}
	ticket, err := visitor.Ask(dir)
	if err == nil {
		ticket.Close()
		tickets = append(tickets, ticket)
	} else if visitor.Hides(dir) {
		return nil, fmt.Errorf("workdir: %w", err)
	}
	return tickets, nil // a path that is not writable needs no rule
}

// confinement returns the confinement for the task's supervisor; nil if the kernel does not support it.
func (d *Driver) confinement(t *launcher.Task, user *account.Account) (*supervisor.Confinement, error) {
	nodes, err := d.nodes(t)
	if err != nil || !d.Confined() {
		return nil, fault.OfMachine(err)
	}
	c := &supervisor.Confinement{
		Landlock: d.landlock, Hide: slices.Clone(d.o.Hide), Own: t.Scratch, Write: slices.Clone(shared), Use: nodes,
		Bound: user.UID == 0,
	}
	for _, pattern := range plainDevices {
		found, _ := filepath.Glob(pattern) // the patterns are constant and valid
		c.Use = append(c.Use, found...)
	}
	if user.Self || user.UID == 0 {
		c.Hide = append(c.Hide, ofSameUser...)
	}
	if user.UID != 0 {
		// CUDA names its threads through their files in /proc. Root would also get access to the kernel's
		// settings there.
		c.Use = append(c.Use, "/proc")
	}
	named, err := d.named(t.Spec, user)
	for _, ticket := range named {
		if ticket.Node != "" {
			c.Use = append(c.Use, ticket.Node)
		} else {
			c.Named = append(c.Named, ticket)
		}
	}
	return c, err
}

// nodes returns the device nodes of the task's GPUs. The nodes of a declared device are unknown, so a task with one may
// open all devices that its user may open.
func (d *Driver) nodes(t *launcher.Task) ([]string, error) {
	if slices.ContainsFunc(t.Gpus, (*messages.Gpu).GetDeclared) {
		return []string{"/dev"}, nil
	}
	for _, share := range t.Grant.GetGpus() {
		if !slices.ContainsFunc(t.Gpus, func(g *messages.Gpu) bool { return g.GetId() == share.GetGpuId() }) {
			return nil, fmt.Errorf("GPU %s was granted, but this node no longer has it", share.GetGpuId())
		}
	}
	view, err := d.o.Gpus.Granted(t.Gpus)
	if err != nil {
		return nil, err
	}
	return view.Nodes, nil
}
