//go:build unix

package identity

import (
	"io/fs"
	"os"
	"syscall"
)

// This file owns the transfer of file ownership on systems with file owners.

// give changes the owner of a file that root has created to the owner of another file. Without root, it does nothing.
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
