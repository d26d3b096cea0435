package supervisor

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// This file ends a task that keeps too much on the node's disk, and detects a start that failed because of a full disk.
// The agent measures, because it sees all tasks. The supervisor ends the task and writes the exit record into space
// that was reserved before the start.

// Commands of an agent that end a task because of the disk. Each has two numbers: the task's usage and its limit.
const (
	DiskBytes = "diskBytes"
	DiskFiles = "diskFiles"
	DiskFull  = "diskFull" // the second number is the free space of the node's disk
	DiskGrew  = "diskGrew" // the first number is the task's growth after the disk became short
)

// diskWords returns the reason for users.
func diskWords(c command) string {
	switch c.verb {
	case DiskBytes:
		return fmt.Sprintf("the task kept %s in its scratch directory, layer and output, and may keep %s (resources.disk)",
			mib(c.first), mib(c.second))
	case DiskFiles:
		return fmt.Sprintf("the task kept %d files in its scratch directory, layer and output, and may keep %d",
			c.first, c.second)
	case DiskGrew:
		return fmt.Sprintf("the node's disk was nearly full (%s left), and of the tasks without a separate disk limit, "+
			"this task had grown most after the disk became short: %s; set resources.disk", mib(c.second), mib(c.first))
	}
	return fmt.Sprintf("the node's disk was nearly full (%s left), and of all its tasks, this task kept most: %s",
		mib(c.second), mib(c.first))
}

func mib(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }

// EndForDisk ends the task at once for one of the reasons. An earlier supervisor ignores commands that it does not
// know. Therefore EndForDisk also sends an older command, and finally a stop.
func (l *Link) EndForDisk(why string, kept, limit int64) error {
	words := []string{why}
	if why == DiskGrew {
		words = append(words, DiskFull)
	}
	for _, word := range words {
		if err := l.send(fmt.Sprintf("%s %d %d", word, kept, limit)); err != nil {
			return err
		}
	}
	return l.Stop(9, 0)
}

// shareLeft is the share of the disk below which it counts as full: a twentieth.
const shareLeft = 20

// NoRoom reports whether an error was caused by a full disk of dir. Tasks fill disks, and the agent frees space again,
// so such a failure does not blame the node. The same error without a full disk is a limit of the kernel, for instance
// on namespaces. The node is at fault then.
func NoRoom(dir string, err error) bool {
	var stat unix.Statfs_t
	if !errors.Is(err, unix.ENOSPC) || unix.Statfs(dir, &stat) != nil {
		return false
	}
	return stat.Bavail < stat.Blocks/shareLeft || stat.Ffree < stat.Files/shareLeft
}
