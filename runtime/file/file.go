// Package file replaces files in one step. A reader always sees a complete version, either the new or the previous one.
package file

import (
	"os"
	"path/filepath"
)

// mode permits access only to the owner.
const mode = 0o600

// Replace replaces a file with a new version. After a power failure, both versions may be lost. It is for files that
// the next boot does not need or can make again.
func Replace(path string, data []byte) error { return replace(path, data, false) }

// ReplaceDurably is like Replace, and waits until the new version is on disk.
func ReplaceDurably(path string, data []byte) error { return replace(path, data, true) }

// Spare returns the path at which the next version of a file is written first. A caller that must not fail for lack of
// disk space reserves the space there in advance.
func Spare(path string) string { return path + ".tmp" }

func replace(path string, data []byte, durable bool) error {
	err := Write(Spare(path), data, durable)
	if err == nil {
		err = os.Rename(Spare(path), path)
	}
	if err == nil && durable {
		err = SyncDir(filepath.Dir(path))
	}
	return err
}

// Write overwrites a file in place, and syncs it if durable. It reuses the blocks of the file.
func Write(path string, data []byte, durable bool) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Truncate(int64(len(data)))
	}
	if err == nil && durable {
		err = file.Sync()
	}
	if closing := file.Close(); err == nil {
		err = closing
	}
	return err
}

// SyncDir waits until the names in a directory are on disk.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
