package launcher

import (
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/reserve"
	"github.com/yi-json/synapse/runtime/tree"
)

// This file owns how much of a machine's disk a task may keep, when the disk is too full for what all tasks keep, and
// when that is not their fault.

const (
	// shareOfFree is what a task may keep where its job says nothing: a tenth of what is free when it is prepared.
	shareOfFree = 10
	// defaultFiles bounds the number of files by default: a walk counts that many in a second or two. A job that asks for
	// more of the disk may have one more file for each bytesPerFile, the ratio with which file systems are made.
	defaultFiles = 1 << 20
	bytesPerFile = 16 << 10
	// shareLeft is what all tasks together leave free: a twentieth of the disk.
	shareLeft = reserve.Tasks
	// What a task may keep in any case: it covers what the agent itself puts there.
	leastBytes = 1 << 20
	leastFiles = 256
	// Up to this part of a disk, and up to this amount, what tasks keep is next to nothing: to end them would not make
	// room.
	shareLittle = 200
	littleBytes = 64 << 20
	littleFiles = 4096
)

// space holds the size of a file system, in bytes and files. A file system that does not count files has very many.
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

// unpromised is the disk without what is promised to tasks, and without what all tasks leave free.
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

// parts are the two things that a disk can lack.
func (s space) parts(held tree.Usage) [2]supply {
	return [2]supply{
		{s.size.Bytes, s.free.Bytes, held.Bytes, littleBytes},
		{s.size.Files, s.free.Files, held.Files, littleFiles},
	}
}

// supply says how much there is of one of them, how much of it is free, what tasks hold, and what would be little.
type supply struct{ size, free, held, little int64 }

func (p supply) tight() bool { return p.free < p.size/shareLeft }

// others reports whether something else than tasks holds it.
func (p supply) others() bool { return p.held <= min(p.size/shareLittle, p.little) }

// tight reports whether less than a twentieth of the disk is free: then nothing is kept of tasks that have ended.
func (s space) tight() bool {
	parts := s.parts(tree.Usage{})
	return parts[0].tight() || parts[1].tight()
}

// full reports whether tasks that keep this much must end to make room. Where something else than tasks fills the disk,
// tasks need only leave half of what there was for them: to end them all would not free a twentieth. Where they have
// next to nothing none ends.
func (s space) full(held tree.Usage) bool {
	for _, p := range s.parts(held) {
		if p.tight() && !p.others() && p.free < (p.free+p.held)/2 {
			return true
		}
	}
	return false
}

// others reports whether the disk is nearly full and tasks that keep this much have next to nothing of what it lacks.
func (s space) others(held tree.Usage) bool {
	for _, p := range s.parts(held) {
		if p.tight() && !p.others() {
			return false
		}
	}
	return s.tight()
}

// heavier compares what two tasks keep of a disk: by bytes, or by files where those are what the disk lacks.
func (s space) heavier(a, b tree.Usage) bool {
	if s.free.Bytes >= s.size.Bytes/shareLeft {
		return a.Files > b.Files
	}
	return a.Bytes > b.Bytes
}
