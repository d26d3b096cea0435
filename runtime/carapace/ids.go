//go:build linux

package carapace

// A user namespace for the task alone: its users and groups 0 to 65535 are numbers of the machine's that nobody else
// has. The task enters it last of all (fork/command.go): its processes, mounts and networks stay the machine's to
// command, so that root in there has rights over files and processes with its own numbers, and none over the container.
//
// This file owns which number is which. In the image, and in what the task writes to its layer, 0 is First, 1 the next
// one and so on. In the machine's directories root is one plain user, and all others of the container own nothing, so
// that no number of the container is left on a disk that others see.

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

// IDs are a container's own numbers.
type IDs struct {
	// First is the machine's number of the container's 0, for users and for groups. IDsLen numbers belong to the
	// container.
	First uint32 `json:"first"`
	// UID and GID are the numbers that root of the container has in the machine's directories.
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`
}

// IDsLen is how many numbers a container has: as many as distributions count on.
const IDsLen = 65536

// noID is a number that no user and no group has.
const noID = 1<<32 - 1

func (i *IDs) validate() error {
	if i == nil {
		return nil
	}
	last := uint64(i.First) + IDsLen - 1
	within := func(id uint32) bool { return i.First <= id && uint64(id) <= last }
	switch {
	case i.First < IDsLen || last >= noID:
		return &SpecError{"ids", fmt.Sprintf("%d to %d are none of the machine's numbers from %d to %d", i.First, last,
			IDsLen, uint32(noID-1))}
	case i.UID == 0 || i.UID == noID || i.GID == noID || within(i.UID) || within(i.GID):
		return &SpecError{"ids", fmt.Sprintf("%d:%d cannot be root of the container in the machine's directories", i.UID,
			i.GID)}
	}
	return nil
}

// outside is the machine's number for one of the container.
func (i *IDs) outside(id int) uint32 {
	if i == nil {
		return uint32(id)
	}
	return i.First + uint32(id)
}

// own maps the container's numbers.
func (i *IDs) own() []fork.Span { return []fork.Span{{Outside: uint64(i.First), N: IDsLen}} }

// plain maps the numbers of the machine's files to those that the container sees: each is itself, but for one, which is
// that of root. No file has a number of the container, and none can get one.
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

// spaces are the user namespaces that a container's mounts and its command are made with.
type spaces struct{ own, machine int }

// newSpaces makes them, for a container that has numbers of its own. The thread must be locked, and at home.
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

// Spaces are the same for a caller that makes mounts for a container before the container: those of its image, and of
// the machine's directories.
func (i *IDs) Spaces() (image, machine *os.File, err error) {
	runtime.LockOSThread() // whose children the makers of the namespaces are
	defer runtime.UnlockOSThread()
	made, err := newSpaces(i)
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(made.own), "image"), os.NewFile(uintptr(made.machine), "machine"), nil
}

// mapMount has a mount that is nowhere yet show its files under other numbers.
func mapMount(tree int, space int) error {
	attributes := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(space)}
	err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attributes)
	if err == unix.EINVAL {
		return errUnmappable
	}
	return err
}

// TryIDs finds out whether containers can have numbers of their own whose roots and layers lie on the file system of a
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

// errUnmappable is a file system that knows no other numbers than those on its disk.
var errUnmappable = errors.New("its file system cannot be shown under other users' numbers (idmapped mounts), as " +
	"root of a container of its own needs it")
