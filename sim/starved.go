package sim

import (
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file owns what a machine's kernel refuses: a process that does not go though it was killed, and a launcher that
// gets no process, no descriptor or no room on the disk for a while. What runs there goes on.

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

// roomPatience is how long a launcher waits for room on the disk.
const roomPatience = 10 * time.Second

// starve leaves a machine's launcher without one of them for a while.
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

// starved ends a task that is to be prepared or started then. A full disk is not blamed on anybody: the launcher waits
// for room, and the task was never started then. Half of the time what does not fit is the job's image.
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

// endsItself is a task that exits, and may hang in that.
func (l *launcher) endsItself(t *task, code int32, oom bool) {
	if l.w.fires("unkillable") {
		l.stick(t, code, oom)
		return
	}
	l.exited(t, code, oom)
}

// stick keeps a task that was killed, or exits, as the kernel does while a file system or a driver hangs. Nothing of it
// ends, and its devices are in use, until the kernel lets go.
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
