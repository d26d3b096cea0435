//go:build linux

// Package container is the driver `carapace`, which runs each task in a separate container. The container has a root
// through which it cannot write to the host, only the granted devices, and limits that the kernel enforces. Package
// container describes the container and cleans up after it. Package carapace makes it, in the task's supervisor. The
// drivers oci and upstream extend this driver. oci lets runc or crun make the same container. upstream runs another
// program within it. The driver never claims to enforce a limit that this node cannot enforce.
package container

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/account"
	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/runtime/egress"
	"github.com/yi-json/synapse/runtime/environment"
	"github.com/yi-json/synapse/runtime/fault"
	"github.com/yi-json/synapse/runtime/gpu"
	"github.com/yi-json/synapse/runtime/hostpath"
	"github.com/yi-json/synapse/runtime/hostpolicy"
	"github.com/yi-json/synapse/runtime/launcher"
	"github.com/yi-json/synapse/runtime/private"
	"github.com/yi-json/synapse/runtime/supervisor"
)

// Name is the name of the driver.
const Name = "carapace"

// scratchTarget is the path of the scratch directory in a container.
const scratchTarget = "/scratch"

// Files of the driver in a task's own folder.
const (
	preparedFile = "image.json" // the result of Prepare, for the agent that starts the task
	layerName    = "layer"
)

// Driver runs tasks in containers.
type Driver struct {
	o     Options
	lacks map[string]string // what the node cannot enforce, by carapace's names, with the reason

	mu   sync.Mutex
	held map[string][]*os.File // the mounts of prepared tasks, by task folder (held.go)
}

// Options holds the settings of the driver.
type Options struct {
	// Binary is the program carapace. Without it no new task can run, but the driver still manages the tasks of an
	// earlier agent.
	Binary string
	// StateDir contains the state of only this agent's containers.
	StateDir string
	Cgroups  carapace.Cgroups
	// Hide lists host directories that no task may see: the agent's own.
	Hide []string
	// Users decides the user of each task. Policy decides the resources that jobs may name.
	Users  account.Rules
	Policy hostpolicy.Policy
	// Env is added to the environment of every task.
	Env []string
	// Gpus lists the files of each of the node's GPUs; nil: all GPUs are only declared.
	Gpus *gpu.Hardware
	// Images prepares images; nil: only directories of the node are possible.
	Images Images
	// Unreachable returns the addresses that tasks must not reach on the host's network; nil: none.
	Unreachable func() []egress.Place
	// Private provides private networks; nil: this node has none.
	Private Private
	// MaxProcesses limits the processes and threads of a task; 0: the task's share of the limit of all tasks.
	MaxProcesses int64
}

// Private provides private networks. A network has a name, and exists while at least one holder path holds it.
type Private interface {
	Join(name, holder string) (private.Joined, error)
	Release(name, holder string) error
}

// New returns a driver for the options.
func New(o Options) (*Driver, error) {
	if err := os.MkdirAll(o.StateDir, 0o700); err != nil {
		return nil, fmt.Errorf("containers: %w", err)
	}
	if o.Images == nil {
		o.Images = Local{}
	}
	return &Driver{o: o, held: map[string][]*os.File{}}, nil
}

// Name returns "carapace".
func (d *Driver) Name() string { return Name }

// Scratch returns the same path for every container.
func (d *Driver) Scratch(*launcher.Task) string { return scratchTarget }

// Helps reports that the driver's tasks can use the helper program.
func (d *Driver) Helps() bool { return true }

// id returns the id of the task's container. It depends on the task's folder, because the agents of two clusters may
// share the host's cgroups and a task's name.
func (d *Driver) id(t *launcher.Task) string {
	return fmt.Sprintf("%v-%08x", t.Key, crc32.ChecksumIEEE([]byte(t.Dir)))
}

// Prepare prepares the image, refuses unusable jobs, and gives the scratch directory to the user.
func (d *Driver) Prepare(ctx context.Context, t *launcher.Task) error {
	who, err := d.user(t)
	if err != nil {
		return err
	}
	p := prepared{}
	defer p.close()
	if t.Spec.GetImage() == HostImage {
		if err := d.o.Policy.MayHostView(); err != nil {
			return err
		}
	}
	if p.IDs, err = d.ownRoot(t, who); err != nil {
		return err
	}
	visitor := hostpath.Visitor{As: who.Guest(), Rules: d.o.Policy.ImageRules(d.o.Hide)}
	if p.Image, err = d.o.Images.Prepare(ctx, t.Spec.GetImage(), t.Dir, visitor); err != nil {
		return err
	}
	visitor.Rules = d.o.Policy.MountRules(d.o.Hide)
	t.BeginWhereSubmitted(visitor)
	t.NoteHome(visitor.As, who.Name, homeOf(who), true)
	if err := d.check(t, &p, who, visitor); err != nil {
		return err
	}
	if t.Spec.GetNetwork() == messages.Network_NETWORK_PRIVATE {
		// The error names no fault, because jobs without such a network still run here.
		if p.Network, err = d.o.Private.Join(t.Key.Token.String(), t.Dir); err != nil {
			return fmt.Errorf("network: %w", err)
		}
	}
	if err := who.Own(t.Scratch); err != nil {
		return fault.OfMachine(fmt.Errorf("scratch directory: %w", err))
	}
	if err := writeJSON(filepath.Join(t.Dir, preparedFile), p); err != nil {
		return fault.OfMachine(err)
	}
	return d.hold(t, &p)
}

// Command returns the container for the supervisor to make.
func (d *Driver) Command(t *launcher.Task, start *messages.StartTask, env []string) (*supervisor.Spec, error) {
	who, err := d.user(t)
	if err != nil {
		return nil, err
	}
	var p prepared
	text, err := os.ReadFile(filepath.Join(t.Dir, preparedFile))
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		return nil, fault.OfMachine(fmt.Errorf("read the prepared image: %w", err))
	}
	if who.Root != (p.IDs != nil) {
		return nil, errors.New(
			"user: the uids of root on this node have changed after the task was prepared; retry the job",
		)
	}
	spec := d.spec(t, p, who)
	view, err := d.devices(t, p.Image)
	if err != nil {
		return nil, fault.OfMachine(err)
	}
	for _, node := range p.nodes() {
		if !slices.Contains(d.o.Policy.Devices, node) { // the policy has changed, and the agent was restarted
			return nil, fault.OfJob(fmt.Errorf("mounts: %s is not among the devices that this node's policy permits",
				node))
		}
	}
	spec.Devices = slices.Concat(view.Nodes, p.nodes())
	if remote(start.GetRendezvous()) {
		spec.Devices = append(spec.Devices, d.o.Gpus.Fabric()...)
	}
	spec.Env = d.environment(p.Image, who, env, view)
	if p.Network.Namespace != "" {
		spec.Net, spec.Names = p.Network.Namespace, p.Network.Names
	}
	if err := errors.Join(d.hosts(t, start, &spec), d.jobHostfile(t, start, &spec)); err != nil {
		return nil, fault.OfMachine(err)
	}
	if !spec.ReadOnly { // a read-only image may have no place for them and must have its own
		spec.Mounts = append(libraries(view), spec.Mounts...) // the user's mounts cover them
	}
	if t.Helper != "" {
		if err := t.HelperMount(); err != nil {
			return nil, fault.OfMachine(err)
		}
		spec.Helper = t.Helper
	}
	held, err := d.handOver(t, &p)
	if err != nil {
		return nil, err
	}
	return &supervisor.Spec{
		Container: &supervisor.Container{Spec: spec, StateDir: d.o.StateDir, Cgroups: d.o.Cgroups}, Held: held,
	}, nil
}

// jobHostfile shows the list of nodes at the path where DeepSpeed expects it, for a task that uses the launcher
// deepspeed. The file does not belong to the task, which could otherwise replace it with a link before it is mounted.
func (d *Driver) jobHostfile(t *launcher.Task, start *messages.StartTask, spec *carapace.Spec) error {
	if !environment.HasJobHostfile(t.Spec) || spec.ReadOnly {
		return nil
	}
	spec.Hostfile = filepath.Join(t.Dir, "hostfile")
	return leave(spec.Hostfile, environment.Hostfile(start.GetRendezvous(), t.Grant))
}

// hosts adds the names and addresses of the gang's nodes to /etc/hosts. They precede the host's own entries. On many
// hosts, the own name is a loopback address, and members on other nodes could not connect to it.
func (d *Driver) hosts(t *launcher.Task, start *messages.StartTask, spec *carapace.Spec) error {
	if !remote(start.GetRendezvous()) {
		return nil
	}
	others := "127.0.0.1 localhost\n::1 localhost\n"
	if spec.Rootfs == HostImage {
		own, err := os.ReadFile("/etc/hosts")
		if err != nil {
			return nil // as on the host, only DNS names are known
		}
		others = string(own)
	}
	spec.Hosts = filepath.Join(t.Dir, "hosts")
	return leave(spec.Hosts, environment.Hosts(start.GetRendezvous())+others)
}

// leave writes a file that the task can read, regardless of the agent's umask.
func leave(path, text string) error {
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return fmt.Errorf("write a file for the task: %w", err)
	}
	return os.Chmod(path, 0o644)
}

// place returns the flags of carapace for the locations of containers and their cgroups.
func (d *Driver) place() []string {
	flags := []string{"--state-dir", d.o.StateDir}
	if d.o.Cgroups.Root != "" {
		flags = append(flags, "--cgroup-root", d.o.Cgroups.Root)
	}
	if d.o.Cgroups.Parent != "" {
		flags = append(flags, "--cgroup-parent", d.o.Cgroups.Parent)
	}
	return flags
}

// Cleanup removes the remains of the container and releases the image. The launcher removes the task's folder with its
// layer.
func (d *Driver) Cleanup(t *launcher.Task) error {
	d.letGo(t)
	if err := carapace.RemoveID(d.o.StateDir, d.id(t), d.o.Cgroups); err != nil {
		return fmt.Errorf("remove the container of task %v: %w", t.Key, err)
	}
	if err := d.LeaveNetwork(t); err != nil {
		return err
	}
	if err := d.o.Images.Release(t.Dir); err != nil {
		return fmt.Errorf("release the image of task %v: %w", t.Key, err)
	}
	return nil
}

// LeaveNetwork releases the network of a task that is gone. A task without a network is not an error.
func (d *Driver) LeaveNetwork(t *launcher.Task) error {
	if d.o.Private == nil {
		return nil
	}
	if err := d.o.Private.Release(t.Key.Token.String(), t.Dir); err != nil {
		return fmt.Errorf("release the network of task %v: %w", t.Key, err)
	}
	return nil
}

func writeJSON(path string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}
