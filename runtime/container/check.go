//go:build linux

package container

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/account"
	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/runtime/fault"
	"github.com/yi-json/synapse/runtime/hostpath"
	"github.com/yi-json/synapse/runtime/launcher"
)

// This file refuses jobs that no container can run. A refusal here names the job's field. A later failure would look
// like a failure of the node.

func (d *Driver) check(t *launcher.Task, p *prepared, who *account.Account, visitor hostpath.Visitor) error {
	s, image := t.Spec, p.Image
	if err := d.checkRoot(p); err != nil {
		return err
	}
	if len(s.GetCommand()) == 0 && len(image.Command) == 0 {
		err := fmt.Errorf("command: is empty, and %s has no entrypoint; add a command to the job", s.GetImage())
		if image.Rootfs == HostImage {
			return fault.OfJob(err)
		}
		return err
	}
	if err := d.checkNetwork(s.GetNetwork()); err != nil {
		return err
	}
	if err := d.checkRequired(s); err != nil {
		return err
	}
	for i, m := range s.GetMounts() {
		ticket, err := visitor.Ask(hostpath.Named(m.GetSource()))
		if err != nil {
			return fmt.Errorf("mounts[%d].source: %w", i, err)
		}
		p.Mounts = append(p.Mounts, ticket)
		if node := ticket.Node; node != "" {
			if m.GetTarget() != node || m.GetReadOnly() {
				return fault.OfJob(fmt.Errorf("mounts[%d].target: the device %s can only be mounted at its own path and "+
					"writable; use the target %[2]s and omit readOnly", i, node))
			}
			continue
		}
		if err := checkTarget(m.GetTarget(), image, visitor.As); err != nil {
			return fmt.Errorf("mounts[%d].target: %w", i, err)
		}
	}
	if err := checkWorkdir(s, image, visitor.As); err != nil {
		return err
	}
	if _, err := d.devices(t, image); err != nil {
		return fault.OfMachine(err)
	}
	return fault.OfJob(fieldOfJob(d.spec(t, *p, who).Validate()))
}

// Networks returns the networks that a task can have in addition to the host's.
func (d *Driver) Networks() []messages.Network {
	networks := []messages.Network{messages.Network_NETWORK_NONE}
	if d.o.Private != nil {
		networks = append(networks, messages.Network_NETWORK_PRIVATE)
	}
	return networks
}

// SecretWays reports how this driver passes secrets to tasks.
func (d *Driver) SecretWays() (files, env bool) { return true, true }

// checkNetwork refuses a network that this node does not have. A leader that knows the node's networks sends no such
// job here.
func (d *Driver) checkNetwork(n messages.Network) error {
	if len(messages.NetworkLabels(n)) == 0 || slices.Contains(d.Networks(), n) {
		return nil
	}
	return fmt.Errorf("network: %s is not available on this node; choose another node, or network: host", n.Word())
}

// checkRequired refuses a job that requires a limit that the node cannot enforce.
func (d *Driver) checkRequired(s *messages.JobSpec) error {
	for _, what := range []string{"memory limit", "pids limit", "cpu limit", "devices"} {
		if why := d.lacks[what]; s.GetLimitsRequired() && why != "" {
			return fmt.Errorf("limits: are required, but this node has no %s (%s); omit `limits: required`, or ask "+
				"an operator to provide it", what, why)
		}
	}
	return nil
}

// ownPlaces lists directories of a host view that are empty and private to the task, so mounts there are possible.
var ownPlaces = []string{"/tmp", "/run", "/var/tmp", "/root", scratchTarget, "/dev/shm"}

func isOwnPlace(path string) bool {
	return slices.ContainsFunc(ownPlaces, func(own string) bool { return carapace.Within(path, own) })
}

// checkTarget refuses a mount target for which a read-only host view has no place. The targets in an image are known
// only inside the container.
func checkTarget(target string, image Image, as hostpath.Guest) error {
	if image.Rootfs != HostImage || !filepath.IsAbs(target) || isOwnPlace(target) {
		return nil // the container refuses a target that is no path
	}
	top, _, below := strings.Cut(strings.TrimPrefix(filepath.Clean(target), "/"), "/")
	if _, err := os.Lstat("/" + top); errors.Is(err, os.ErrNotExist) {
		return nil // a new top-level directory can be made
	}
	if _, err := as.Look(hostpath.Named(target)); below && err != nil {
		return fmt.Errorf("%w, and the host's root is read-only; choose an existing directory, a top-level one, or "+
			"one in /tmp", err)
	}
	return nil
}

func checkWorkdir(s *messages.JobSpec, image Image, as hostpath.Guest) error {
	dir := s.GetWorkdir()
	if dir == "" || image.Rootfs != HostImage || isOwnPlace(dir) {
		return nil
	}
	for _, m := range s.GetMounts() {
		if carapace.Within(dir, m.GetTarget()) {
			return nil
		}
	}
	// The view has the host's files, and the task enters the directory itself later. This only checks it.
	folder, err := as.Look(hostpath.Named(dir))
	if err != nil {
		return fmt.Errorf("workdir: %w, or omit workdir to use the scratch directory", err)
	}
	if !folder {
		return fmt.Errorf("workdir: %s is not a directory that the task's user can enter", dir)
	}
	return nil
}

// fieldsOfJob maps the container's fields to the job's names for them.
var fieldsOfJob = map[string]string{
	"limits.memoryBytes": "resources.memory", "limits.milliCPU": "resources.cpu", "shmBytes": "resources.shm",
	"rootfs": "image",
}

func fieldOfJob(err error) error {
	wrong := new(carapace.SpecError)
	if !errors.As(err, &wrong) {
		return err
	}
	if name, known := fieldsOfJob[wrong.Field]; known {
		return &carapace.SpecError{Field: name, Reason: wrong.Reason}
	}
	return err
}
