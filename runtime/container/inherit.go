//go:build linux

package container

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/yi-json/synapse/runtime/launcher"
)

// This file passes the writable layer of a task on when its gang restarts in place.

// Inherit moves the writable layer of an ended task to a new one. A task that is root in its container gets another
// range of ids, to which the files of the layer would not belong. It begins with an empty layer.
func (d *Driver) Inherit(from, to *launcher.Task) error {
	if d.OwnRoot(to) {
		return nil
	}
	err := os.Rename(filepath.Join(from.Dir, layerName), filepath.Join(to.Dir, layerName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it had none, or it was moved before
	}
	return err
}
