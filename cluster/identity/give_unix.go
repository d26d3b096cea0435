//go:build unix

package identity

import (
	"io/fs"
	"os"
	"syscall"
)

// This file owns to whom files are given where they have owners.

// give gives to somebody what root has made. Nobody else could.
func give(made *os.File, to fs.FileInfo) error {
	info, err := made.Stat()
	if err != nil {
		return err
	}
	has, known := info.Sys().(*syscall.Stat_t)
	owner, ok := to.Sys().(*syscall.Stat_t)
	if !ok || !known || os.Geteuid() != 0 || has.Uid == owner.Uid && has.Gid == owner.Gid {
		return nil
	}
	return made.Chown(int(owner.Uid), int(owner.Gid))
}
