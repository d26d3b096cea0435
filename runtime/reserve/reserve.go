//go:build linux

// Package reserve owns how much of a node's disk stays free, and for whom. It asks the file system and nobody else:
// what an archive or a job says of its own size is no measure.
package reserve

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/tree"
)

// Each of these is one part of so many of a disk that stays free. The order is the order of what ends when the disk
// gets short: cached images, then pulls, then tasks.
const (
	// Cache is free before cached images that nobody uses are kept.
	Cache = 10
	// Pulls is free before an image may take more.
	Pulls = 16
	// Tasks is what all tasks together leave free.
	Tasks = 20
)

// Disk holds the size of a file system, in bytes and files. A file system that does not count files has very many.
type Disk struct{ Size, Free tree.Usage }

// ManyFiles stands for the files of a file system that counts none.
const ManyFiles = 1 << 40

// Of is the disk that a path is on.
func Of(path string) (Disk, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(path, &stat); err != nil {
		return Disk{}, fmt.Errorf("the disk of %s: %w", path, err)
	}
	return from(&stat), nil
}

// At is the disk that an open file is on.
func At(fd int) (Disk, error) {
	var stat unix.Statfs_t
	if err := unix.Fstatfs(fd, &stat); err != nil {
		return Disk{}, fmt.Errorf("the disk: %w", err)
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

// Share is one part of so many of the disk.
func (d Disk) Share(parts int64) tree.Usage {
	return tree.Usage{Bytes: d.Size.Bytes / parts, Files: d.Size.Files / parts}
}

// Lacks reports whether less is free than that.
func (d Disk) Lacks(least tree.Usage) bool {
	return d.Free.Bytes < least.Bytes || d.Free.Files < least.Files
}
