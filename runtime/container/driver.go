//go:build linux

// Package container is the driver `carapace`, which gives each task a container of its own: a root that is not the
// machine's to write to, the devices that were granted and no others, and limits that the kernel keeps. It describes
// that container and cleans up after it; package carapace makes it, in the task's supervisor. The drivers oci and
// upstream are built around this one: the first has runc or crun make the same container, the second runs another
// program within it. It never claims to keep a limit that this machine cannot keep.
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

// Name is the driver's name.
const Name = "carapace"

// scratchTarget is where a container has its scratch directory.
const scratchTarget = "/scratch"

// What the driver keeps in a task's own folder.
const (
	preparedFile = "image.json" // what Prepare found, for whichever agent starts the task
	layerName    = "layer"
)

// Driver runs tasks in containers.
type Driver struct {
	o     Options
	lacks map[string]string // what the machine cannot enforce, by carapace's names, with the reason

	mu   sync.Mutex
	held map[string][]*os.File // what prepared tasks will see, by their folders (held.go)
}

// Options holds the settings of the driver.
type Options struct {
	// Binary is the program carapace. Without it nothing new can run, but the tasks of an earlier agent are still
	// looked after.
	Binary string
	// StateDir has the state of this agent's containers and of no others.
	StateDir string
	Cgroups  carapace.Cgroups
	// Hide are directories of the machine that no task may see: the agent's own.
	Hide []string
	// Users decides as which users tasks run, and Policy what jobs may name.
	Users  account.Rules
	Policy hostpolicy.Policy
	// Env is what every task has in its environment beside its own.
	Env []string
	// Gpus says what belongs to which of the machine's GPUs; nil: all are only declared.
	Gpus *gpu.Hardware
	// Images gets images ready; nil: those that lie on the machine.
	Images Images
	// Unreachable returns what tasks may not reach on a network that they share with the machine; nil: nothing is
	// refused.
	Unreachable func() []egress.Place
	// Private gives jobs networks of their own; nil: this machine has none.
	Private Private
	// MaxProcesses bounds the processes and threads of a task; 0: its share of those that all tasks may have
	// together.
	MaxProcesses int64
}

// Private gives jobs networks of their own. A network has a name, and exists as long as one of the paths that hold
// it.
type Private interface {
	Join(name, holder string) (private.Joined, error)
	Release(name, holder string) error
}

// New makes the driver.
func New(o Options) (*Driver, error) {
	if err := os.MkdirAll(o.StateDir, 0o700); err != nil {
		return nil, fmt.Errorf("containers: %w", err)
	}
	if o.Images == nil {
		o.Images = Local{}
	}
	return &Driver{o: o, held: map[string][]*os.File{}}, nil
}

// Name is "carapace".
func (d *Driver) Name() string { return Name }

// Scratch is the same path in every container.
func (d *Driver) Scratch(*launcher.Task) string { return scratchTarget }

// Helps reports that its tasks can be shown the program of ours.
func (d *Driver) Helps() bool { return true }

// id names the task's container. Two agents of two clusters may share the
// machine's cgroups, and a task's name.
func (d *Driver) id(t *launcher.Task) string {
	return fmt.Sprintf("%v-%08x", t.Key, crc32.ChecksumIEEE([]byte(t.Dir)))
}

// Prepare gets the image, refuses what cannot be run, and gives the scratch directory to the user.
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
		// Of whose fault that is nothing is said: jobs that name no such network run here all the same.
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

// Command is a container for the supervisor to make.
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
		return nil, fault.OfMachine(fmt.Errorf("the image that was prepared: %w", err))
	}
	if who.Root != (p.IDs != nil) {
		return nil, errors.New(
			"user: the numbers of root on this machine have changed since the task was prepared; it must be tried again",
		)
	}
	spec := d.spec(t, p, who)
	view, err := d.devices(t, p.Image)
	if err != nil {
		return nil, fault.OfMachine(err)
	}
	for _, node := range p.nodes() {
		if !slices.Contains(d.o.Policy.Devices, node) { // the policy has changed, and the agent was restarted
			return nil, fault.OfJob(fmt.Errorf("mounts: %s is not among the devices that this machine's policy lets jobs name",
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
	if !spec.ReadOnly { // else there may be no place for them, and the image must have its own
		spec.Mounts = append(libraries(view), spec.Mounts...) // the user's own are mounted over them
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

// jobHostfile shows the list of machines at the place where DeepSpeed looks for it, to a task that is started by
// it. It is not a file of the task: a task that may write there could put a link in its place before it is shown.
func (d *Driver) jobHostfile(t *launcher.Task, start *messages.StartTask, spec *carapace.Spec) error {
	if !environment.HasJobHostfile(t.Spec) || spec.ReadOnly {
		return nil
	}
	spec.Hostfile = filepath.Join(t.Dir, "hostfile")
	return leave(spec.Hostfile, environment.Hostfile(start.GetRendezvous(), t.Grant))
}

// hosts makes the names of the gang's machines resolve to their addresses. They stand before the machine's own
// entries: on many machines the own name is a loopback address, at which no other machine would find a member that
// listens.
func (d *Driver) hosts(t *launcher.Task, start *messages.StartTask, spec *carapace.Spec) error {
	if !remote(start.GetRendezvous()) {
		return nil
	}
	others := "127.0.0.1 localhost\n::1 localhost\n"
	if spec.Rootfs == HostImage {
		own, err := os.ReadFile("/etc/hosts")
		if err != nil {
			return nil // as on the machine itself, no name is known but what a server says
		}
		others = string(own)
	}
	spec.Hosts = filepath.Join(t.Dir, "hosts")
	return leave(spec.Hosts, environment.Hosts(start.GetRendezvous())+others)
}

// leave writes a file that the task can read, whatever the mode of the agent's own files.
func leave(path, text string) error {
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return fmt.Errorf("what the task is shown: %w", err)
	}
	return os.Chmod(path, 0o644)
}

// place is where containers and their cgroups are, as flags of carapace.
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

// Cleanup removes what is left of the container, and releases the image. The launcher removes the task's folder, with
// its layer.
func (d *Driver) Cleanup(t *launcher.Task) error {
	d.letGo(t)
	if err := carapace.RemoveID(d.o.StateDir, d.id(t), d.o.Cgroups); err != nil {
		return fmt.Errorf("container of task %v: %w", t.Key, err)
	}
	if err := d.LeaveNetwork(t); err != nil {
		return err
	}
	if err := d.o.Images.Release(t.Dir); err != nil {
		return fmt.Errorf("image of task %v: %w", t.Key, err)
	}
	return nil
}

// LeaveNetwork releases the network of a task that is gone; a task without one is no error.
func (d *Driver) LeaveNetwork(t *launcher.Task) error {
	if d.o.Private == nil {
		return nil
	}
	if err := d.o.Private.Release(t.Key.Token.String(), t.Dir); err != nil {
		return fmt.Errorf("network of task %v: %w", t.Key, err)
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
