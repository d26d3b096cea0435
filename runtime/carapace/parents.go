//go:build linux

// The groups above those of the containers. All on this machine share them that have the same name for them. Nobody
// owns them: whoever finds them empty takes them away, so that nothing is left of what has gone. A container of ours
// makes them again when they have gone under its hands (makeLeaf); other programs that make containers do not look
// again, and hold them.
package carapace

import (
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// HoldParents keeps the parent groups from being taken away until it is released, or this process ends.
func HoldParents(cgroups Cgroups) (release func()) {
	lock, _ := lockParents(cgroups, unix.LOCK_SH)
	return func() { _ = lock.Close() }
}

// lockParents locks the folder that all cgroups are in. Anybody may open that folder, a task too, and lock out anybody;
// so it is tried for a moment only, which is longer than the removal of parents takes.
func lockParents(cgroups Cgroups, how int) (lock file, locked bool) {
	lock, err := openFile(cgroups.filled().Root, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return lock, false
	}
	for range 100 {
		if unix.Flock(int(lock), how|unix.LOCK_NB) == nil {
			return lock, true
		}
		time.Sleep(time.Millisecond)
	}
	return lock, false
}

// removeParents takes the parent groups away where nothing is left in them and nobody holds them. Somebody else's makes
// rmdir refuse.
func removeParents(cgroups Cgroups) {
	lock, locked := lockParents(cgroups, unix.LOCK_EX)
	defer lock.Close()
	if !locked {
		return // There is somebody who will need them.
	}
	for _, leaf := range cgroups.Folders() {
		_ = unix.Rmdir(leaf)
	}
	// Other programs that make containers for us make groups in hierarchies that we do not use.
	if cgroups = cgroups.filled(); filepath.IsAbs(cgroups.Parent) && cgroups.Parent != "/" {
		entries, _ := os.ReadDir(cgroups.Root)
		for _, entry := range entries {
			_ = unix.Rmdir(filepath.Join(cgroups.Root, entry.Name(), cgroups.Parent))
		}
	}
}
