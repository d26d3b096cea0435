package launcher

import (
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/supervisor"
)

// This file counts disk space that a task uses without a name: removed files that it still has open or mapped. A walk
// through a tree does not see them. To check all open files of the processes costs more than a walk. Therefore it is
// done only if the disk has lost more space than the task's tree explains.

// unlinkedPace is the number of descriptors between two calls of goOn.
const unlinkedPace = 256

// unlinked is one search for a task's files without names.
type unlinked struct {
	device uint64 // of the scratch directories
	seen   map[[2]uint64]bool
	bytes  int64
	looked int
	goOn   func() bool
}

// unlinkedBytes returns the disk space of such files below the task's scratch directory or in a container's layer. It
// calls goOn at intervals, because a task may have very many open files.
func (t *task) unlinkedBytes(goOn func() bool) int64 {
	var scratch unix.Stat_t
	state, err := supervisor.ReadState(t.home)
	if err != nil || state == nil || unix.Stat(t.Scratch, &scratch) != nil {
		return 0
	}
	leader, ok := supervisor.ReadProcess(state.PID)
	if !ok || leader.Start != state.Start {
		return 0
	}
	u := &unlinked{device: scratch.Dev, seen: map[[2]uint64]bool{}, goOn: goOn}
	for _, p := range supervisor.Descendants(leader.Parent, supervisor.Processes()) {
		for _, list := range []string{"fd", "map_files"} {
			if !u.search(filepath.Join("/proc", strconv.Itoa(p.PID), list)) {
				return u.bytes
			}
		}
	}
	return u.bytes
}

// search checks one list of a process's files.
func (u *unlinked) search(list string) (goOn bool) {
	fd, err := unix.Open(list, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return true // the process has ended
	}
	defer unix.Close(fd)
	buffer := make([]byte, 32<<10)
	for {
		n, err := unix.ReadDirent(fd, buffer)
		if err != nil || n <= 0 {
			return true
		}
		_, _, names := unix.ParseDirent(buffer[:n], -1, nil)
		for _, name := range names {
			if u.looked++; u.looked%unlinkedPace == 0 && !u.goOn() {
				return false
			}
			u.look(fd, list, name)
		}
	}
}

// look counts a file, unless it is on another disk or in memory. It reads the kernel's link first, which shows whether
// the file has a name. To query the file itself may block on a remote file system.
func (u *unlinked) look(at int, list, name string) {
	var target [unix.PathMax]byte
	n, err := unix.Readlinkat(at, name, target[:])
	if err != nil || n < len(target) && !strings.HasSuffix(string(target[:n]), " (deleted)") {
		return
	}
	var stat unix.Stat_t
	if unix.Fstatat(at, name, &stat, 0) != nil || stat.Nlink > 0 || stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return
	}
	file := [2]uint64{stat.Dev, stat.Ino}
	if !u.seen[file] && (stat.Dev == u.device || onOverlay(filepath.Join(list, name))) {
		u.seen[file] = true
		u.bytes += stat.Blocks * 512
	}
}

func onOverlay(path string) bool {
	var stat unix.Statfs_t
	return unix.Statfs(path, &stat) == nil && stat.Type == unix.OVERLAYFS_SUPER_MAGIC
}
