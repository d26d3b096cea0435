package messages

import "fmt"

// This file has the checks of the driver contract. The launcher may be a separate process of another version, so its
// messages are validated like those of a remote peer.

func (x *TaskId) valid() error {
	return first(
		part("token", x.GetToken()),
		between("rank", int64(x.GetRank()), 0, MaxGangTasks-1),
	)
}

// task checks the task ID of a message.
func task(x *TaskId) error { return part("id", x) }

// Validate refuses a request without a task, spec or grant.
func (x *PrepareTask) Validate() error {
	if x.GetSpec() == nil {
		return refuse("spec", "is missing", "")
	}
	return first(
		task(x.GetId()), id("job", x.GetJob()), part("grant", x.GetGrant()), text("owner", x.GetOwner(), MaxValueBytes),
	)
}

// Validate refuses a message without a task.
func (x *TaskPrepared) Validate() error { return task(x.GetId()) }

// Validate refuses a request without a task, spec, grant or rendezvous.
func (x *StartTask) Validate() error {
	if x.GetSpec() == nil {
		return refuse("spec", "is missing", "")
	}
	return first(task(x.GetId()), id("job", x.GetJob()), part("grant", x.GetGrant()),
		part("rendezvous", x.GetRendezvous()))
}

// Validate refuses a message without a task.
func (x *TaskStarted) Validate() error { return task(x.GetId()) }

// Validate refuses a message without an exit, or with the exit of another rank.
func (x *TaskGone) Validate() error {
	return first(task(x.GetId()), part("exit", x.GetExit()), sameRank(x.GetId(), x.GetExit()))
}

// sameRank refuses the exit of another rank.
func sameRank(t *TaskId, e *Exit) error {
	if e != nil && e.GetRank() != t.GetRank() {
		return refuse("exit.rank", fmt.Sprintf("is %d, but the task is rank %d", e.GetRank(), t.GetRank()), "")
	}
	return nil
}

// Validate refuses a request without a task.
func (x *AdoptTask) Validate() error { return task(x.GetId()) }

// Validate refuses a request without a task or without a signal.
func (x *SignalTask) Validate() error {
	return first(task(x.GetId()), between("signal", int64(x.GetSignal()), 1, 64))
}

// Validate refuses a cause that is never known in advance, and a missing signal.
func (x *WarnTask) Validate() error {
	return first(
		task(x.GetId()), warning(x.GetCause()), duration("left_ms", x.GetLeftMs()),
		between("of", x.GetOf(), 0, MaxTimeUnixMs), between("signal", int64(x.GetSignal()), x.leastSignal(), 64),
		between("request", int64(x.GetRequest()), 0, maxRequest), text("subject", x.GetSubject(), maxTextBytes),
		duration("idle_ms", x.GetIdleMs()),
	)
}

// leastSignal returns 0 if the task may get only the notice: it polls for requests, or an end is withdrawn.
func (x *WarnTask) leastSignal() int64 {
	if x.GetRequest() > 0 || x.GetCause() == Cause_CAUSE_UNSPECIFIED {
		return 0
	}
	return 1
}

// Validate refuses a message without a task.
func (x *TaskWarned) Validate() error { return task(x.GetId()) }

// Validate refuses a request without a task.
func (x *StopTask) Validate() error {
	return first(task(x.GetId()), between("signal", int64(x.GetSignal()), 0, 64), duration("grace_ms", x.GetGraceMs()))
}

// Validate refuses a request without a task.
func (x *StatsTask) Validate() error { return task(x.GetId()) }

// Validate refuses values outside the limits.
func (x *TaskProgress) Validate() error {
	return first(
		task(x.GetId()),
		between("step", x.GetStep(), 0, MaxSteps),
		between("total", x.GetTotal(), 0, MaxSteps),
		between("milli_rate", x.GetMilliRate(), 0, MaxSteps),
		between("changed_ns", x.GetChangedNs(), 0, 1<<62),
		between("garbage", x.GetGarbage(), 0, MaxSteps),
		parts("metrics", x.GetMetrics(), 0, MaxMetrics),
		maybe("state", x.GetState()),
		maybe("use", x.GetUse()),
		maybe("pace", x.GetPace()),
	)
}

// Validate refuses values outside the limits.
func (x *TaskStats) Validate() error {
	return first(
		task(x.GetId()),
		between("cpu_ns", x.GetCpuNs(), 0, 1<<62),
		between("memory_bytes", x.GetMemoryBytes(), 0, MaxMemoryBytes),
		between("peak_memory_bytes", x.GetPeakMemoryBytes(), 0, MaxMemoryBytes),
		between("processes", int64(x.GetProcesses()), 0, 1<<31-1),
	)
}

// Validate refuses a request without a task, and an invalid range.
func (x *LogsTask) Validate() error {
	return first(
		task(x.GetId()),
		between("offset", x.GetOffset(), 0, 1<<62),
		between("limit_bytes", x.GetLimitBytes(), 1, MaxMessageBytes/2),
	)
}

// Validate refuses a message without a task, and too many times.
func (x *TaskLogs) Validate() error {
	return first(task(x.GetId()), between("offset", x.GetOffset(), 0, 1<<62),
		between("times", int64(len(x.GetTimes())), 0, MaxLogTimes))
}

// Validate refuses a request without a task, job or session.
func (x *ExecTask) Validate() error {
	return first(task(x.GetId()), id("job", x.GetJob()), id("session", x.GetSession()))
}

// Validate refuses a message without a task or session.
func (x *ExecRefused) Validate() error {
	return first(task(x.GetId()), id("session", x.GetSession()), text("text", x.GetText(), maxTextBytes))
}

// Validate refuses a request without a task.
func (x *ForgetTask) Validate() error { return task(x.GetId()) }

// Validate accepts every ListTasks, which has no fields.
func (x *ListTasks) Validate() error { return nil }

func (x *TaskEntry) valid() error {
	return first(
		task(x.GetId()), maybe("exit", x.GetExit()), sameRank(x.GetId(), x.GetExit()),
		between("stop.signal", int64(x.GetStop().GetSignal()), 0, 64), duration("stop.grace_ms", x.GetStop().GetGraceMs()),
	)
}

// Validate refuses a list with a repeated task.
func (x *TaskList) Validate() error {
	return first(
		maybe("health", x.GetHealth()),
		parts("tasks", x.GetTasks(), 0, maxAllocations),
		unique("tasks", x.GetTasks(), func(e *TaskEntry) [3]uint64 {
			return [3]uint64{e.GetId().GetToken().GetEpoch(), e.GetId().GetToken().GetCounter(), uint64(e.GetId().GetRank())}
		}),
	)
}

func (x *MachineHealth) valid() error { return text("unwell", x.GetUnwell(), maxTextBytes) }

// Validate refuses a check without an occasion. A check before work needs the token of the attempt.
func (x *CheckMachine) Validate() error {
	if x.GetOccasion() == CheckOccasion_CHECK_OCCASION_WORK {
		return part("token", x.GetToken())
	}
	return said("occasion", x.GetOccasion())
}

// Validate refuses a message without a result.
func (x *MachineChecked) Validate() error {
	return first(part("health", x.GetHealth()), maybe("token", x.GetToken()))
}

// Validate refuses too many uids.
func (x *UidsInUse) Validate() error { return uids(x.GetUids()) }

// Validate refuses a negative time.
func (x *KeepTasks) Validate() error { return between("heard_ns", x.GetHeardNs(), 0, 1<<62) }

// Validate refuses a message without a device.
func (x *GpuRecovered) Validate() error { return id("gpu_id", x.GetGpuId()) }

// Validate refuses a message without a device.
func (x *GpuFaulted) Validate() error {
	return first(id("gpu_id", x.GetGpuId()), text("detail", x.GetDetail(), maxTextBytes))
}
