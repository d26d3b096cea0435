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

// This file owns what is refused before a container is tried. Here a refusal names the job's field; later it would
// look like a failure of the machine.

func (d *Driver) check(t *launcher.Task, p *prepared, who *account.Account, visitor hostpath.Visitor) error {
	s, image := t.Spec, p.Image
	if err := d.checkRoot(p); err != nil {
		return err
	}
	if len(s.GetCommand()) == 0 && len(image.Command) == 0 {
		err := fmt.Errorf("command: is empty, and %s has no entrypoint; give the job a command", s.GetImage())
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
				return fault.OfJob(fmt.Errorf("mounts[%d].target: the device %s is given under its own path, to be read and "+
					"written; take %[2]s, and leave readOnly out", i, node))
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

// Networks are the networks that a task can have beside the machine's own.
func (d *Driver) Networks() []messages.Network {
	networks := []messages.Network{messages.Network_NETWORK_NONE}
	if d.o.Private != nil {
		networks = append(networks, messages.Network_NETWORK_PRIVATE)
	}
	return networks
}

// SecretWays reports how this driver gives secrets to tasks.
func (d *Driver) SecretWays() (files, env bool) { return true, true }

// checkNetwork refuses a network that this machine does not have. A leader that knows what was announced sends no
// such job here.
func (d *Driver) checkNetwork(n messages.Network) error {
	if len(messages.NetworkLabels(n)) == 0 || slices.Contains(d.Networks(), n) {
		return nil
	}
	return fmt.Errorf("network: %s is not available on this machine; choose another machine, or network: host", n.Word())
}

// checkRequired refuses limits that are demanded but cannot be kept.
func (d *Driver) checkRequired(s *messages.JobSpec) error {
	for _, what := range []string{"memory limit", "pids limit", "cpu limit", "devices"} {
		if why := d.lacks[what]; s.GetLimitsRequired() && why != "" {
			return fmt.Errorf("limits: are required, and this machine has no %s (%s); leave `limits: required` out, or ask "+
				"its owner to provide it", what, why)
		}
	}
	return nil
}

// ownPlaces of a host view are empty and the task's own, so that anything can be made there.
var ownPlaces = []string{"/tmp", "/run", "/var/tmp", "/root", scratchTarget, "/dev/shm"}

func isOwnPlace(path string) bool {
	return slices.ContainsFunc(ownPlaces, func(own string) bool { return carapace.Within(path, own) })
}

// checkTarget refuses a mount where a host view has no place for it: that cannot be written to. What an image has is
// only known inside.
func checkTarget(target string, image Image, as hostpath.Guest) error {
	if image.Rootfs != HostImage || !filepath.IsAbs(target) || isOwnPlace(target) {
		return nil // the container's own rules refuse what is no path at all
	}
	top, _, below := strings.Cut(strings.TrimPrefix(filepath.Clean(target), "/"), "/")
	if _, err := os.Lstat("/" + top); errors.Is(err, os.ErrNotExist) {
		return nil // a new one at the top can be made
	}
	if _, err := as.Look(hostpath.Named(target)); below && err != nil {
		return fmt.Errorf("%w, and the machine's own root is read-only; choose an existing directory, one at the top, or "+
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
	// The view has the machine's own files, and the task enters the directory itself later: here it is only looked
	// at.
	folder, err := as.Look(hostpath.Named(dir))
	if err != nil {
		return fmt.Errorf("workdir: %w, or leave workdir out for a scratch directory", err)
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
