//go:build linux

package carapace

// This file owns the parent groups of the containers' groups. All processes of the host that use the same parent name
// share them, and none owns them. A process that finds them empty removes them, so nothing is left behind. If the
// parents vanish, makeLeaf makes them again. Other container runtimes do not retry, so they hold the parents.

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// lockPause is the pause between two tries to lock.
const lockPause = time.Millisecond

// HoldParents prevents the removal of the parent groups of one name until release is called or this process ends.
func HoldParents(cgroups Cgroups) (release func()) {
	lock, _ := lockParents(cgroups, unix.LOCK_SH, 1000)
	return func() { _ = lock.Close() }
}

// lockParents locks the parent groups of one name. Any process that can open their folders can block all others, so
// lockParents gives up after a moment. The moment is longer than one removal of the parents, and for a shared lock
// longer than many removals.
func lockParents(cgroups Cgroups, how, tries int) (lock file, locked bool) {
	folder := cgroups.lockedFolder()
	if folder == "" {
		return -1, false
	}
	for range tries {
		// An existing folder may vanish before the check, which is the same kind of error.
		if err := os.MkdirAll(folder, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return -1, false // A process that cannot make the folders needs no lock.
		}
		if lock, locked = tryLock(folder, how); locked {
			return lock, true
		}
		time.Sleep(lockPause)
	}
	return -1, false
}

// lockedFolder returns the parent group that is locked, or "". It is not the first, which may belong to cpuset and
// needs more than mkdir.
func (c Cgroups) lockedFolder() string {
	folders := c.Folders()
	if len(folders) == 0 {
		return ""
	}
	return folders[len(folders)-1]
}

// tryLock locks a folder. If the folder was removed and made again meanwhile, the lock has no effect, and tryLock
// returns false.
func tryLock(folder string, how int) (lock file, locked bool) {
	lock, err := openFile(folder, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return -1, false
	}
	var opened, there unix.Stat_t
	if unix.Flock(int(lock), how|unix.LOCK_NB) == nil && unix.Fstat(int(lock), &opened) == nil &&
		unix.Stat(folder, &there) == nil && opened.Dev == there.Dev && opened.Ino == there.Ino {
		return lock, true
	}
	_ = lock.Close()
	return -1, false
}

// removeParents removes the parent groups if they are empty and no process holds them. rmdir fails for a group that is
// not empty. Each removal may take long, so other processes can take the lock between two of them. If no parent exists,
// nothing is locked.
func removeParents(cgroups Cgroups) {
	folders := cgroups.Folders()
	if c := cgroups.filled(); filepath.IsAbs(c.Parent) && c.Parent != "/" {
		folders = append(folders, c.Everywhere("")...)
	}
	folders = slices.DeleteFunc(folders, func(folder string) bool {
		_, err := os.Lstat(folder)
		return err != nil
	})
	if len(folders) == 0 {
		return
	}
	lock, locked := lockParents(cgroups, unix.LOCK_EX, 100)
	defer func() { _ = lock.Close() }()
	if !locked {
		return // Another process needs the parents.
	}
	last := cgroups.lockedFolder()
	for _, folder := range folders {
		if folder == last || unix.Rmdir(folder) != nil {
			continue
		}
		_ = lock.Close()
		time.Sleep(2 * lockPause)
		if lock, locked = lockParents(cgroups, unix.LOCK_EX, 1); !locked {
			return
		}
	}
	_ = unix.Rmdir(last) // After this removal, another process may lock a new folder of that name.
}
