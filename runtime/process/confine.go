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

// This file owns where on the machine a task may write, which devices it may use, and what it may not see. It is the
// contract of the containers' host view as far as Landlock can enforce it: a task reads the machine, and writes where
// its job says so.

// ofSameUser is hidden from tasks that run as the agent's own user, or as root: others are kept out by the files'
// modes. What is later put beside a hidden place becomes unreadable too, so no more is hidden than necessary.
var ofSameUser = []string{
	"/var/lib/synapse", "/etc/synapse", "/var/lib/docker", "/var/lib/containerd", "/var/lib/kubelet", "/etc/kubernetes",
	"/var/spool/cron", "/boot",
}

// shared are the machine's places for everybody's files.
var shared = []string{"/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/dev/hugepages"}

// plainDevices are the devices that any program counts on, and the cards through which the members of a gang reach
// each other.
var plainDevices = []string{
	"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts",
	"/dev/infiniband", "/dev/hfi1*", "/dev/cxi*", "/dev/xpmem", "/dev/knem", "/dev/gdrdrv",
}

// Lacks lists what this driver, or this machine, does not enforce, each with its reason.
func (d *Driver) Lacks() []string {
	lacks := []string{"limits of memory, CPU and processes (plain processes have none)"}
	if d.missing != nil {
		return append(lacks, fmt.Sprintf("confinement of tasks (%v)", d.missing))
	}
	lacks = append(lacks, "sockets of other programs (Landlock does not hide them)",
		"namespaces made by clone3 (its flags are hidden from the filter)")
	if _, err := calls.Program(nil); err != nil {
		lacks = append(lacks, fmt.Sprintf("system calls (%v)", err))
	}
	return append(lacks, supervisor.LandlockLacks(d.landlock)...)
}

// Confined reports whether tasks may write only where their jobs say so.
func (d *Driver) Confined() bool { return d.missing == nil }

// Barred are the places for everybody's files to which no task may write, because something hidden lies in them.
func (d *Driver) Barred() []string {
	if !d.Confined() {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(shared), func(place string) bool { return !d.bars(place) })
}

// bars reports whether a hidden place lies in a place, or the place in it.
func (d *Driver) bars(place string) bool {
	return slices.ContainsFunc(d.o.Hide, func(hidden string) bool {
		place, hidden := real(place), real(hidden)
		return carapace.Within(hidden, place) || carapace.Within(place, hidden)
	})
}

// real is where a path leads, or the path itself where it leads nowhere.
func real(path string) string {
	if at, err := filepath.EvalSymlinks(path); err == nil {
		return at
	}
	return path
}

// named opens the paths of a job as its user, and returns those where it may write.
func (d *Driver) named(s *messages.JobSpec, user *account.Account) ([]hostpath.Ticket, error) {
	visitor := hostpath.Visitor{As: user.Guest(), Rules: d.o.Policy.MountRules(d.o.Hide)}
	var tickets []hostpath.Ticket
	for i, m := range s.GetMounts() {
		ticket, err := visitor.Ask(hostpath.Named(m.GetSource()))
		if err != nil {
			return nil, fmt.Errorf("mounts[%d].source: %w", i, err)
		}
		ticket.Close() // the task itself opens the path, as its user
		tickets = append(tickets, ticket)
	}
	if s.GetWorkdir() == "" {
		return tickets, nil
	}
	dir := hostpath.Named(s.GetWorkdir())
	folder, err := visitor.As.Look(dir)
	if err != nil {
		return nil, fmt.Errorf("workdir: %w, or leave workdir out for a scratch directory", err)
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
	return tickets, nil // where it may go but not write, it goes as its user
}

// confinement is how the task's supervisor confines it; nil where the kernel cannot.
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
		found, _ := filepath.Glob(pattern) // the patterns are ours, and valid
		c.Use = append(c.Use, found...)
	}
	if user.Self || user.UID == 0 {
		c.Hide = append(c.Hide, ofSameUser...)
	}
	if user.UID != 0 {
		// CUDA names its threads through their files in /proc. Root would find the kernel's settings there.
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

// nodes are the device nodes of the task's GPUs. Those of a declared device are unknown: a task with one may open
// whatever its user may.
func (d *Driver) nodes(t *launcher.Task) ([]string, error) {
	if slices.ContainsFunc(t.Gpus, (*messages.Gpu).GetDeclared) {
		return []string{"/dev"}, nil
	}
	for _, share := range t.Grant.GetGpus() {
		if !slices.ContainsFunc(t.Gpus, func(g *messages.Gpu) bool { return g.GetId() == share.GetGpuId() }) {
			return nil, fmt.Errorf("GPU %s was granted, and is no longer among those of this machine", share.GetGpuId())
		}
	}
	view, err := d.o.Gpus.Granted(t.Gpus)
	if err != nil {
		return nil, err
	}
	return view.Nodes, nil
}
