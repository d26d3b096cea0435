//go:build linux

// Package upstream is the driver for the small program carapace from which this project's own carapace developed. That
// program makes namespaces, changes its root to ./rootfs, mounts /proc and executes the command. In its normal use, it
// has one cgroup for all its containers, always ends with code 1, and loses the command when it is killed. The driver
// therefore uses only its inner half, `child`, as the first process of a container made by this project's carapace.
// That container provides limits, kills, exit codes and the exit confirmation.
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

// Name is the name of the driver.
const Name = "upstream"

// place is the folder in which the program expects itself and, next to it, the folder rootfs.
const (
	place  = "/run/carapace"
	rootfs = place + "/rootfs"
)

// Driver runs tasks with that program.
type Driver struct {
	*container.Driver
	binary string
}

// New returns a driver for the program at an absolute path. around is the driver of the outer containers, with images
// from directories of the node.
func New(binary string, around *container.Driver) *Driver { return &Driver{around, binary} }

// Is reports whether a program is that carapace: its help lists the inner half.
func Is(ctx context.Context, binary string) bool {
	text, _ := exec.CommandContext(ctx, binary, "--help").CombinedOutput() // with any exit code
	has := func(command string) bool {
		return slices.ContainsFunc(strings.Split(string(text), "\n"), func(line string) bool {
			words := strings.Fields(line)
			return len(words) > 0 && words[0] == command
		})
	}
	return has("run") && has("child") && !has("check")
}

// SecretWays reports that this driver passes no secrets to tasks, because the program makes its own root.
func (d *Driver) SecretWays() (files, env bool) { return false, false }

// Name returns "upstream".
func (d *Driver) Name() string { return Name }

// Helps reports that the driver's tasks have no helper program. It would be useless without exec sessions.
func (d *Driver) Helps() bool { return false }

// Prepare refuses requests that the program does not support.
func (d *Driver) Prepare(ctx context.Context, t *launcher.Task) error {
	s := t.Spec
	switch {
	case !filepath.IsAbs(s.GetImage()):
		return fmt.Errorf("image: %q is not a root directory, which this node's carapace needs; use the "+
			"absolute path of one, or a node with another driver", s.GetImage())
	case slices.ContainsFunc(t.Gpus, func(g *messages.Gpu) bool { return !g.GetDeclared() }):
		return errors.New(
			"resources.gpu: this node's carapace gives tasks no devices; use a node with another driver",
		)
	case s.GetUser() != "0" && s.GetUser() != "root":
		return errors.New("user: this node's carapace runs everything as root; name root on a node that permits it, " +
			"or use a node with another driver")
	}
	return d.Driver.Prepare(ctx, t)
}

// Command returns the program's inner half, in a container of this project's carapace.
func (d *Driver) Command(t *launcher.Task, start *messages.StartTask, env []string) (*supervisor.Spec, error) {
	spec, err := d.Driver.Command(t, start, env)
	if err != nil {
		return nil, err
	}
	d.wrap(&spec.Container.Spec)
	spec.Container.Alone = "the driver upstream has no exec sessions; use a node with the driver carapace"
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
	// The first double dash ends the program's own flags, so the command may have flags.
	s.Command = append([]string{place + "/carapace", "child", "--"}, s.Command...)
	s.Rootfs, s.Image, s.Layer, s.ReadOnly, s.Workdir = "host", nil, "", true, place
	s.NoInit = true
	// The program itself sets the hostname, changes its root and mounts /proc, which the filter forbids.
	s.CapAdd = append(s.CapAdd, "SYS_ADMIN", "SYS_CHROOT")
	s.Seccomp = "off"
}
