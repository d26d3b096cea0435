//go:build linux

package carapace

// A container's secrets: files on a tmpfs of its own, which nobody but its user can read.

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// secretsTarget is where a container has them.
const secretsTarget = "/run/secrets"

// placeSecrets shows them. They are there before anybody can see the place, which is read-only from then on.
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
		return fmt.Errorf("secrets: %s cannot be made in the rootfs (%w); give them as variables, or make the "+
			"directory there", secretsTarget, err)
	}
	if err := attach(mount, place); err != nil {
		return fmt.Errorf("mount onto %s: %w", secretsTarget, err)
	}
	return nil
}

// memory is a tmpfs that is not swapped out, where the kernel can promise that (Linux 6.4, in no user namespace).
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
