package identity

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// This file owns how files come into a folder: each is there whole or not at all, and belongs to whom the folder
// belongs. An operator is root, and the scheduler that is to read what he wrote need not be. That user may do in the
// folder what he likes, so nothing is reached through a link that leads out of it, and nothing is given away by its
// name.

// Write replaces a file of the folder, or of a folder in it.
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
	defer root.Remove(fresh) // not there any more, unless something failed
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, give(file, owner), file.Close()); err != nil {
		return err
	}
	if err := root.Rename(fresh, name); err != nil {
		return err
	}
	return within.Sync()
}
