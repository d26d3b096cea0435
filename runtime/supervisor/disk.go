package supervisor

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// This file owns how a task ends that keeps too much on the machine's disk, and how one is told that could not begin
// on a full disk. The agent measures, because it sees all tasks; the supervisor ends the task and writes down why, in
// the room that was reserved for that before the task began.

// The words of an agent that end a task for the disk. Each has two numbers: what the task keeps, and what it may.
const (
	DiskBytes = "diskBytes"
	DiskFiles = "diskFiles"
	DiskFull  = "diskFull" // the second number is what is left of the machine's disk
	DiskGrew  = "diskGrew" // the first number is what the task added since the disk got short
)

// diskWords is the reason as people read it.
func diskWords(c command) string {
	switch c.verb {
	case DiskBytes:
		return fmt.Sprintf("it kept %s in its scratch directory, layer and output, and may keep %s (resources.disk)",
			mib(c.first), mib(c.second))
	case DiskFiles:
		return fmt.Sprintf("it kept %d files in its scratch directory, layer and output, and may keep %d", c.first, c.second)
	case DiskGrew:
		return fmt.Sprintf("the machine's disk was nearly full (%s left), and of the tasks without a disk limit of their "+
			"own it had added most since the disk got short: %s; give the job resources.disk", mib(c.second), mib(c.first))
	}
	return fmt.Sprintf("the machine's disk was nearly full (%s left), and of all tasks there it kept most: %s",
		mib(c.second), mib(c.first))
}

func mib(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }

// EndForDisk ends the task at once, for one of the reasons. A supervisor that does not know the newest word is told the
// one before, and one that knows none is stopped.
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

// shareLeft is how much of a disk is free that is not full: a twentieth.
const shareLeft = 20

// NoRoom reports whether something failed because the disk that dir is on is full. Tasks fill disks, and the agent's
// watch makes room again: such a failure says nothing about the machine. The same error without a full disk is a quota
// of the kernel, on namespaces for instance, and the machine is at fault as ever.
func NoRoom(dir string, err error) bool {
	var stat unix.Statfs_t
	if !errors.Is(err, unix.ENOSPC) || unix.Statfs(dir, &stat) != nil {
		return false
	}
	return stat.Bavail < stat.Blocks/shareLeft || stat.Ffree < stat.Files/shareLeft
}
