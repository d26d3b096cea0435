//go:build linux

package carapace

// This file provides a container's secrets as files on a separate tmpfs, which only the container's user can read.

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// secretsTarget is the path of the secrets in a container.
const secretsTarget = "/run/secrets"

// placeSecrets writes the secrets, makes the mount read-only, and then attaches it.
func (r *root) placeSecrets() error {
	if len(r.spec.Secrets) == 0 {
		return nil
	}
	inside, err := r.inside()
	if err != nil {
		return fail("user", err)
	}
	uid, gid := int(inside.As.UID), int(inside.As.GID)
	mount, err := memory(fmt.Sprintf("uid=%d", uid), fmt.Sprintf("gid=%d", gid), "mode=0500", "size=1m")
	if err != nil {
		return err
	}
	for _, s := range r.spec.Secrets {
		if err := leaveSecret(mount, s, uid, gid); err != nil {
			unix.Close(mount)
			return fmt.Errorf("secret %s: %w", s.Name, err)
		}
	}
	if err := setReadOnly(mount, 0); err != nil {
		unix.Close(mount)
		return err
	}
	place, _, err := inside.Make(secretsTarget, true)
	if err != nil {
		unix.Close(mount)
		return fmt.Errorf("secrets: %s cannot be made in the rootfs (%w); pass secrets as variables, or add the "+
			"directory to the image", secretsTarget, err)
	}
	if err := attach(mount, place); err != nil {
		return fmt.Errorf("mount onto %s: %w", secretsTarget, err)
	}
	return nil
}

// memory returns a tmpfs that is not swapped out, if the kernel supports it (Linux 6.4, and not in a user namespace).
func memory(options ...string) (int, error) {
	const attributes = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC
	if mount, err := newMount("tmpfs", attributes, append([]string{"noswap"}, options...)...); err == nil {
		return mount, nil
	}
	return newMount("tmpfs", attributes, options...)
}

func leaveSecret(mount int, s Secret, uid, gid int) error {
	const fresh = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	file, err := unix.Openat(mount, s.Name, fresh, 0o400)
	if err != nil {
		return err
	}
	for rest := s.Value; len(rest) > 0 && err == nil; {
		var n int
		n, err = unix.Write(file, rest)
		rest = rest[max(n, 0):]
	}
	return errors.Join(err, unix.Fchown(file, uid, gid), unix.Close(file))
}
