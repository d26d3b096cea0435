package launcher

import (
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/reserve"
	"github.com/yi-json/synapse/runtime/tree"
)

// This file computes how much disk space a task may keep, whether the disk is too full for the files of all tasks, and
// whether something other than tasks fills it.

const (
	// shareOfFree gives the disk limit of a task whose job states none: a tenth of the free space at its
	// preparation.
	shareOfFree = 10
	// defaultFiles bounds the number of files by default. A walk counts that many files in one or two seconds. A
	// job that requests more disk may have one more file for each bytesPerFile, the usual ratio of file systems.
	defaultFiles = 1 << 20
	bytesPerFile = 16 << 10
	// shareLeft is the share that all tasks together leave free: a twentieth of the disk.
	shareLeft = reserve.Tasks
	// leastBytes and leastFiles are the minimum limit of a task. The minimum covers the agent's own files there.
	leastBytes = 1 << 20
	leastFiles = 256
	// Up to both this share of a disk and this amount, the files of tasks are negligible. To end these tasks would
	// free no useful space.
	shareLittle = 200
	littleBytes = 64 << 20
	littleFiles = 4096
)

// space holds the size of a file system, in bytes and files. If a file system does not count files, the number is very
// large.
type space struct{ size, free tree.Usage }

func spaceOf(dir string) (space, error) {
	disk, err := reserve.Of(dir)
	return space{disk.Size, disk.Free}, err
}

const manyFiles = reserve.ManyFiles

// allowance returns the disk limit of a task: the request of its job, or its share of the free space.
func (s space) allowance(job *messages.JobSpec) tree.Usage {
	bytes, files := s.free.Bytes/shareOfFree, min(s.free.Files/shareOfFree, defaultFiles)
	if asked := job.GetDiskBytes(); asked > 0 {
		bytes, files = asked, min(max(files, asked/bytesPerFile), s.free.Files)
	}
	return tree.Usage{Bytes: max(bytes, leastBytes), Files: max(files, leastFiles)}
}

// unpromised returns the disk without the space that is reserved for tasks, and without the share that all tasks leave
// free.
func (s space) unpromised(promised tree.Usage) space {
	left := func(free, size, promised int64) int64 { return max(free-size/shareLeft-promised, 0) }
	s.free.Bytes = left(s.free.Bytes, s.size.Bytes, promised.Bytes)
	s.free.Files = left(s.free.Files, s.size.Files, promised.Files)
	return s
}

// beyond returns the disk use of a task above the minimum that every task may use.
func beyond(used tree.Usage) tree.Usage {
	return tree.Usage{Bytes: max(used.Bytes-leastBytes, 0), Files: max(used.Files-leastFiles, 0)}
}

// parts returns the two supplies that a disk can lack: bytes and files.
func (s space) parts(held tree.Usage) [2]supply {
	return [2]supply{
		{s.size.Bytes, s.free.Bytes, held.Bytes, littleBytes},
		{s.size.Files, s.free.Files, held.Files, littleFiles},
	}
}

// supply holds the size, the free part, the part of tasks and the negligible amount of bytes or files.
type supply struct{ size, free, held, little int64 }

func (p supply) tight() bool { return p.free < p.size/shareLeft }

// others reports whether something other than tasks uses this supply.
func (p supply) others() bool { return p.held <= min(p.size/shareLittle, p.little) }

// tight reports whether less than a twentieth of the disk is free. No files of finished tasks are then kept.
func (s space) tight() bool {
	parts := s.parts(tree.Usage{})
	return parts[0].tight() || parts[1].tight()
}

// full reports whether tasks that keep this much must end to make room. If something else fills the disk, the tasks
// need to leave free only half of the space available to them. To end all of them would still not free a twentieth. No
// task ends if the tasks keep a negligible amount.
func (s space) full(held tree.Usage) bool {
	for _, p := range s.parts(held) {
		if p.tight() && !p.others() && p.free < (p.free+p.held)/2 {
			return true
		}
	}
	return false
}

// others reports whether the disk is nearly full while tasks keep a negligible amount of the supply that it lacks.
func (s space) others(held tree.Usage) bool {
	for _, p := range s.parts(held) {
		if p.tight() && !p.others() {
			return false
		}
	}
	return s.tight()
}

// heavier reports whether one task keeps more than another. It compares bytes, or files if the disk lacks files.
func (s space) heavier(a, b tree.Usage) bool {
	if s.free.Bytes >= s.size.Bytes/shareLeft {
		return a.Files > b.Files
	}
	return a.Bytes > b.Bytes
}
