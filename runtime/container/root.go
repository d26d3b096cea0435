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

// This file owns what a job that names root gets: a container in which it is root, and root of nothing on the machine.

// user is the account as which a task runs.
func (d *Driver) user(t *launcher.Task) (*account.Account, error) {
	name, err := d.o.Policy.Users.User(t.Owner, t.OwnerProven, t.Spec.GetUser())
	if err != nil {
		return nil, err
	}
	return d.o.Users.Of(name, t.UID)
}

// OwnRoot reports whether a task would be root of a container of its own.
func (d *Driver) OwnRoot(t *launcher.Task) bool {
	who, err := d.user(t)
	return err == nil && who.Root
}

// ownRoot gives a task the numbers of its container, if it is root of one.
func (d *Driver) ownRoot(t *launcher.Task, who *account.Account) (*carapace.IDs, error) {
	if !who.Root {
		return nil, nil
	}
	if why := d.lacks[carapace.LackOfIDs]; why != "" || !d.Checked() {
		return nil, fmt.Errorf("user: root is not available on this machine, because it cannot be in a user namespace of "+
			"its own here: %s; name another user, or another machine", cmp.Or(why, "that was not tried"))
	}
	first, err := d.o.Users.Roots.Take(t.Dir)
	if err != nil {
		return nil, err
	}
	return &carapace.IDs{First: first, UID: who.UID, GID: who.GID}, nil
}

// checkRoot refuses root an image that may be more than an image: a directory of the machine that its owner did not
// mean for images may hold anybody's files, and root of the container could read them all.
func (d *Driver) checkRoot(p *prepared) error {
	switch {
	case p.IDs == nil || p.Rootfs == HostImage:
		return nil
	case p.Named != nil && len(d.o.Policy.Images) == 0:
		return errors.New("image: is a directory of the machine, in which root of a container would be root; take an " +
			"archive or a registry's image, name another user, or add its place to images in the machine's policy")
	case d.lacks["layer"] != "":
		return fmt.Errorf("user: root needs a layer to write to, and this machine has none (%s); name another user",
			d.lacks["layer"])
	}
	return nil
}
