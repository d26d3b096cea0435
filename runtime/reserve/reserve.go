//go:build linux

// Package reserve defines how much of a node's disk stays free, and for which purpose. It uses only the free space that
// the file system reports, because the sizes in archives and jobs are not reliable.
package reserve

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/tree"
)

// Each constant n reserves one n-th of the disk. As the disk becomes short, first cached images are removed, then pulls
// are given up, and then tasks are ended.
const (
	// Cache must be free for unused cached images to be kept.
	Cache = 10
	// Pulls must be free for an image to use more space.
	Pulls = 16
	// Tasks is the part that all tasks together leave free.
	Tasks = 20
)

// Disk holds the size of a file system, in bytes and files. If a file system does not count files, the number is very
// large.
type Disk struct{ Size, Free tree.Usage }

// ManyFiles is the number of files of a file system that does not count them.
const ManyFiles = 1 << 40

// Of returns the disk of a path.
func Of(path string) (Disk, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(path, &stat); err != nil {
		return Disk{}, fmt.Errorf("read the disk of %s: %w", path, err)
	}
	return from(&stat), nil
}

// At returns the disk of an open file.
func At(fd int) (Disk, error) {
	var stat unix.Statfs_t
	if err := unix.Fstatfs(fd, &stat); err != nil {
		return Disk{}, fmt.Errorf("read the disk: %w", err)
	}
	return from(&stat), nil
}

func from(stat *unix.Statfs_t) Disk {
	block := int64(stat.Bsize)
	d := Disk{
		Size: tree.Usage{Bytes: int64(stat.Blocks) * block, Files: int64(stat.Files)},
		Free: tree.Usage{Bytes: int64(stat.Bavail) * block, Files: int64(stat.Ffree)},
	}
	if stat.Files == 0 {
		d.Size.Files, d.Free.Files = ManyFiles, ManyFiles
	}
	return d
}

// Share returns one n-th of the disk for parts = n.
func (d Disk) Share(parts int64) tree.Usage {
	return tree.Usage{Bytes: d.Size.Bytes / parts, Files: d.Size.Files / parts}
}

// Lacks reports whether less than least is free.
func (d Disk) Lacks(least tree.Usage) bool {
	return d.Free.Bytes < least.Bytes || d.Free.Files < least.Files
}
