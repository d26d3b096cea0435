// Package file replaces files in one step: whoever reads one finds a whole version, the last or the one before.
package file

import (
	"os"
	"path/filepath"
)

// mode lets the owner alone read what is written here.
const mode = 0o600

// Replace puts a whole new version in the place of a file. After a power loss there may be neither version: it is for
// files that the next boot does not need or can make again.
func Replace(path string, data []byte) error { return replace(path, data, false) }

// ReplaceDurably is Replace, and waits until the disk has the new version.
func ReplaceDurably(path string, data []byte) error { return replace(path, data, true) }

// Spare is where the next version of a file is written first. A caller that must not fail for lack of room reserves it
// there in advance.
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

// Write makes data the whole content of a file, in place, and durable if asked. It uses the room that the file has.
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

// SyncDir waits until the disk has the names in a directory.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
