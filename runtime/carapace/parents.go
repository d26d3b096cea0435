//go:build linux

package carapace

// The groups above those of the containers. All on this machine share them that have the same name for them. Nobody
// owns them: whoever finds them empty takes them away, so that nothing is left of what has gone. A container of ours
// makes them again when they have gone under its hands (makeLeaf); other programs that make containers do not look
// again, and hold them.

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// lockPause is how long whoever waits for a lock rests between two tries.
const lockPause = time.Millisecond

// HoldParents keeps the parent groups of one name from being taken away until it is released, or this process ends.
func HoldParents(cgroups Cgroups) (release func()) {
	lock, _ := lockParents(cgroups, unix.LOCK_SH, 1000)
	return func() { _ = lock.Close() }
}

// lockParents locks the parent groups of one name. Every process of this machine that can open their folders can lock
// out all others, so it is tried for a moment only: longer than the removal of parents takes, and to hold them longer
// than many removals in a row take.
func lockParents(cgroups Cgroups, how, tries int) (lock file, locked bool) {
	folder := cgroups.lockedFolder()
	if folder == "" {
		return -1, false
	}
	for range tries {
		// What is there may be gone when it is looked at, which is an error of the same kind.
		if err := os.MkdirAll(folder, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return -1, false // Nobody can take away what nobody can make.
		}
		if lock, locked = tryLock(folder, how); locked {
			return lock, true
		}
		time.Sleep(lockPause)
	}
	return -1, false
}

// lockedFolder is the one by which the parent groups of a name are locked, or "". It is not the first, which may be
// cpuset's: to make that takes more than mkdir.
func (c Cgroups) lockedFolder() string {
	folders := c.Folders()
	if len(folders) == 0 {
		return ""
	}
	return folders[len(folders)-1]
}

// tryLock locks a folder. Before that it may have been taken away, and be there once more as another: such a lock holds
// nothing.
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

// removeParents takes the parent groups away where nothing is left in them and nobody holds them. Somebody else's makes
// rmdir refuse. The kernel may be long at each of them, so whoever waits to hold them has a chance behind each; and
// where there is none, nothing is locked.
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
		return // There is somebody who will need them.
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
	_ = unix.Rmdir(last) // As soon as it has gone, another may lock the next of its name.
}
