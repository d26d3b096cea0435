//go:build linux

// Package oci is the driver `oci`, which lets runc or crun make each task's container. Package container describes the
// container, and this package translates the description into the OCI specification. It makes no container (see package
// carapace) and reads no image (see package image). The supervisor determines how a task ended, because the runtime's
// exit codes do not show it.
package oci

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/runtime/container"
	"github.com/yi-json/synapse/runtime/fault"
	"github.com/yi-json/synapse/runtime/launcher"
	"github.com/yi-json/synapse/runtime/supervisor"
	"github.com/yi-json/synapse/runtime/tree"
)

// Name is the name of the driver.
const Name = "oci"

// Runtimes lists the supported programs, the faster one first.
var Runtimes = []string{"crun", "runc"}

// Driver runs tasks with an OCI runtime.
type Driver struct {
	*container.Driver // images, users, refusals, and the description of containers
	o                 Options
	noRoot            error // why no task can be root inside its container; nil: it can
}

// Options holds the settings of the driver.
type Options struct {
	// Runtime is the program's absolute path.
	Runtime string
	// StateDir contains the program's state of only these containers.
	StateDir string
	// Cgroups has the same meaning as for carapace's own containers.
	Cgroups carapace.Cgroups
	// Container describes tasks as containers. It makes no containers itself.
	Container *container.Driver
}

// Files of the driver in a task's own folder.
const (
	bundleName = "bundle"
	rootName   = "root" // the container's root is composed below it
	configName = "config.json"
	pidName    = "pid"
	logName    = "log"
)

// environment returns the environment of the runtime. At each start, crun makes a file and mounts its own program on
// it. The file is in the bundle instead of /tmp, where it would stay forever if crun were killed.
func environment(bundle string) []string {
	return []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "GOMAXPROCS=2",
		"_LIBCONTAINER_STATEDIR=" + bundle,
	}
}

// New returns a driver for the options.
func New(o Options) (*Driver, error) {
	if err := os.MkdirAll(o.StateDir, 0o700); err != nil {
		return nil, fmt.Errorf("containers: %w", err)
	}
	return &Driver{o.Container, o, errors.New("this was not tested")}, nil
}

// Name returns "oci".
func (d *Driver) Name() string { return Name }

// Runtime returns the program's path.
func (d *Driver) Runtime() string { return d.o.Runtime }

// Find returns the absolute paths of the usable programs: the given one, or the installed ones.
func Find(given string) ([]string, error) {
	names := Runtimes
	if given != "" {
		names = []string{given}
	}
	var found []string
	var failed []error
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err == nil {
			path, err = filepath.Abs(path)
		}
		if err != nil {
			failed = append(failed, err)
			continue
		}
		found = append(found, path)
	}
	if len(found) == 0 {
		return nil, errors.Join(failed...)
	}
	return found, nil
}

// Prepare refuses a task that would be root inside its container if the runtime cannot make such a container or its
// root cannot be composed.
func (d *Driver) Prepare(ctx context.Context, t *launcher.Task) error {
	why := d.noRoot
	if lack := d.Driver.Lack(carapace.LackOfComposed); lack != "" {
		why = errors.New(lack)
	}
	if why != nil && d.Driver.OwnRoot(t) {
		return fmt.Errorf("user: root is not available on this node, because it needs a separate user namespace, which "+
			"is impossible here: %w; name another user, or another node", why)
	}
	return d.Driver.Prepare(ctx, t)
}

// SecretWays reports how this driver passes secrets to tasks. Variables are impossible, because they would be in the
// bundle's description, which is a file.
func (d *Driver) SecretWays() (files, env bool) { return true, false }

// NoRoot returns the reason why no task can be root inside its container; nil: the runtime supports it.
func (d *Driver) NoRoot() error { return d.noRoot }

// id returns the id of the task's container in the runtime's state and in the host's cgroups.
func (d *Driver) id(t *launcher.Task) string {
	return fmt.Sprintf("%v-%08x", t.Key, crc32.ChecksumIEEE([]byte(t.Dir)))
}

// Command returns the runtime's command for a bundle with the whole description.
func (d *Driver) Command(t *launcher.Task, start *messages.StartTask, env []string) (*supervisor.Spec, error) {
	spec, err := d.Driver.Command(t, start, env)
	if err != nil {
		return nil, err
	}
	s := &spec.Container.Spec
	s.ID = d.id(t)
	bundle := filepath.Join(t.Dir, bundleName)
	if err := os.MkdirAll(bundle, 0o711); err != nil {
		return nil, fault.OfMachine(fmt.Errorf("bundle: %w", err))
	}
	base := baseOf(s, bundle)
	if err := os.MkdirAll(base, 0o711); err != nil {
		return nil, fault.OfMachine(fmt.Errorf("bundle: %w", err))
	}
	c, err := d.write(s, bundle, base)
	if err != nil {
		return nil, fault.OfMachine(fmt.Errorf("bundle: %w", err))
	}
	log := filepath.Join(bundle, logName)
	line := d.line("--log", log, "--log-format", "json")
	return &supervisor.Spec{Env: environment(bundle), Held: spec.Held, Detached: &supervisor.Detached{
		Run:     append(line, "run", "--detach", "--bundle", bundle, "--pid-file", filepath.Join(bundle, pidName), s.ID),
		PIDFile: filepath.Join(bundle, pidName), Delete: d.line("delete", "--force", s.ID), Complaints: log,
		Record: d.record(s.ID), Leaves: d.o.Cgroups.Everywhere(s.ID), Cgroups: d.o.Cgroups, Root: *s, Base: base,
		Config: filepath.Join(bundle, configName), Workdir: c.Process.Cwd,
	}}, nil
}

// record returns the only directory, except cgroups, in which the runtime keeps a container's state. It is empty for an
// unknown runtime.
func (d *Driver) record(id string) string {
	if !slices.Contains(Runtimes, filepath.Base(d.o.Runtime)) {
		return ""
	}
	return filepath.Join(d.o.StateDir, id)
}

// cgroup returns the cgroup of a container, below the root of every hierarchy.
func (d *Driver) cgroup(id string) string {
	return filepath.Join("/", cmp.Or(d.o.Cgroups.Parent, "/synapse"), id)
}

// line returns a command line of the runtime.
func (d *Driver) line(words ...string) []string {
	return append([]string{d.o.Runtime, "--root", d.o.StateDir}, words...)
}

// baseOf returns the directory below which a container's root is composed.
func baseOf(s *carapace.Spec, bundle string) string {
	if s.IDs != nil {
		return carapace.ComposedBase
	}
	return filepath.Join(bundle, rootName)
}

// write writes the bundle of a container whose root is composed below base, and returns its configuration.
func (d *Driver) write(s *carapace.Spec, bundle, base string) (*specs.Spec, error) {
	c, err := config(s, base, d.cgroup(s.ID))
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	return c, os.WriteFile(filepath.Join(bundle, configName), text, 0o600)
}

// Try runs a container that ends at once, and tests whether a container could have a separate id range. A missing
// command does not matter.
func (d *Driver) Try(ctx context.Context) error {
	if err := d.try(ctx, nil); err != nil {
		return err
	}
	d.noRoot = d.try(ctx, &carapace.IDs{
		First: 1<<32 - 1 - 2*carapace.IDsLen, UID: carapace.IDsLen - 2, GID: carapace.IDsLen - 2,
	})
	return nil
}

func (d *Driver) try(ctx context.Context, ids *carapace.IDs) error {
	s := &carapace.Spec{Rootfs: container.HostImage, Command: []string{"/bin/true"}, IDs: ids}
	if ids != nil {
		s.User = "0:0"
	}
	text, err := d.once(ctx, s)
	said := strings.TrimSpace(string(text))
	if err == nil || strings.Contains(said, "executable file") {
		return nil
	}
	return fmt.Errorf("%s cannot run a container here: %w: %s",
		d.o.Runtime, err, said[strings.LastIndexByte(said, '\n')+1:])
}

// once runs a container until its end, from this process, and returns its output.
func (d *Driver) once(ctx context.Context, s *carapace.Spec) (said []byte, err error) {
	bundle, err := os.MkdirTemp(d.o.StateDir, "try-")
	if err != nil {
		return nil, err
	}
	defer tree.Remove(bundle)
	s.ID = "of-" + filepath.Base(bundle)
	base := baseOf(s, bundle)
	if err := os.MkdirAll(base, 0o711); err != nil {
		return nil, err
	}
	if _, err := d.write(s, bundle, base); err != nil {
		return nil, err
	}
	null, err := carapace.OwnNull()
	if err != nil {
		return nil, err
	}
	defer null.Close()
	line := d.line("run", "--bundle", bundle, s.ID)
	run := exec.CommandContext(ctx, line[0], line[1:]...)
	run.Stdin, run.Env = null, environment(bundle)
	defer carapace.HoldParents(d.o.Cgroups)()
	err = carapace.InOwnMounts(func() (err error) {
		if _, err = carapace.Compose(*s, base); err == nil {
			said, err = run.CombinedOutput()
		}
		return err
	})
	if err != nil {
		_ = d.delete(ctx, s.ID, bundle)                         // there may be nothing to delete
		_ = carapace.RemoveLeaves(d.o.Cgroups.Everywhere(s.ID)) // the runtime may not know the container
	}
	return said, err
}

// delete lets the runtime delete a container. It runs in a separate mount namespace, so the runtime's own mounts always
// end with it.
func (d *Driver) delete(ctx context.Context, id, bundle string) error {
	line := d.line("delete", "--force", id)
	run := exec.CommandContext(ctx, line[0], line[1:]...)
	run.Env = environment(bundle)
	return carapace.InOwnMounts(func() error {
		if text, err := run.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w: %s", line, err, bytes.TrimSpace(text))
		}
		return nil
	})
}
