//go:build linux

package carapace

// This file gives a task a separate user namespace. Its users and groups 0 to 65535 map to a range of host ids that no
// other user has. The task enters the namespace last (fork/command.go). Its processes, mounts and networks belong to
// the host's user namespace. Root in the container therefore controls files and processes with its own ids, but not the
// container.
//
// This file also owns the mapping of ids. In the image and in the task's layer, id 0 is First, id 1 is First+1, and so
// on. In mounted host directories, root of the container is one plain user, and its other users own nothing. Thus no id
// of the container remains on a shared disk.

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/carapace/fork"
	"github.com/yi-json/synapse/runtime/tree"
)

// IDs holds the id range of a container.
type IDs struct {
	// First is the host's id for id 0 of the container, for users and groups. IDsLen ids from there belong to the
	// container.
	First uint32 `json:"first"`
	// UID and GID are the ids of the container's root in mounted host directories.
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`
}

// IDsLen is the number of ids of a container. Distributions expect at least this many.
const IDsLen = 65536

// noID is an id that no user and no group has.
const noID = 1<<32 - 1

func (i *IDs) validate() error {
	if i == nil {
		return nil
	}
	last := uint64(i.First) + IDsLen - 1
	within := func(id uint32) bool { return i.First <= id && uint64(id) <= last }
	switch {
	case i.First < IDsLen || last >= noID:
		return &SpecError{"ids", fmt.Sprintf("%d to %d are not within the host's ids %d to %d", i.First, last,
			IDsLen, uint32(noID-1))}
	case i.UID == 0 || i.UID == noID || i.GID == noID || within(i.UID) || within(i.GID):
		return &SpecError{"ids", fmt.Sprintf("%d:%d cannot be the container's root in the host's directories", i.UID,
			i.GID)}
	}
	return nil
}

// outside returns the host's id for an id of the container.
func (i *IDs) outside(id int) uint32 {
	if i == nil {
		return uint32(id)
	}
	return i.First + uint32(id)
}

// own returns the mapping of the container's ids.
func (i *IDs) own() []fork.Span { return []fork.Span{{Outside: uint64(i.First), N: IDsLen}} }

// plain returns the mapping of host files to the container's view. Every id maps to itself, except root, which maps to
// the container's root. No file has an id of the container's range, and none can get one.
func (i *IDs) plain(root uint32) []fork.Span {
	cuts := []fork.Span{{Inside: uint64(i.First), N: IDsLen}, {Inside: uint64(root), N: 1}}
	if cuts[1].Inside < cuts[0].Inside {
		cuts[0], cuts[1] = cuts[1], cuts[0]
	}
	spans := []fork.Span{{Inside: uint64(root), Outside: uint64(i.First), N: 1}}
	from := uint64(0)
	for _, cut := range append(cuts, fork.Span{Inside: noID}) {
		if cut.Inside > from {
			spans = append(spans, fork.Span{Inside: from, Outside: from, N: cut.Inside - from})
		}
		from = cut.Inside + cut.N
	}
	return spans
}

// spaces holds the user namespaces for a container's mounts and its command.
type spaces struct{ own, machine int }

// newSpaces makes the user namespaces of a container with a separate id range. The thread must be locked and outside of
// any container.
func newSpaces(ids *IDs) (*spaces, error) {
	if ids == nil {
		return nil, nil
	}
	own, err := fork.NewSpace(ids.own(), ids.own())
	if err != nil {
		return nil, err
	}
	machine, err := fork.NewSpace(ids.plain(ids.UID), ids.plain(ids.GID))
	if err != nil {
		unix.Close(own)
		return nil, err
	}
	return &spaces{own, machine}, nil
}

func (s *spaces) close() {
	if s != nil {
		unix.Close(s.own)
		unix.Close(s.machine)
	}
}

// Spaces returns the same namespaces for a caller that makes mounts before the container exists: one for mounts of the
// image, one for mounts of host directories.
func (i *IDs) Spaces() (image, machine *os.File, err error) {
	runtime.LockOSThread() // the makers of the namespaces are children of this thread
	defer runtime.UnlockOSThread()
	made, err := newSpaces(i)
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(made.own), "image"), os.NewFile(uintptr(made.machine), "machine"), nil
}

// mapMount sets the id mapping of a detached mount.
func mapMount(tree int, space int) error {
	attributes := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(space)}
	err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attributes)
	if err == unix.EINVAL {
		return errUnmappable
	}
	return err
}

// TryIDs checks whether containers can have separate id ranges if their roots and layers are on the file system of a
// folder.
func TryIDs(folder string) error {
	at, err := os.MkdirTemp(folder, "try-")
	if err != nil {
		return err
	}
	defer tree.Remove(at)
	image, layer := filepath.Join(at, "image"), filepath.Join(at, "layer")
	if err := errors.Join(os.Mkdir(image, 0o755), os.Mkdir(layer, 0o755)); err != nil {
		return err
	}
	return InOwnMounts(func() error {
		spec := &Spec{IDs: &IDs{First: noID - 1 - 2*IDsLen, UID: IDsLen - 2, GID: IDsLen - 2}, Rootfs: image, Layer: layer}
		spaces, err := newSpaces(spec.IDs)
		if err != nil {
			return err
		}
		defer spaces.close()
		r := &root{spec: spec, order: &order{Spec: *spec, Base: at}, spaces: spaces}
		mount, err := cloneTree(at)
		if err == nil {
			err = r.mapPlain(mount)
			unix.Close(mount)
		}
		if err != nil {
			return err
		}
		if mount, err = r.takeRootfs(); err == nil {
			unix.Close(mount)
		}
		return err
	})
}

// errUnmappable reports a file system that does not support idmapped mounts.
var errUnmappable = errors.New("the file system does not support idmapped mounts, which a " +
	"container with a separate id range needs")
