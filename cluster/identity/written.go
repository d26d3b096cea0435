package identity

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// This file owns how files are written into a folder: completely or not at all.

// replace writes a new version next to the old one and renames it. The caller is the folder's owner. Only the owner can
// read temporary files.
func replace(path string, data []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // already renamed, unless an error occurred
	if err := errors.Join(fill(file, data), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

func fill(file *os.File, data []byte) error {
	if _, err := file.Write(data); err != nil {
		return err
	}
	return file.Sync()
}

// Write replaces a file in a folder below this one. An operator calls it as root, and the scheduler that reads the file
// may run as another user. The file gets the owner of this folder. That user may put links into the folder, so Write
// follows no link out of it and changes no owner by path.
func (f *Folder) Write(name string, data []byte) error {
	root, err := os.OpenRoot(f.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	owner, err := root.Stat(".")
	if err != nil {
		return err
	}
	folder := filepath.Dir(name)
	if err := root.Mkdir(folder, folderMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	within, err := root.Open(folder)
	if err != nil {
		return err
	}
	defer within.Close()
	if err := give(within, owner); err != nil {
		return err
	}
	fresh := filepath.Join(folder, ".new-"+rand.Text())
	file, err := root.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer root.Remove(fresh) // already renamed, unless an error occurred
	if err = errors.Join(fill(file, data), give(file, owner), file.Close()); err != nil {
		return err
	}
	if err := root.Rename(fresh, name); err != nil {
		return err
	}
	return within.Sync()
}
