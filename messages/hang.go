package messages

import (
	"fmt"
	"slices"
	"time"
)

// This file owns the values about hangs: the settings of a job, their defaults, and the state of a rank that makes no
// progress.

const (
	// DefaultHangFloor is the shortest time without a step that counts as a hang, if the job names none.
	DefaultHangFloor = time.Minute
	minHangFloorMs   = 1000
	// MaxPauseBytes limits the reason of a pause that a task announces.
	MaxPauseBytes = 64
	maxCallBytes  = 32
)

// WatchesHangs reports whether the scheduler looks for hangs of a job.
func (x *JobSpec) WatchesHangs() bool { return x.GetHang().GetThen() != HangAction_HANG_ACTION_NONE }

// HangFloor returns the shortest time without a step that counts as a hang.
func (x *JobSpec) HangFloor() time.Duration {
	if ms := x.GetHang().GetFloorMs(); ms > 0 {
		return time.Duration(ms) * time.Millisecond
	}
	return DefaultHangFloor
}

func (x *JobSpec) validHang() error {
	h := x.GetHang()
	switch {
	case h == nil:
		return nil
	case h.GetFloorMs() != 0 && h.GetFloorMs() < minHangFloorMs:
		return refuse("hang.floor_ms", fmt.Sprintf("is %d, less than a second", h.GetFloorMs()), "use 1s or more")
	case slices.Contains(deafTo, h.GetDump()):
		return refuse("hang.dump", fmt.Sprintf("is %d, which ends or stops a task", h.GetDump()),
			"use a signal that the task handles, such as SIGUSR1 with Python's faulthandler.register")
	}
	return first(
		between("hang.then", int64(h.GetThen()), 0, int64(HangAction_HANG_ACTION_NONE)),
		duration("hang.floor_ms", h.GetFloorMs()),
		between("hang.dump", int64(h.GetDump()), 0, 64),
	)
}

// valid refuses a state outside the limits.
func (x *RankState) valid() error {
	return first(
		between("rank", int64(x.GetRank()), 0, MaxGangTasks-1),
		between("step", x.GetStep(), 0, MaxSteps),
		between("changed_ns", x.GetChangedNs(), 0, 1<<62),
		between("quiet_ns", x.GetQuietNs(), 0, 1<<62),
		text("pause", x.GetPause(), MaxPauseBytes),
		text("call", x.GetCall(), maxCallBytes),
		between("unread_bytes", x.GetUnreadBytes(), 0, MaxMemoryBytes),
	)
}

// valid refuses a finding that no leader can have written.
func (x *Stall) valid() error {
	return first(
		between("rank", int64(x.GetRank()), -1, MaxGangTasks-1),
		text("node", x.GetNode(), MaxIDBytes),
		text("call", x.GetCall(), maxCallBytes),
		between("since_unix_ms", x.GetSinceUnixMs(), 0, MaxTimeUnixMs),
		between("step", x.GetStep(), 0, MaxSteps),
		text("text", x.GetText(), maxTextBytes),
		text("why", x.GetWhy(), maxTextBytes),
	)
}
