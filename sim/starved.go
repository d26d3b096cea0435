package sim

import (
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file simulates resources that a node's kernel refuses. A killed process does not end, or a launcher gets no
// process, file descriptor or disk space for a while. Running tasks continue.

// shortage names the resource that a launcher lacks.
type shortage uint8

const (
	nothing shortage = iota
	forks
	descriptors
	diskRoom
)

func (s shortage) String() string {
	return [...]string{"nothing", "fork: resource temporarily unavailable", "too many open files",
		"the disk is full, and no room was made in time"}[s]
}

// roomPatience is the time for which a launcher waits for disk space.
const roomPatience = 10 * time.Second

// starve makes a node's launcher lack one resource for a while.
func starve(f *faults, m *machine) bool {
	l := m.launcher
	if l.lacks != nothing {
		return false
	}
	l.lacks = shortage(f.w.luck.span(int(forks), int(diskRoom)))
	d := f.w.luck.skewed(time.Second, min(2*time.Minute, 2*f.w.draw.Pace))
	f.w.say("%s lacks for %s: %s", m.address, d, l.lacks)
	f.until(d, func() { l.lacks = nothing })
	return true
}

// starved ends a task that is being prepared or started then. A full disk has no culprit: the launcher waits for
// space, and the task never started. Half of the time the job's image is what does not fit.
func (l *launcher) starved(t *task, kind messages.ExitKind, code int32) {
	why, soon := l.lacks.String(), l.w.chance.between(time.Millisecond, 2*time.Second)
	switch preparing := kind == messages.ExitKind_EXIT_KIND_PREPARE_FAILED; {
	case l.lacks != diskRoom:
		l.later(t, soon, func() { l.failed(t, kind, code, why, messages.Fault_FAULT_MACHINE) })
	case preparing && l.w.chance.chance(0.5):
		l.unprepared(t, soon, "the image does not fit on this node's disk", messages.Fault_FAULT_UNKNOWN)
	default:
		l.later(t, roomPatience, func() { l.end(t, messages.ExitKind_EXIT_KIND_NEVER_STARTED, 0, why) })
	}
}

// endsItself ends a task by its own exit, which may hang.
func (l *launcher) endsItself(t *task, code int32, oom bool) {
	if l.w.fires("unkillable") {
		l.stick(t, code, oom)
		return
	}
	l.exited(t, code, oom)
}

// stick makes a task that is killed or exits hang in the kernel, as with a hanging file system or driver. The
// task's processes do not exit, and its GPUs stay in use, until the kernel releases the task.
func (l *launcher) stick(t *task, code int32, oom bool) {
	t.stuck = true
	d := l.w.luck.skewed(10*time.Second, 10*time.Minute)
	l.w.say("%v on %s cannot be killed for %s", t.key, l.m.address, d)
	l.w.faults.until(d, func() {
		if t.stuck = false; !l.off {
			l.exited(t, code, oom)
		}
	})
}
