package launcher

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/tree"
)

// This file owns how much of a machine's disk a task may keep, and when the disk is too full for what all of them keep.

const (
	// shareOfFree is what a task may keep where its job says nothing: a tenth of what is free when it is prepared.
	shareOfFree = 10
	// shareLeft is what all tasks together leave free: a twentieth of the disk.
	shareLeft = 20
	// least is what a task may keep in any case: what the agent itself puts there is in it.
	leastBytes = 1 << 20
	leastFiles = 256
)

// space is what a file system has, in bytes and files. One that counts no files has very many.
type space struct{ size, free tree.Usage }

func spaceOf(dir string) (space, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return space{}, fmt.Errorf("the disk of %s: %w", dir, err)
	}
	block := int64(stat.Bsize)
	s := space{
		size: tree.Usage{Bytes: int64(stat.Blocks) * block, Files: int64(stat.Files)},
		free: tree.Usage{Bytes: int64(stat.Bavail) * block, Files: int64(stat.Ffree)},
	}
	if stat.Files == 0 {
		s.size.Files, s.free.Files = manyFiles, manyFiles
	}
	return s, nil
}

const manyFiles = 1 << 40

// allowance is what a task may keep: what its job asked for, or its share. Files are allowed in the same proportion.
func (s space) allowance(job *messages.JobSpec) tree.Usage {
	bytes := s.free.Bytes / shareOfFree
	files := s.free.Files / shareOfFree
	if asked := job.GetDiskBytes(); asked > 0 {
		if asked > bytes && bytes > 0 {
			files = int64(min(float64(s.free.Files), float64(files)*(float64(asked)/float64(bytes))))
		}
		bytes = asked
	}
	return tree.Usage{Bytes: max(bytes, leastBytes), Files: max(files, leastFiles)}
}

// tight reports whether less than a twentieth of the disk is free: then nothing is kept of tasks that have ended.
func (s space) tight() bool {
	return s.free.Bytes < s.size.Bytes/shareLeft || s.free.Files < s.size.Files/shareLeft
}

// full reports whether tasks that keep so much must end for it. Where others than tasks have the disk, tasks leave half of
// what there was for them: to end them all would not give a twentieth back.
func (s space) full(held tree.Usage) bool {
	short := func(size, free, held int64) bool { return free < min(size/shareLeft, (free+held)/2) }
	return short(s.size.Bytes, s.free.Bytes, held.Bytes) || short(s.size.Files, s.free.Files, held.Files)
}

// heavier compares what two tasks keep of a disk: by bytes, or by files where those are what the disk lacks.
func (s space) heavier(a, b tree.Usage) bool {
	if s.free.Bytes >= s.size.Bytes/shareLeft {
		return a.Files > b.Files
	}
	return a.Bytes > b.Bytes
}
