//go:build linux

// Package upstream is the driver for the small carapace that this project's own grew
// out of: a program that makes namespaces, changes its root to ./rootfs, mounts /proc
// and becomes the command. Run as its users run it, it has one cgroup for all its
// containers, ends with code 1 whatever the command did, and loses the command when
// it is killed. So it is only asked for what it does well: our own container is made around it, and inside, its inner
// half, `child`, is the first process and becomes the command. Our container provides limits, kills, exit codes and
// evidence.
package upstream

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/runtime/container"
	"github.com/yi-json/synapse/runtime/launcher"
	"github.com/yi-json/synapse/runtime/supervisor"
)

// Name is the driver's name.
const Name = "upstream"

// Where the program finds what it wants: itself, and beside it a folder of this name.
const (
	place  = "/run/carapace"
	rootfs = place + "/rootfs"
)

// Driver runs tasks by that program.
type Driver struct {
	*container.Driver
	binary string
}

// New makes the driver from the program's absolute path, and the driver whose
// containers it runs in: one that knows images that lie on the machine.
func New(binary string, around *container.Driver) *Driver { return &Driver{around, binary} }

// Is reports whether a program is that carapace: its help lists the inner half.
func Is(ctx context.Context, binary string) bool {
	text, _ := exec.CommandContext(ctx, binary, "--help").CombinedOutput() // whatever its exit code
	has := func(command string) bool {
		return slices.ContainsFunc(strings.Split(string(text), "\n"), func(line string) bool {
			words := strings.Fields(line)
			return len(words) > 0 && words[0] == command
		})
	}
	return has("run") && has("child") && !has("check")
}

// SecretWays reports that this driver gives tasks no secrets: the program makes a root of its own.
func (d *Driver) SecretWays() (files, env bool) { return false, false }

// Name is "upstream".
func (d *Driver) Name() string { return Name }

// Helps reports that its tasks have not the program of ours: it would do nothing there, where no exec session runs.
func (d *Driver) Helps() bool { return false }

// Prepare refuses what the program cannot do.
func (d *Driver) Prepare(ctx context.Context, t *launcher.Task) error {
	s := t.Spec
	switch {
	case !filepath.IsAbs(s.GetImage()):
		return fmt.Errorf("image: %q is not a root directory, and this machine's carapace changes its root to one; give the "+
			"absolute path of one, or have this machine run another driver", s.GetImage())
	case slices.ContainsFunc(t.Gpus, func(g *messages.Gpu) bool { return !g.GetDeclared() }):
		return errors.New(
			"resources.gpu: this machine's carapace gives tasks no devices; have the machine run another driver",
		)
	case s.GetUser() != "0" && s.GetUser() != "root":
		return errors.New("user: this machine's carapace runs everything as root; name root, on a machine that allows it, " +
			"or have the machine run another driver")
	}
	return d.Driver.Prepare(ctx, t)
}

// Command is the program's inner half, in a container of ours.
func (d *Driver) Command(t *launcher.Task, start *messages.StartTask, env []string) (*supervisor.Spec, error) {
	spec, err := d.Driver.Command(t, start, env)
	if err != nil {
		return nil, err
	}
	d.wrap(&spec.Container.Spec)
	spec.Container.Alone = "the driver upstream runs no further process in a task; the driver carapace does"
	return spec, nil
}

// wrap turns the container of a task into one in which the program makes the task.
func (d *Driver) wrap(s *carapace.Spec) {
	mounts := []carapace.Mount{
		{Source: d.binary, Target: place + "/carapace", ReadOnly: true}, {Named: s.Image, Target: rootfs},
	}
	if s.Scratch != "" {
		mounts = append(mounts, carapace.Mount{Source: s.Scratch, Target: rootfs + "/scratch"})
	}
	for _, m := range s.Mounts {
		m.Target = rootfs + filepath.Clean("/"+m.Target)
		mounts = append(mounts, m)
	}
	s.Mounts = mounts
	// The first double dash ends the program's own flags, so that the command may have some.
	s.Command = append([]string{place + "/carapace", "child", "--"}, s.Command...)
	s.Rootfs, s.Image, s.Layer, s.ReadOnly, s.Workdir = "host", nil, "", true, place
	s.NoInit = true
	// It names the host, changes its root and mounts /proc by itself, which the filter forbids.
	s.CapAdd = append(s.CapAdd, "SYS_ADMIN", "SYS_CHROOT")
	s.Seccomp = "off"
}
