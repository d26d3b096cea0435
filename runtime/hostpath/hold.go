//go:build linux

package hostpath

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// This file passes an open file to the task as a detached mount. The mount is passed from process to process, so the
// path is never resolved again. Only a restart of the agent closes the mount. Then the path is resolved once more, and
// the result is compared with the ticket.

// Close closes the open file of a ticket.
func (t *Ticket) Close() {
	if t.place != nil {
		t.place.Close()
		t.place = nil
	}
}

// Hold returns a detached mount of the ticket's file for another process, and closes the ticket. The mount is private
// and excludes set-user-id programs and devices. It excludes nested mounts unless the rules permit all of them. as is a
// user namespace that maps the file owners; nil: no mapping. A nil mount means that this agent cannot make mounts, so
// its tasks have none.
func (t *Ticket) Hold(as *os.File) (*os.File, error) {
	defer t.Close()
	if t.As.Self {
		return nil, nil
	}
	mount, err := t.detach()
	if errors.Is(err, unix.EPERM) {
		return nil, nil
	}
	if err == nil && as != nil {
		err = t.show(mount, as)
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(mount), t.Path.text), nil
}

// show sets the id mapping of a mount. If that is impossible, the error addresses the job's user, because another path
// or node may work.
func (t *Ticket) show(mount int, as *os.File) error {
	set := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(as.Fd())}
	err := unix.MountSetattr(mount, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &set)
	if err == nil {
		return nil
	}
	unix.Close(mount)
	if err == unix.EINVAL || err == unix.EPERM {
		return fmt.Errorf("%v is on a file system without idmapped mounts, which root inside a "+
			"container needs; use another path, or another user than root", t.Path)
	}
	return fmt.Errorf("bind %v: map the file owners: %w", t.Path, err)
}

// detach makes the mount from the open file, or opens the file again.
func (t Ticket) detach() (mount int, err error) {
	o, err := t.found()
	if err != nil {
		return -1, err
	}
	defer o.close()
	flags := uint(unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_EMPTY_PATH)
	if t.Rules.allowsBelow(o) {
		flags |= unix.AT_RECURSIVE
	}
	if mount, err = unix.OpenTree(o.fd, "", flags); err != nil {
		return -1, fmt.Errorf("bind %v: %w", t.Path, err)
	}
	set := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, Propagation: unix.MS_PRIVATE}
	if t.ReadOnly {
		set.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if err := unix.MountSetattr(mount, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &set); err != nil {
		unix.Close(mount)
		return -1, fmt.Errorf("bind %v: set mount attributes: %w", t.Path, err)
	}
	return mount, nil
}

// Clone returns the detached mount that Hold made. Without one, it makes the mount in the current mount namespace. It
// is called once.
func (t Ticket) Clone(readOnly bool) (mount int, err error) {
	if mount = t.Held; mount == 0 {
		if mount, err = t.detach(); err != nil {
			return -1, err
		}
	}
	if !readOnly {
		return mount, nil
	}
	set := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(mount, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &set); err != nil {
		unix.Close(mount)
		return -1, fmt.Errorf("bind %v: set mount attributes: %w", t.Path, err)
	}
	return mount, nil
}

// Open returns a descriptor that identifies the file but cannot read it. Link returns its path.
func (t Ticket) Open() (fd int, err error) {
	o, err := t.found()
	return o.fd, err
}

// found returns the open file of the ticket, or the file that is at the path now if it is the same.
func (t Ticket) found() (o opened, err error) {
	if t.place == nil {
		o, err = t.open(t.Path)
	} else if o.fd, err = unix.FcntlInt(t.place.Fd(), unix.F_DUPFD_CLOEXEC, 0); err == nil {
		if err = o.look(); err != nil {
			o.close()
		}
	}
	if err != nil {
		return opened{fd: -1}, err
	}
	if o.stat.Dev != t.Device || o.stat.Ino != t.Inode || o.directory() != t.Directory {
		o.close()
		return opened{fd: -1}, fmt.Errorf("%v %w", t.Path, errElsewhere)
	}
	return o, nil
}
