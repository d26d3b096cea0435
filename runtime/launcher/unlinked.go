package launcher

import (
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/supervisor"
)

// This file owns what a task keeps on the disk without a name: files that it removed and still has open, or in its memory.
// No walk through a tree sees those. To look through all that its processes have open costs more than a walk, so it is done
// only when the disk has lost more than the task's tree can tell of.

// unlinked is how many bytes of the disk that is below the task's scratch directory, or of a container's layer, are such
// files'.
func (t *task) unlinked() (bytes int64) {
	var scratch unix.Stat_t
	state, err := supervisor.ReadState(t.home)
	if err != nil || state == nil || unix.Stat(t.Scratch, &scratch) != nil {
		return 0
	}
	leader, ok := supervisor.ReadProcess(state.PID)
	if !ok || leader.Start != state.Start {
		return 0
	}
	seen := map[[2]uint64]bool{}
	for _, p := range supervisor.Descendants(leader.Parent, supervisor.Processes()) {
		for _, list := range []string{"fd", "map_files"} {
			eachUnlinked(filepath.Join("/proc", strconv.Itoa(p.PID), list), scratch.Dev, func(stat *unix.Stat_t) {
				if file := [2]uint64{stat.Dev, stat.Ino}; !seen[file] {
					seen[file] = true
					bytes += stat.Blocks * 512
				}
			})
		}
	}
	return bytes
}

// eachUnlinked looks through one list of a process's files. What is on another disk, or in memory, is not meant.
func eachUnlinked(list string, device uint64, found func(*unix.Stat_t)) {
	fd, err := unix.Open(list, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return // it has ended
	}
	defer unix.Close(fd)
	buffer := make([]byte, 32<<10)
	for {
		n, err := unix.ReadDirent(fd, buffer)
		if err != nil || n <= 0 {
			return
		}
		_, _, names := unix.ParseDirent(buffer[:n], -1, nil)
		for _, name := range names {
			var stat unix.Stat_t
			if unix.Fstatat(fd, name, &stat, 0) != nil || stat.Nlink > 0 || stat.Mode&unix.S_IFMT != unix.S_IFREG {
				continue
			}
			if stat.Dev == device || onOverlay(filepath.Join(list, name)) {
				found(&stat)
			}
		}
	}
}

func onOverlay(path string) bool {
	var stat unix.Statfs_t
	return unix.Statfs(path, &stat) == nil && stat.Type == unix.OVERLAYFS_SUPER_MAGIC
}
