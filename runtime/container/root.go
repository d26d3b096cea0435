//go:build linux

package container

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/yi-json/synapse/runtime/account"
	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/runtime/launcher"
)

// This file gives a job that names root a container in which it is root, without root rights on the host.

// user returns the account that runs a task.
func (d *Driver) user(t *launcher.Task) (*account.Account, error) {
	name, err := d.o.Policy.Users.User(t.Owner, t.OwnerProven, t.Spec.GetUser())
	if err != nil {
		return nil, err
	}
	return d.o.Users.Of(name, t.UID)
}

// OwnRoot reports whether a task would be root inside its container.
func (d *Driver) OwnRoot(t *launcher.Task) bool {
	who, err := d.user(t)
	return err == nil && who.Root
}

// ownRoot returns the id range of a task that is root inside its container.
func (d *Driver) ownRoot(t *launcher.Task, who *account.Account) (*carapace.IDs, error) {
	if !who.Root {
		return nil, nil
	}
	if why := d.lacks[carapace.LackOfIDs]; why != "" || !d.Checked() {
		return nil, fmt.Errorf("user: root is not available on this node, because it needs a separate user namespace, "+
			"which is impossible here: %s; name another user, or another node", cmp.Or(why, "this was not tested"))
	}
	first, err := d.o.Users.Roots.Take(t.Dir)
	if err != nil {
		return nil, err
	}
	return &carapace.IDs{First: first, UID: who.UID, GID: who.GID}, nil
}

// checkRoot refuses the user root for some images. A host directory that the node's policy does not allow as an image
// may contain any user's files. Root of the container could read all of them.
func (d *Driver) checkRoot(p *prepared) error {
	switch {
	case p.IDs == nil || p.Rootfs == HostImage:
		return nil
	case p.Named != nil && len(d.o.Policy.Images) == 0:
		return errors.New("image: is a host directory, in which the container's root could read all files; use an " +
			"archive or a registry image, name another user, or add the directory to images in the node's policy")
	case d.lacks["layer"] != "":
		return fmt.Errorf("user: root needs a writable layer, which this node does not support (%s); name another user",
			d.lacks["layer"])
	}
	return nil
}
