//go:build linux

// A user namespace for the task alone: its users and groups 0 to 65535 are numbers of the machine's that nobody else has. The
// task enters it last of all (init_command.go): its processes, mounts and networks stay the machine's to command, so that root
// in there has rights over files and processes with its own numbers, and none over the container.
//
// This file owns which number is which. In the image, and in what the task writes to its layer, 0 is First, 1 the next one
// and so on. In the machine's directories root is one plain user, and all others of the container are nobody who could own
// anything, so that no number of the container's is left on a disk that others see.
package carapace

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/tree"
)

// IDs are a container's own numbers.
type IDs struct {
	// First is the machine's number of the container's 0, for users and for groups. IDsLen numbers are the container's.
	First uint32 `json:"first"`
	// UID and GID are whom root of the container is in the machine's directories.
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`
}

// IDsLen is how many numbers a container has: as many as distributions count on.
const IDsLen = 65536

// noID is what no user and no group is.
const noID = 1<<32 - 1

func (i *IDs) validate() error {
	if i == nil {
		return nil
	}
	last := uint64(i.First) + IDsLen - 1
	within := func(id uint32) bool { return i.First <= id && uint64(id) <= last }
	switch {
	case i.First < IDsLen || last >= noID:
		return &SpecError{"ids", fmt.Sprintf("%d to %d are none of the machine's numbers from %d to %d", i.First, last, IDsLen, uint32(noID-1))}
	case i.UID == 0 || i.UID == noID || i.GID == noID || within(i.UID) || within(i.GID):
		return &SpecError{"ids", fmt.Sprintf("%d:%d cannot be root of the container in the machine's directories", i.UID, i.GID)}
	}
	return nil
}

// outside is the machine's number of one of the container's.
func (i *IDs) outside(id int) uint32 {
	if i == nil {
		return uint32(id)
	}
	return i.First + uint32(id)
}

// span maps numbers: so many from inside are those from outside.
type span struct{ inside, outside, n uint64 }

// own maps the container's numbers.
func (i *IDs) own() []span { return []span{{0, uint64(i.First), IDsLen}} }

// plain maps the numbers of the machine's files to those that the container sees: each is itself, but for one, which is root's.
// The container's own are no file's, and no file can become theirs.
func (i *IDs) plain(root uint32) []span {
	cuts := []span{{inside: uint64(i.First), n: IDsLen}, {inside: uint64(root), n: 1}}
	slices.SortFunc(cuts, func(a, b span) int { return cmp.Compare(a.inside, b.inside) })
	spans := []span{{uint64(root), uint64(i.First), 1}}
	from := uint64(0)
	for _, cut := range append(cuts, span{inside: noID}) {
		if cut.inside > from {
			spans = append(spans, span{from, from, cut.inside - from})
		}
		from = cut.inside + cut.n
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
	own, err := newUserNamespace(ids.own(), ids.own())
	if err != nil {
		return nil, err
	}
	machine, err := newUserNamespace(ids.plain(ids.UID), ids.plain(ids.GID))
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

// Spaces are the same for who makes mounts for a container before it is made: those of its image, and of the machine's
// directories.
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
func mapMount(tree, space int) error {
	attributes := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(space)}
	err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attributes)
	if err == unix.EINVAL {
		return errUnmappable
	}
	return err
}

// TryIDs finds out whether containers can have numbers of their own whose roots and layers lie on the file system of a folder.
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
var errUnmappable = errors.New("its file system cannot be shown under other users' numbers (idmapped mounts), as root of a container " +
	"of its own needs it")

// newUserNamespace makes one, by a process that is made in it and ends when it is open here.
func newUserNamespace(uids, gids []span) (int, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("user namespace: %w", err)
	}
	ours := channel(pair[0])
	defer unix.Close(pair[0])
	theirs, err := aboveStdio(pair[1])
	if err != nil {
		return -1, fmt.Errorf("user namespace: %w", err)
	}
	pid, err := forkHolder(theirs)
	unix.Close(theirs)
	if err != nil {
		return -1, fmt.Errorf("user namespace: %w", err)
	}
	defer func() {
		_ = unix.Shutdown(pair[0], unix.SHUT_RDWR) // the process has nothing else to live for
		for {
			if _, err := unix.Wait4(pid, nil, 0, nil); err != unix.EINTR {
				return
			}
		}
	}()
	m := &maker{socket: ours}
	said, err := m.hear()
	if err == nil && said.value != 0 {
		err = unix.Errno(said.value)
	}
	if err != nil {
		return -1, fmt.Errorf("user namespace: %w", err)
	}
	of := "/proc/" + strconv.Itoa(pid)
	for name, spans := range map[string][]span{"/uid_map": uids, "/gid_map": gids} {
		if err := writeMap(of+name, spans); err != nil {
			return -1, fmt.Errorf("user namespace: %w", err)
		}
	}
	return unix.Open(of+"/ns/user", unix.O_RDONLY|unix.O_CLOEXEC, 0)
}

// writeMap writes a map, which the kernel takes in one call.
func writeMap(path string, spans []span) error {
	var text strings.Builder
	for _, s := range spans {
		fmt.Fprintln(&text, s.inside, s.outside, s.n)
	}
	return os.WriteFile(path, []byte(text.String()), 0)
}

// forkHolder forks the process.
func forkHolder(socket int) (pid int, err error) {
	n, err := newNest()
	if err != nil {
		return 0, err
	}
	defer n.free()
	n.socket, n.holdsIDs, n.clone.exitSignal = uintptr(socket), true, uint64(unix.SIGCHLD)
	n.keep(n.socket)
	return n.fork()
}
