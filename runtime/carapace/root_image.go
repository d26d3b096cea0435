//go:build linux

// The container's root where it is a directory: an image's, which others use too, under a layer that takes what is written.
package carapace

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/door"
)

// bindRootfs puts a rootfs directory at the container's root, under a writable layer if one is asked for.
func (r *root) bindRootfs(top string) error {
	tree, err := r.takeRootfs()
	if err != nil {
		return fmt.Errorf("rootfs: %w", err)
	}
	attributes := uint64(unix.MOUNT_ATTR_NOSUID)
	if !r.order.Rootless {
		attributes |= unix.MOUNT_ATTR_NODEV
	}
	if r.spec.ReadOnly {
		attributes |= unix.MOUNT_ATTR_RDONLY
	}
	if err := setAttributes(tree, attributes, unix.AT_RECURSIVE); err != nil {
		return fmt.Errorf("rootfs: %w", err)
	}
	return attachAt(tree, top)
}

// takeRootfs answers the directory, under its layer, as a detached mount.
func (r *root) takeRootfs() (tree int, err error) {
	if r.spec.Image != nil {
		if tree, err = r.spec.Image.Clone(false); err != nil || r.spec.Layer == "" {
			return tree, err
		}
		return r.layOver(tree)
	}
	if stat, err := os.Stat(r.spec.Rootfs); err != nil {
		return -1, err
	} else if !stat.IsDir() {
		return -1, fmt.Errorf("%s is no directory", r.spec.Rootfs)
	}
	if r.spec.Layer == "" {
		return cloneTree(r.spec.Rootfs)
	}
	return r.newOverlay(r.spec.Rootfs)
}

// layOver answers a detached mount under the layer. It is put beside the container's root first, where nothing of the
// container leads: kernels before Linux 6.15 overlay only what is mounted somewhere.
func (r *root) layOver(lower int) (tree int, err error) {
	path := filepath.Join(r.order.Base, "lower")
	if err := os.Mkdir(path, 0o700); err != nil {
		unix.Close(lower)
		return -1, err
	}
	if err := attachAt(lower, path); err != nil {
		return -1, err
	}
	place, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(place)
	return r.newOverlay(door.Link(place))
}

// newOverlay makes a directory that others use, under the layer that takes what is written.
func (r *root) newOverlay(lower string) (tree int, err error) {
	upper, work := filepath.Join(r.spec.Layer, "upper"), filepath.Join(r.spec.Layer, "work")
	for _, folder := range []string{upper, work} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return -1, fmt.Errorf("layer: %w", err)
		}
	}
	if tree, err = newMount("overlay", 0, "lowerdir="+lower, "upperdir="+upper, "workdir="+work); err == nil {
		r.owns(tree)
	}
	return tree, err
}
