//go:build linux

package carapace

// This file builds the container's root from a directory. The directory usually belongs to an image and is shared, so a
// layer receives the writes.

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/hostpath"
)

// bindRootfs mounts a rootfs directory at the container's root, with a writable layer if requested.
func (r *root) bindRootfs(top string) error {
	tree, err := r.takeRootfs()
	if err != nil {
		return fmt.Errorf("rootfs: %w", err)
	}
	attributes := uint64(unix.MOUNT_ATTR_NOSUID)
	if r.spec.IDs != nil {
		attributes = 0 // Set-user-id programs are safe, because all users are the container's own.
	}
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

// takeRootfs returns the directory, with its layer, as a detached mount.
func (r *root) takeRootfs() (tree int, err error) {
	if r.spec.Image != nil {
		tree, err = r.spec.Image.Clone(false)
		if err == nil && r.spec.Image.Held == 0 { // A held mount already has its id mapping.
			err = r.mapImage(tree)
		}
		if err != nil || r.spec.Layer == "" {
			return tree, err
		}
		return r.layOver(tree)
	}
	if stat, err := os.Stat(r.spec.Rootfs); err != nil {
		return -1, err
	} else if !stat.IsDir() {
		return -1, fmt.Errorf("%s is not a directory", r.spec.Rootfs)
	}
	if r.spec.Layer != "" && r.spaces == nil {
		return r.newOverlay(r.spec.Rootfs)
	}
	if tree, err = cloneTree(r.spec.Rootfs); err == nil {
		err = r.mapImage(tree)
	}
	if err != nil || r.spec.Layer == "" {
		return tree, err
	}
	return r.layOver(tree)
}

// mapImage maps the files of a directory to the container's ids.
func (r *root) mapImage(tree int) error {
	if r.spaces == nil {
		return nil
	}
	return mapMount(tree, r.spaces.own)
}

// layOver returns a detached overlay of a detached mount and the layer. It first attaches the mount next to the
// container's root, which no path of the container reaches. Kernels before Linux 6.15 can overlay only an attached
// mount.
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
	return r.newOverlay(hostpath.Link(place))
}

// newOverlay makes an overlay of a shared directory and the layer that receives the writes.
func (r *root) newOverlay(lower string) (tree int, err error) {
	upper, work := filepath.Join(r.spec.Layer, "upper"), filepath.Join(r.spec.Layer, "work")
	for _, folder := range []string{upper, work} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return -1, fmt.Errorf("layer: %w", err)
		}
	}
	if r.spec.IDs != nil { // set the owner of the root directory
		first := int(r.spec.IDs.First)
		if err := os.Chown(upper, first, first); err != nil {
			return -1, fmt.Errorf("layer: %w", err)
		}
	}
	if tree, err = newMount("overlay", 0, "lowerdir="+lower, "upperdir="+upper, "workdir="+work); err == nil {
		r.owns(tree)
	}
	return tree, err
}
